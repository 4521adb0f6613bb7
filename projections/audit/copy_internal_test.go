package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/internal/copyform"
)

// copiedRow is a row in COPY's binary form; nil is NULL.
func copiedRow(b []byte, fields ...[]byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(fields)))
	for _, field := range fields {
		if field == nil {
			b = binary.BigEndian.AppendUint32(b, 0xffffffff)
			continue
		}
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(field))), field...)
	}
	return b
}

func eight(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func rowsIn(pieces ...[]byte) (rows []string, ended bool, err error) {
	r := copiedRows{yield: func(name []byte, m *memoryRow) error {
		rows = append(rows, fmt.Sprintf("%s %x %t", name, *m, m.idempotency == nil))
		return nil
	}}
	for _, piece := range pieces {
		sent := append([]byte(nil), piece...)
		if _, err := r.Write(sent); err != nil {
			return rows, r.ended, err
		}
		clear(sent) // the connection's buffer is somebody else's afterwards
	}
	return rows, r.ended, nil
}

// TestCopiedRowsInPieces: however the stream is cut, the same rows come out of it,
// and nothing is taken for a row that is none.
func TestCopiedRowsInPieces(t *testing.T) {
	t.Parallel()
	head := append([]byte(copyform.Signature), 0, 0, 0, 0, 0, 0, 0, 2, 'x', 'y')
	id := []byte("0123456789abcdef")
	whole := copiedRow(head, []byte("a"), eight(-1), id, []byte("hash"), []byte("{}"), []byte("sealed"), eight(5), nil, eight(7))
	whole = copiedRow(whole, []byte(""), eight(1), nil, nil, []byte(""), []byte(""), eight(copyform.FromUnix(0)), []byte(""), eight(8))
	whole = append(whole, 0xff, 0xff)
	want, ended, err := rowsIn(whole)
	if err != nil || !ended || len(want) != 2 || want[0] == want[1] {
		t.Fatal(want, ended, err)
	}
	for i := range whole {
		for _, j := range []int{i, min(i+1, len(whole)), min(i+20, len(whole))} {
			if got, ended, err := rowsIn(whole[:i], whole[i:j], whole[j:]); err != nil || !ended || !reflect.DeepEqual(got, want) {
				t.Fatalf("cut at %d and %d: %v, %v", i, j, got, err)
			}
		}
		if _, ended, err := rowsIn(whole[:i]); ended || err != nil {
			t.Fatalf("ended after %d of %d bytes, %v", i, len(whole), err)
		}
	}
	for name, bad := range map[string][]byte{
		"another signature": append([]byte("PGCOPX"), whole[6:]...),
		"more behind":       append(whole[:len(whole):len(whole)], 0),
		"fewer columns":     copiedRow(head[:len(head):len(head)], []byte("a"), eight(1)),
		"a short number":    copiedRow(head[:len(head):len(head)], nil, []byte("1"), nil, nil, nil, nil, eight(1), nil, eight(1)),
		"no number":         copiedRow(head[:len(head):len(head)], nil, nil, nil, nil, nil, nil, eight(1), nil, eight(1)),
	} {
		if _, _, err := rowsIn(bad); !errors.Is(err, copyform.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIDsHaveOneSpelling: what the read models take for an id, and nothing else,
// is 16 bytes, and is shown as it was written.
func TestIDsHaveOneSpelling(t *testing.T) {
	t.Parallel()
	const good = "01890a5d-ac96-774b-bcce-b302099a8057"
	texts := []string{good, "", "0123456789abcdef", good[1:], good + "0"}
	for i := range good {
		for _, c := range "0fgA-\x00" {
			texts = append(texts, good[:i]+string(c)+good[i+1:])
		}
	}
	for _, text := range texts {
		is, ok := column.ParseUUID(text)
		id := appendID([]byte("x"), text)[1:]
		if ok != (len(id) == 16) || (ok && string(id) != string(is[:])) || (!ok && len(id) < 17) {
			t.Errorf("%q: %x, and %x %v", text, id, is, ok)
		}
		if ok && idText(id) != text {
			t.Errorf("%q is shown as %q", text, idText(id))
		}
	}
}
