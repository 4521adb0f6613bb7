package main

import (
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
