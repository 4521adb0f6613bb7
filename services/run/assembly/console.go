package assembly

import (
	"log/slog"

	"github.com/memory-ledger/ledger/infra/npm"
)

// Console shows a person what a local run does. Its methods may be called concurrently.
type Console interface {
	// Opened is called first, once the data folder belongs to this run. It returns the
	// run's logger.
	Opened(folder string) (*slog.Logger, error)
	// Doing reports a step that begins now and may take long.
	Doing(what string)
	// Fetching reports the progress of a download.
	Fetching(npm.Progress)
	// Up reports that both APIs answer.
	Up(Up)
	// Say reports a later change.
	Say(line string)
}

// Up describes a local run that is up.
type Up struct {
	Core, Extension string // base URLs
	Folder          string // the data folder
	Chain           string // in words
}
