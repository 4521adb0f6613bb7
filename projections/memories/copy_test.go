package memories

import (
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/copyform"
)

// copied is COPY's binary form of n rows.
func copied(n int) []byte {
	b := append([]byte(copyform.Signature), 0, 0, 0, 0, 0, 0, 0, 2, 'x', 'y')
	field := func(value []byte) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
		b = append(b, value...)
	}
	eight := func(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }
	for i := range n {
		b = binary.BigEndian.AppendUint16(b, copyColumns)
		field(append(make([]byte, 15), byte(i)))
		field(eight(uint64(i)))
		field(make([]byte, events.HashSize))
		field([]byte(`{"n":1}`))
		field(make([]byte, i))
		field(eight(uint64(i) * 1e6))
		field(eight(uint64(i + 1)))
	}
	return append(b, 0xff, 0xff)
}

func read(pieces ...[]byte) (*copyReader, error) {
	r := &copyReader{owner: "o"}
	for _, p := range pieces {
		if _, err := r.Write(p); err != nil {
			return r, err
		}
	}
	return r, nil
}

// TestCopyInPieces: however the stream is cut, the same rows come out of it.
func TestCopyInPieces(t *testing.T) {
	t.Parallel()
	whole := copied(3)
	want, err := read(whole)
	if err != nil || len(want.rows) != 3 || !want.ended {
		t.Fatalf("%+v, %v", want, err)
	}
	for i := range whole {
		for _, j := range []int{i, min(i+1, len(whole)), min(i+20, len(whole))} {
			got, err := read(whole[:i], whole[i:j], whole[j:])
			if err != nil || !got.ended || !reflect.DeepEqual(got.rows, want.rows) {
				t.Fatalf("cut at %d and %d: %v", i, j, err)
			}
		}
	}
	if cut, err := read(whole[:len(whole)-1]); err != nil || cut.ended {
		t.Errorf("half a trailer: ended %v, %v", cut.ended, err)
	}
}

// FuzzCopy: no bytes make the reader fall over.
func FuzzCopy(f *testing.F) {
	f.Add(copied(2), 30)
	f.Add([]byte(copyform.Signature), 3)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		if cut < 0 || cut > len(data) {
			return
		}
		whole, wholeErr := read(data)
		pieces, err := read(data[:cut], data[cut:])
		if (err == nil) != (wholeErr == nil) {
			t.Fatalf("whole: %v, in two pieces: %v", wholeErr, err)
		}
		if err == nil && !reflect.DeepEqual(pieces.rows, whole.rows) {
			t.Fatal("other rows in two pieces")
		}
	})
}
