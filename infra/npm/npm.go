// Package npm installs what a package-lock.json names, and nothing else.
package npm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// ErrMissing says that there is no npm on PATH.
var ErrMissing = errors.New("npm is not here")

// Install runs npm ci in a folder that holds package.json and package-lock.json,
// and tells log what npm says. Packages' own scripts are not run. Where it fails,
// the error is one line with npm's reason.
func Install(ctx context.Context, dir string, log io.Writer) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return ErrMissing
	}
	cmd := exec.CommandContext(ctx, npm, "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	cmd.WaitDelay = time.Second // npm's children may hold its output open
	var said bytes.Buffer
	// One writer for both: of two, os/exec writes to each from a goroutine of its own.
	both := io.MultiWriter(log, &said)
	cmd.Stdout, cmd.Stderr = both, both
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, firstError(said.String()))
	}
	return nil
}

// firstError picks the line of npm's that says what was wrong.
func firstError(said string) string {
	first := ""
	for line := range strings.Lines(said) {
		text, isError := strings.CutPrefix(strings.TrimSpace(line), "npm error ")
		if !isError {
			continue
		}
		if first == "" || strings.HasPrefix(first, "code ") {
			first = text
		}
	}
	return first
}
