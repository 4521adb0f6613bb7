package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/services/run/adminlog"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

// adminLog prints what operators did: a line when an act began, and one when it ended.
func (t *tailing) adminLog(ctx context.Context, out io.Writer) error {
	cfg, err := loadFor(config.NeedLog)
	if err != nil {
		return err
	}
	var lines []string
	err = assembly.AdminLog(ctx, cfg, t.from, func(e adminlog.Entry) error {
		line := adminLine(e)
		if t.json {
			text, err := json.Marshal(e, json.Deterministic(true))
			if err != nil {
				return err
			}
			line = string(harmless(text))
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		return err
	}
	if t.newest > 0 {
		lines = lines[len(lines)-min(len(lines), int(t.newest)):]
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

func adminLine(e adminlog.Entry) string {
	words := []string{fmt.Sprintf("%8d  %s  %-8s %-7s %s@%s", e.Sequence, e.Time.UTC().Format(time.RFC3339), e.Act, e.State, e.By.User, e.By.Host)}
	if e.By.NATS != "" {
		words = append(words, "nats="+e.By.NATS)
	}
	for _, name := range slices.Sorted(maps.Keys(e.About)) {
		words = append(words, name+"="+e.About[name])
	}
	if e.Error != "" {
		words = append(words, "error: "+e.Error)
	}
	return verify.Printable(strings.Join(words, " "))
}
