package events

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// PartitionCount is how many partitions owners are divided into. Every subject
// names its owner's partition.
const PartitionCount = 256

// Partitions is the run of partitions that a worker takes: from First up to, not
// including, End. The zero value holds none.
type Partitions struct{ First, End int }

// AllPartitions holds every partition.
var AllPartitions = Partitions{0, PartitionCount}

// ErrPartitions: a text does not name a run of partitions.
var ErrPartitions = errors.New(`not a run of partitions, such as "00-7f"`)

// ParsePartitions reads the first and the last partition of a run, in the form that
// subjects use: "00-7f" is the lower half.
func ParsePartitions(text string) (Partitions, error) {
	first, last, found := strings.Cut(text, "-")
	a, okFirst := parsePartition(first)
	b, okLast := parsePartition(last)
	if !found || !okFirst || !okLast || a > b {
		return Partitions{}, fmt.Errorf("%w: %q", ErrPartitions, text)
	}
	return Partitions{a, b + 1}, nil
}

func parsePartition(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 16, 8)
	return int(n), err == nil && len(text) == 2 && text == strings.ToLower(text)
}

// String returns the form that ParsePartitions reads.
func (r Partitions) String() string { return fmt.Sprintf("%02x-%02x", r.First, r.End-1) }

// Count returns the number of partitions in the run.
func (r Partitions) Count() int { return r.End - r.First }

// Has reports whether a partition is in the run.
func (r Partitions) Has(partition int) bool { return r.First <= partition && partition < r.End }

// PartitionOf returns an owner's partition.
func PartitionOf(o Owner) int { return int(sha256.Sum256([]byte(o))[0]) }

// PartitionIn reads the partition that a subject names. It returns false if there is none;
// the subject's parser reports that error.
func PartitionIn(subject string) (int, bool) {
	_, rest, _ := strings.Cut(subject, ".")
	partition, _, _ := strings.Cut(rest, ".")
	return parsePartition(partition)
}
