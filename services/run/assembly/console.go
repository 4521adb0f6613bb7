package assembly

import "log/slog"

// Console shows a person what a local run does. Its methods may be called at the
// same time.
type Console interface {
	// Opened comes first, when the data folder belongs to this run. It returns where
	// the run's log goes.
	Opened(folder string) (*slog.Logger, error)
	// Doing says what begins now and may take long.
	Doing(what string)
	// Up says that both APIs answer.
	Up(Up)
	// Say reports a change since then.
	Say(line string)
}

// Up is where a local run answers.
type Up struct {
	Core, Extension string // base URLs
	Folder          string // its data
	Chain           string // in words
}
