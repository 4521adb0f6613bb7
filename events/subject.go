package events

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/memory-ledger/ledger/events/verify/leaf"
)

// Family is the first token of a subject: who decides the events below it.
// An owner's version is counted within a family. So the process that records
// chain events under "chain" never collides with the owner's own writes under
// "ledger".
type Family string

// The two families, and a wildcard for both that is only for reading messages.
const (
	FamilyLedger Family = "ledger" // decided by the APIs
	FamilyChain  Family = "chain"  // of batches and stakes on the chain
	FamilyAny    Family = "*"
)

// SubjectKind is the last token of a subject.
type SubjectKind string

// Kinds of the ledger family, then of the chain family.
const (
	KindMemory  SubjectKind = "memory"
	KindGrant   SubjectKind = "grant"
	KindSession SubjectKind = "session"
	KindKey     SubjectKind = "key"

	KindBatch SubjectKind = "batch"
	KindStake SubjectKind = "stake"
)

// Subject is "<family>.<partition>.<owner>.<kind>".
type Subject struct {
	Family Family
	Owner  Owner
	Kind   SubjectKind
}

// String returns the subject as the log knows it.
func (s Subject) String() string {
	return string(s.Family) + "." + partitionOf(s.Owner) + "." + string(s.Owner) + "." + string(s.Kind)
}

// OwnerFilter matches every message of an owner within a family. All writers
// state their expectation with exactly this string: the log compares filters as
// texts, so two spellings would guard two different things.
func OwnerFilter(f Family, o Owner) string {
	return string(f) + "." + partitionOf(o) + "." + string(o) + ".>"
}

// ErrSubject says that a subject is not one of ours.
var ErrSubject = errors.New("not a subject of the ledger")

// ParseSubject takes a subject apart and checks its partition.
func ParseSubject(s string) (Subject, error) {
	part := strings.Split(s, ".")
	if len(part) != 4 || (part[0] != string(FamilyLedger) && part[0] != string(FamilyChain)) {
		return Subject{}, fmt.Errorf("%w: %q", ErrSubject, s)
	}
	owner, err := ParseOwner(part[2])
	if err != nil || partitionOf(owner) != part[1] {
		return Subject{}, fmt.Errorf("%w: %q", ErrSubject, s)
	}
	return Subject{Family: Family(part[0]), Owner: owner, Kind: SubjectKind(part[3])}, nil
}

// Admits returns ErrMalformed if a message with this subject must not hold these events:
// events of another owner, or of a type that the catalogue does not list under the
// subject's kind. The log server decides who may append under a subject, so a type under
// another kind's subject would bypass the server's permissions.
func (s Subject) Admits(batch []Event) error {
	for i := range batch {
		e := &batch[i]
		if e.Owner != s.Owner {
			return fmt.Errorf("%w: events of %s under the subject of %s", ErrMalformed, e.Owner, s.Owner)
		}
		if !slices.Contains(current.forms[e.Type()].definition.Kinds, s.Kind) {
			return fmt.Errorf("%w: %s under a subject of kind %s", ErrMalformed, e.Type(), s.Kind)
		}
	}
	if chain := s.Kind == KindBatch || s.Kind == KindStake; chain != (s.Family == FamilyChain) {
		return fmt.Errorf("%w: kind %s in family %s", ErrMalformed, s.Kind, s.Family)
	}
	return nil
}

// Owner and Hash are defined beside the leaf, so that a verifier needs no event.
type (
	// Owner is a wallet's public key in base58. It names the person a log belongs to.
	Owner = leaf.Owner
	// Hash is a SHA-256 digest.
	Hash = leaf.Hash
)

// HashSize is the length of every hash and root in bytes.
const HashSize = leaf.HashSize

// ParseOwner checks the form of a public key.
func ParseOwner(s string) (Owner, error) { return leaf.ParseOwner(s) }

// OwnerFromBytes encodes a 32-byte public key.
func OwnerFromBytes(key [32]byte) Owner { return leaf.OwnerFromBytes(key) }

// partitionOf returns the partition that an owner's subjects name, one of 256, so that
// owners can be divided among deployments: the first byte of SHA-256 of the owner's text.
func partitionOf(o Owner) string {
	sum := sha256.Sum256([]byte(o))
	return hex.EncodeToString(sum[:1])
}
