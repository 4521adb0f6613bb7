package httpapi

import (
	"math"
	"strings"
	"testing"
)

func TestWholeNumber(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"0": 0, "-0": 0, "0.0": 0, "-0.000e5": 0, "0e99999999999999999999": 0, "15": 15, "15.0": 15, "15.000": 15,
		"1.5e1": 15, "1.5E+1": 15, "150e-1": 15, "0.15e2": 15, "0.0015e4": 15, "15e0": 15, "-15.0": -15, "100": 100, "1e2": 100,
		"1e18": 1e18, "9223372036854775807": math.MaxInt64, "-9223372036854775808.0": math.MinInt64,
		"9.223372036854775807e18": math.MaxInt64,
	} {
		if got, ok := wholeNumber(text); !ok || got != want {
			t.Errorf("%s: %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"15.5", "0.1", "1.5e0", "15e-1", "1e-2", "15.00000000000000000000000000001", "9007199254740993.5",
		"9223372036854775808", "-9223372036854775809", "1e19", "1e400", "1e1000000000", "1e-1000000000",
		"1e9223372036854775807", "123e9223372036854775807", "1e-9223372036854775808", "1e99999999999999999999",
		"0." + strings.Repeat("0", 50) + "1",
	} {
		if got, ok := wholeNumber(text); ok {
			t.Errorf("%s: %d", text, got)
		}
	}
}

// TestPlainIntegers: a list of integers is rewritten in the form that its reader knows.
// Any other list is left for the reader to refuse.
func TestPlainIntegers(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`[1, 2.0, 3e1, -0]`: `[1,2,30,0]`, `[]`: `[]`,
		`[1.5]`: `[1.5]`, `[1.0,null]`: `[1.0,null]`, `["1"]`: `["1"]`, `[[1.0]]`: `[[1.0]]`, `"1.0"`: `"1.0"`, `null`: `null`,
	} {
		if got := plainIntegers([]byte(in)); string(got) != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}
