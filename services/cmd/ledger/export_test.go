package main

import (
	"os"
	"strings"
	"testing"
)

// TestVerifyExport: each bad file is a finding; a missing file is not.
func TestVerifyExport(t *testing.T) {
	onlyEnviron(t, nil)
	const folder = "../../../events/verify/testdata/export/"
	verify := func(args string, want int, says string) {
		t.Helper()
		var out strings.Builder
		if code := run(strings.Fields("verify-export "+args), &out); code != want || !strings.Contains(out.String(), says) {
			t.Errorf("%s: exit code %d, %s", args, code, out.String())
		}
	}
	verify(folder+"good.ndjson", 0, "good: the first 5 leaves")
	verify(folder+"good-empty.ndjson", 0, "not anchored")
	// It is not wrong: it was made too early.
	verify(folder+"good-empty.ndjson --rpc http://127.0.0.1:1", exitNotAnchored, "not anchored")
	verify(folder+"good-not-anchored.ndjson --rpc http://127.0.0.1:1", exitNotAnchored, "not anchored")
	verify(folder+"good.ndjson --rpc http://127.0.0.1:1", exitUsage, "good: the first 5 leaves")
	verify(folder+"none.ndjson", exitUsage, "")
	bad, err := os.ReadDir(folder + "bad")
	if err != nil || len(bad) == 0 {
		t.Fatal(err)
	}
	for _, file := range bad {
		verify(folder+"bad/"+file.Name(), exitFinding, "")
	}
}
