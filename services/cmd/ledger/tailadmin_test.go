package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/services/run/adminlog"
)

// TestWhatOperatorsDidIsRecorded: acts, by whom and how they ended, are in the admin log,
// which an auditor reads. An act that can't be recorded is not begun.
func TestWhatOperatorsDidIsRecorded(t *testing.T) {
	urlOf := deployed(t)
	owner := write(t, urlOf("core"), 1)
	copies := filepath.Join(t.TempDir(), "copies")
	as := func(user string) {
		t.Helper()
		onlyEnviron(t, map[string]string{"NATS_URL": urlOf(user), "LEDGER_DATA_DIR": t.TempDir(), "SUDO_USER": "alice"})
	}
	as("auditor")
	if out, err := ledger(t.Context(), "tail", "--admin"); out != "" || err != nil {
		t.Errorf("before the first act: %q, %v", out, err)
	}
	as("admin")
	for args, good := range map[string]bool{"backup " + copies: true, "forget " + string(owner) + " --yes": false} {
		if out, err := ledger(t.Context(), strings.Fields(args)...); (err == nil) != good { // the owner has no key
			t.Fatalf("%s: %s, %v", args, out, err)
		}
	}
	if _, err := ledger(t.Context(), "backup", copies); err == nil {
		t.Error("a second backup into the same folder")
	}
	as("auditor")
	out, err := ledger(t.Context(), "tail", "--admin", "--json")
	must(t, err)
	ends := map[string][]adminlog.Entry{}
	for line := range strings.Lines(out) {
		var entry adminlog.Entry
		must(t, json.Unmarshal([]byte(line), &entry))
		if entry.By.NATS != "admin" || !strings.HasPrefix(entry.By.User, "alice as ") || time.Since(entry.Time).Abs() > time.Minute {
			t.Errorf("by whom and when: %s", line)
		}
		ends[entry.ID] = append(ends[entry.ID], entry)
	}
	var acts []string
	for _, both := range ends {
		if len(both) != 2 || both[0].State != adminlog.Begun || both[0].Sequence >= both[1].Sequence {
			t.Errorf("%+v", both)
			continue
		}
		acts = append(acts, both[1].Act+" "+string(both[1].State))
		switch {
		case both[0].Act == "forget" && both[0].About["owner"] != string(owner), both[0].Act == "backup" && both[0].About["to"] != copies,
			both[1].State == adminlog.Failed && !strings.Contains(both[1].Error, "not empty"):
			t.Errorf("%+v", both)
		}
	}
	if got := strings.Join(acts, ", "); len(acts) != 3 || !strings.Contains(got, "backup done") || !strings.Contains(got, "backup failed") || !strings.Contains(got, "forget done") {
		t.Error(got)
	}
	if out, err := ledger(t.Context(), "tail", "--admin", "-n", "1"); err != nil || strings.Count(out, "\n") != 1 || !strings.Contains(out, "failed") || !strings.Contains(out, "nats=admin") {
		t.Errorf("%s, %v", out, err)
	}

	// A server that stores no record: the owner keeps the key.
	as("admin")
	js, err := jetstream.New(dial(t, urlOf("admin")))
	must(t, err)
	stream, err := js.Stream(t.Context(), adminlog.Stream)
	must(t, err)
	full := stream.CachedInfo().Config
	full.MaxMsgs = int64(stream.CachedInfo().State.Msgs)
	must(t, errorOf(js.UpdateStream(t.Context(), full)))
	log, err := js.Stream(t.Context(), "LEDGER")
	must(t, err)
	before := log.CachedInfo().State.LastSeq
	other := write(t, urlOf("core"), 1)
	if _, err := ledger(t.Context(), "forget", string(other), "--yes"); err == nil || !strings.Contains(err.Error(), "forget is not begun, because it can't be recorded") {
		t.Errorf("unrecorded: %v", err)
	}
	if is, err := log.Info(t.Context()); err != nil || is.State.LastSeq != before+2 {
		t.Errorf("an act that is not recorded wrote: %+v, %v", is, err)
	}
}
