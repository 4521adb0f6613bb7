package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"
)

// idKind is a kind of id. Ids must be unique within their kind.
type idKind byte

const (
	idCommand idKind = iota
	idEvent
	idMemory
	idIdempotency
)

var idNames = map[idKind]string{
	idCommand: "command id", idEvent: "event id", idMemory: "memory id", idIdempotency: "idempotency key",
}

// use is one use of an id.
type use struct {
	digest [16]byte // the first half of the SHA-256 of the kind and the id
	kind   idKind
	seq    uint64
}

// uniques finds ids that were used twice. It keeps 32 bytes for each use.
type uniques []use

func (u *uniques) add(kind idKind, seq uint64, parts ...string) {
	text := string(byte(kind)) + strings.Join(parts, "\x00")
	sum := sha256.Sum256([]byte(text))
	*u = append(*u, use{[16]byte(sum[:16]), kind, seq})
}

// twice calls yield for every reuse of an id, with the sequences of the first use and of
// the reuse.
func (u uniques) twice(yield func(kind idKind, first, again uint64)) {
	slices.SortFunc(u, func(a, b use) int {
		return cmp.Or(bytes.Compare(a.digest[:], b.digest[:]), cmp.Compare(a.seq, b.seq))
	})
	for i := 1; i < len(u); i++ {
		if u[i].digest != u[i-1].digest {
			continue
		}
		first := i - 1
		for ; i < len(u) && u[i].digest == u[first].digest; i++ {
			yield(u[i].kind, u[first].seq, u[i].seq)
		}
	}
}
