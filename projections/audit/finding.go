package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/memory-ledger/ledger/events"
)

// Check names a kind of finding.
type Check string

const (
	CheckDecode   Check = "decode"       // a message does not decode, or does not match its subject
	CheckVersion  Check = "version"      // owner versions are not contiguous
	CheckUnique   Check = "unique"       // an id was used twice
	CheckLeaf     Check = "leaf"         // leaf indexes have a gap, or a leaf hash does not match its content
	CheckGrant    Check = "grant"        // a grant was overspent, or used after it ended
	CheckKey      Check = "credential"   // a key or session was used or ended against the rules
	CheckBatch    Check = "batch"        // a recorded root differs from the root at that size
	CheckReadRow  Check = "read model"   // a row of the read models differs
	CheckTile     Check = "tree cache"   // a tile differs
	CheckOnchain  Check = "chain"        // the commitment account disagrees
	CheckReplica  Check = "replica"      // a node lacks a message of the log, or has a different one
	CheckSequence Check = "log sequence" // the log ends before the position of the read models
)

type Finding struct {
	Check     Check        `json:"check"`
	Owner     events.Owner `json:"owner,omitzero"`
	LeafIndex *uint64      `json:"leafIndex,omitzero"`
	Seq       uint64       `json:"sequence,omitzero"`
	Table     string       `json:"table,omitzero"`
	Row       string       `json:"row,omitzero"`    // the row's key
	Column    string       `json:"column,omitzero"` // empty if the whole row is missing or extra
	Detail    string       `json:"detail"`
}

// String returns the finding as text for people.
func (f Finding) String() string {
	leaf, seq := "", ""
	if f.LeafIndex != nil {
		leaf = fmt.Sprint(*f.LeafIndex)
	}
	if f.Seq != 0 {
		seq = fmt.Sprint(f.Seq)
	}
	text := string(f.Check) + ":"
	for _, part := range [][2]string{{"owner", string(f.Owner)}, {"leaf", leaf}, {"sequence", seq}, {"table", f.Table}, {"row", f.Row}, {"column", f.Column}} {
		if part[1] != "" {
			text += " " + part[0] + " " + part[1]
		}
	}
	return text + ": " + f.Detail
}

// Summary counts the things that an audit checked.
type Summary struct {
	Through          uint64         `json:"through"` // newest sequence that was checked
	Messages         uint64         `json:"messages"`
	Events           uint64         `json:"events"`
	Owners           uint64         `json:"owners"`
	Leaves           uint64         `json:"leaves"`
	LeavesRecomputed uint64         `json:"leavesRecomputed"` // from sealed content
	BatchRoots       uint64         `json:"batchRoots"`       // recorded roots that were recomputed
	Rows             map[string]int `json:"rows,omitzero"`    // rows compared, by table
	Accounts         uint64         `json:"accounts"`         // commitment accounts compared
	Findings         uint64         `json:"findings"`
	// NotChecked lists the parts that could not be checked, and why.
	NotChecked []string `json:"notChecked"`
	// Incomplete lists the entries of NotChecked that were requested or configured: a
	// chain that did not answer, a master key that opens nothing, read models that did
	// not catch up, an owner that the log lacks.
	Incomplete []string `json:"incomplete,omitzero"`
}

// Good reports whether every configured part was checked, and no finding was made.
func (s *Summary) Good() bool { return s.Findings == 0 && len(s.Incomplete) == 0 }

type report struct {
	to      func(Finding)
	summary Summary
	unread  map[unread]uint64
}

// unread is why leaves could not be recomputed.
type unread struct {
	why        string
	configured bool // the key should have been available
}

func (r *report) add(f Finding) {
	r.summary.Findings++
	r.to(f)
}

func (r *report) wrong(check Check, owner events.Owner, seq uint64, format string, args ...any) {
	r.add(Finding{Check: check, Owner: owner, Seq: seq, Detail: fmt.Sprintf(format, args...)})
}

func (r *report) notChecked(format string, args ...any) {
	r.summary.NotChecked = append(r.summary.NotChecked, fmt.Sprintf(format, args...))
}

// incomplete is notChecked for a configured part.
func (r *report) incomplete(format string, args ...any) {
	r.notChecked(format, args...)
	r.summary.Incomplete = append(r.summary.Incomplete, fmt.Sprintf(format, args...))
}

// finish turns counts into sentences.
func (r *report) finish() Summary {
	byWhy := func(a, b unread) int { return cmp.Compare(a.why, b.why) }
	for _, reason := range slices.SortedFunc(maps.Keys(r.unread), byWhy) {
		say := r.notChecked
		if reason.configured {
			say = r.incomplete
		}
		say("the hashes of %d leaves against their content: %s", r.unread[reason], reason.why)
	}
	if r.summary.NotChecked == nil {
		r.summary.NotChecked = []string{}
	}
	return r.summary
}
