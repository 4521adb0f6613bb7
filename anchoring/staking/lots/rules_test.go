package lots_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/anchoring/staking/lots"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{"1": 1, "10": 10, "18446744073709551615": math.MaxUint64} {
		if got, err := lots.Parse(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "0", "00", "01", "-1", "+1", " 1", "1 ", "1\n", "1e3", "1.0", "1_000", "0x10", "١", "１", "NaN",
		"18446744073709551616", "99999999999999999999", "100000000000000000000", strings.Repeat("9", 1000),
	} {
		if _, err := lots.Parse(text); !errors.Is(err, lots.ErrAmount) {
			t.Errorf("%.30q: %v", text, err)
		}
	}
}

func TestUnstake(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		amount, staked, least uint64
		want                  error
	}{
		{5, 10, 5, nil}, {4, 10, 5, lots.ErrBelowMinimum}, {4, 4, 5, nil}, {11, 10, 0, lots.ErrMoreThanStaked},
		{1, 0, 0, lots.ErrMoreThanStaked}, {10, 10, 100, nil}, {math.MaxUint64, math.MaxUint64, math.MaxUint64, nil},
	} {
		if err := lots.Unstake(test.amount, test.staked, test.least); !errors.Is(err, test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
