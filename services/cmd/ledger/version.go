package main

import "runtime/debug"

// released is the version of this program: `make generate` writes it, from the file VERSION.
const released = "1.0.0"

// version returns the version, the revision if the build knows it, and whether the working
// tree had changes.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return released
	}
	text := released
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if revision := settings["vcs.revision"]; revision != "" {
		text += " revision " + revision
		if settings["vcs.modified"] == "true" {
			text += " with changes"
		}
	}
	return text + " " + info.GoVersion
}
