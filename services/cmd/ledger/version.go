package main

import (
	"cmp"
	"runtime/debug"
)

// version describes the build of this program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "of unknown origin"
	}
	return versionOf(info)
}

// versionOf returns the module's version, the revision if the build knows it, and whether
// the working tree had changes.
func versionOf(info *debug.BuildInfo) string {
	text := cmp.Or(info.Main.Version, "(devel)")
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
