//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestInterruptedInput: a command that waits for the rest of its input ends at Ctrl-C.
func TestInterruptedInput(t *testing.T) {
	if args := os.Getenv("TEST_COMMAND"); args != "" {
		os.Exit(run(strings.Fields(args), os.Stdout))
	}
	for _, args := range []string{"verify-receipt -", "verify-export -"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestInterruptedInput$")
		cmd.Env = append(os.Environ(), "TEST_COMMAND="+args)
		in, err := cmd.StdinPipe()
		must(t, err)
		must(t, cmd.Start())
		must(t, errorOf(in.Write([]byte(strings.Repeat(" ", 256<<10))))) // more than a pipe holds: it reads
		must(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGINT {
			t.Errorf("%s: %v", args, cmd.ProcessState)
		}
	}
}
