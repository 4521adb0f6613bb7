// Package partition divides the owners among workers. Every subject names its
// owner's partition, one of 256; a worker takes a run of them.
package partition

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/memory-ledger/ledger/events"
)

// Count is how many partitions owners are divided into.
const Count = 256

// Run is the partitions from First up to, not including, End. The zero value
// holds none.
type Run struct{ First, End int }

// All is every partition there is.
var All = Run{0, Count}

// ErrRun: a text does not name a run of partitions.
var ErrRun = errors.New(`not a run of partitions, such as "00-7f"`)

// Parse reads the first and the last partition of a run, as subjects have them:
// "00-7f" is the lower half.
func Parse(text string) (Run, error) {
	first, last, found := strings.Cut(text, "-")
	a, okFirst := parseOne(first)
	b, okLast := parseOne(last)
	if !found || !okFirst || !okLast || a > b {
		return Run{}, fmt.Errorf("%w: %q", ErrRun, text)
	}
	return Run{a, b + 1}, nil
}

func parseOne(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 16, 8)
	return int(n), err == nil && len(text) == 2 && text == strings.ToLower(text)
}

// String is the form that Parse reads.
func (r Run) String() string { return fmt.Sprintf("%02x-%02x", r.First, r.End-1) }

// Count returns how many there are in the run.
func (r Run) Count() int { return r.End - r.First }

// Has reports whether a partition is in the run.
func (r Run) Has(partition int) bool { return r.First <= partition && partition < r.End }

// Of returns an owner's partition.
func Of(o events.Owner) int {
	n, ok := parseOne(o.Partition())
	if !ok {
		panic("partition: two hex digits name a partition")
	}
	return n
}

// In reads the partition that a subject names. It reports false where there is
// none, which is for the subject's parser to complain of.
func In(subject string) (int, bool) {
	_, rest, _ := strings.Cut(subject, ".")
	partition, _, _ := strings.Cut(rest, ".")
	return parseOne(partition)
}
