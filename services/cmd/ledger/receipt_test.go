package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVerifyReceiptIsToldWhose: an authority means something only together with its
// program.
func TestVerifyReceiptIsToldWhose(t *testing.T) {
	onlyEnviron(t, nil)
	const (
		receipt   = "verify-receipt ../../../docs/journey/receipt.json"
		program   = " --program 8C3odsbKGYCEipcgRMnCek1xY9oXRbmqKpEkFaeoF9Cp"
		authority = " --authority 2kAiQNWWtXy8bTzmgMUhQFHAmuPyNSxmUVZ96PAbHi1g"
		stranger  = "9qVEsM5xVLiHf8FdiLeisn9Wfy5iYau3pQgTVxxXDPQu"
		commits   = "commits to this owner's log"
	)
	for args, want := range map[string]struct {
		code  int
		named bool // who committed
	}{
		receipt:                       {0, false},
		receipt + program:             {0, false},
		receipt + program + authority: {0, true},
		receipt + authority:           {exitUsage, false},
		receipt + program + " --authority " + stranger: {exitFinding, false},
		receipt + " --program " + stranger + authority: {exitFinding, false},
	} {
		var out strings.Builder
		if code := run(strings.Fields(args), &out); code != want.code || strings.Contains(out.String(), commits) != want.named {
			t.Errorf("%s: exit code %d, %s", args, code, out.String())
		}
	}
}

// TestVerifyReceiptBeforeItsAnchor: a receipt that was saved before its anchor is good
// offline. Where an anchor is asked for, it is not anchored yet, and not wrong. A later
// receipt completes it.
func TestVerifyReceiptBeforeItsAnchor(t *testing.T) {
	onlyEnviron(t, nil)
	const (
		folder  = "../../../events/verify/testdata/receipt/"
		early   = "verify-receipt " + folder + "good-not-anchored.json"
		program = " --program 8C3odsbKGYCEipcgRMnCek1xY9oXRbmqKpEkFaeoF9Cp"
	)
	done := filepath.Join(t.TempDir(), "done.json")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{early, 0, "not anchored when the receipt was made"},
		{early + program, exitNotAnchored, ""},
		{early + " --rpc http://127.0.0.1:1", exitNotAnchored, "good: leaf 2"},
		{early + " --complete " + done + " --later " + folder + "good-not-anchored.json", exitNotAnchored, ""},
		{early + " --complete " + done + " --later ../../../docs/journey/receipt.json", exitFinding, ""},
		{early + " --complete " + done + " --later " + folder + "bad/batchroot-altered.json", exitFinding, ""},
		{early + " --complete " + done, exitUsage, ""},
		{early + " --complete " + done + program + " --rpc http://127.0.0.1:1", exitUsage, ""},
		{early + " --later " + folder + "good.json", exitUsage, ""},
		{early + program + " --complete " + done + " --later " + folder + "good.json", 0, "good: that tree is a prefix of the 11 leaves"},
		{"verify-receipt " + done + program, 0, "good: that tree is a prefix of the 11 leaves"},
	} {
		if _, err := os.Stat(done); err == nil && c.code != 0 {
			t.Fatalf("before %s: a receipt was written", c.args)
		}
		var out strings.Builder
		if code := run(strings.Fields(c.args), &out); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: exit code %d, %s", c.args, code, out.String())
		}
	}
}

// TestAReceiptIsCompletedInPlace: the completed receipt may replace the receipt itself. Until
// it is written whole, as on a full disk, the old one is there.
func TestAReceiptIsCompletedInPlace(t *testing.T) {
	onlyEnviron(t, nil)
	const folder = "../../../events/verify/testdata/receipt/"
	early, err := os.ReadFile(folder + "good-not-anchored.json")
	must(t, err)
	receipt := filepath.Join(t.TempDir(), "receipt.json")
	must(t, os.WriteFile(receipt, early, 0o600))
	old, err := os.Open(receipt)
	must(t, err)
	defer old.Close()
	if code := run(strings.Fields("verify-receipt "+receipt+" --complete "+receipt+" --later "+folder+"good.json"), io.Discard); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if kept, err := io.ReadAll(old); err != nil || !bytes.Equal(kept, early) {
		t.Errorf("the old receipt was overwritten: %d of %d bytes, %v", len(kept), len(early), err)
	}
	if done, err := os.ReadFile(receipt); err != nil || !bytes.Contains(done, []byte(`"committedSize":11`)) {
		t.Errorf("%s, %v", done, err)
	}
}
