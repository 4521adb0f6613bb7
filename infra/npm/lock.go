package npm

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// pkg is one package of a lock file.
type pkg struct {
	folder    string // where it is unpacked: node_modules/…
	name      string // in the registry
	version   string
	integrity string // "sha512-" and base64
}

// entry is the part of a lock file's entry that decides what is fetched.
type entry struct {
	Version   string `json:"version,omitempty"`
	Integrity string `json:"integrity,omitempty"`
	Optional  bool   `json:"optional,omitempty"`
	OS        list   `json:"os,omitempty"`
	CPU       list   `json:"cpu,omitempty"`
	Libc      list   `json:"libc,omitempty"`
}

// list is a list of strings. A package may write one string instead.
type list []string

func (l *list) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*l = list{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(l))
}

// platform is this system in npm's words.
type platform struct{ os, cpu, libc string }

func here() platform {
	p := platform{os: runtime.GOOS, cpu: runtime.GOARCH}
	if p.cpu == "amd64" {
		p.cpu = "x64"
	}
	if p.os == "linux" {
		p.libc = "glibc"
		if loaders, _ := filepath.Glob("/lib/ld-musl-*"); len(loaders) > 0 { // the pattern is constant
			p.libc = "musl"
		}
	}
	return p
}

// parse returns the packages of a lock file (version 3) that the platform needs: of the
// optional ones those that suit it. Our lock files have none for development, no links, and
// no list of systems that a package does not run on.
func parse(lock []byte, on platform) ([]pkg, error) {
	var file struct {
		Packages map[string]entry `json:"packages"`
	}
	if err := json.Unmarshal(lock, &file); err != nil {
		return nil, fmt.Errorf("package-lock.json: %w", err)
	}
	var packages []pkg
	for folder, e := range file.Packages {
		switch {
		case folder == "": // the project itself
		case e.suits(on):
			below := strings.Split(folder, modules)
			packages = append(packages, pkg{folder: folder, name: below[len(below)-1], version: e.Version, integrity: e.Integrity})
		case !e.Optional:
			return nil, fmt.Errorf("package-lock.json: %s does not run on %s/%s", folder, on.os, on.cpu)
		}
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("there is no package for %s/%s", on.os, on.cpu)
	}
	slices.SortFunc(packages, func(a, b pkg) int { return strings.Compare(a.folder, b.folder) })
	return packages, nil
}

// modules is the folder in which npm puts packages, also those of a package.
const modules = "node_modules/"

func (e entry) suits(on platform) bool {
	return allows(e.OS, on.os) && allows(e.CPU, on.cpu) && (on.libc == "" || allows(e.Libc, on.libc))
}

// allows reports whether a list of npm admits a value: an empty list admits all.
func allows(list list, value string) bool { return len(list) == 0 || slices.Contains(list, value) }

// tarball returns the path of the package's archive at a registry.
func (p pkg) tarball() string {
	return p.name + "/-/" + path.Base(p.name) + "-" + p.version + ".tgz"
}
