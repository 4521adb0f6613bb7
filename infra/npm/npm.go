// Package npm installs exactly the packages that a package-lock.json names.
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
// and writes npm's output to log. It does not run the packages' own scripts. If npm
// fails, the error is one line with npm's reason.
func Install(ctx context.Context, dir string, log io.Writer) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return ErrMissing
	}
	cmd := exec.CommandContext(ctx, npm, "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	cmd.WaitDelay = time.Second // npm's children may hold its output open
	var said bytes.Buffer
	// Use one writer for both: os/exec would write to two writers from two goroutines.
	both := io.MultiWriter(log, &said)
	cmd.Stdout, cmd.Stderr = both, both
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, firstError(said.String()))
	}
	return nil
}

// firstError picks the line of npm's output that gives the reason.
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
