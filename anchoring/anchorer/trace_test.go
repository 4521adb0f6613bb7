package anchorer

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
)

func traceparent(n int) string { return fmt.Sprintf("00-%032x-%016x-01", n+1, n+1) }

// Origins are kept for the waiting leaves, up to a bound. A batch that fails passes them
// on.
func TestOriginsFollowTheLeaves(t *testing.T) {
	t.Parallel()
	o, at := newOwner(newOwnerKey()), time.Now()
	leaves := func(n int) {
		for range n {
			index := o.size()
			must(t, o.leaf(&events.MemoryWritten{LeafIndex: index, LeafHash: events.Hash{byte(index)}}, at))
			o.came(index, traceparent(int(index)))
		}
	}
	o.came(0, "")
	o.came(0, strings.Repeat("0", 5000)) // as in a log that was tampered with
	leaves(3)
	must(t, o.fold(&events.BatchCut{BatchID: "b", Size: 2, Root: o.frontier.Root()}, at, traceparent(100)))
	if want := []origin{{2, traceparent(2)}}; !reflect.DeepEqual(o.origins, want) || o.batch.traceparent != traceparent(100) {
		t.Errorf("after the cut: %v, batch %s", o.origins, o.batch.traceparent)
	}
	leaves(2 * maxOrigins)
	if len(o.origins) != maxOrigins {
		t.Errorf("%d origins are kept", len(o.origins))
	}
	must(t, o.fold(&events.BatchFailed{BatchID: "b"}, at, ""))
	if len(o.origins) != maxOrigins || o.origins[0] != (origin{0, traceparent(100)}) || o.origins[1].leaf != 2 {
		t.Errorf("after the failure: %v", o.origins)
	}
	if again := decodeOrigins(encodeOrigins(o.origins)); !reflect.DeepEqual(again, o.origins) {
		t.Errorf("stored as %q, read as %v", encodeOrigins(o.origins), again)
	}
	if none := decodeOrigins("rubbish 1 x=y"); len(none) != 0 || decodeOrigins("") != nil {
		t.Errorf("of rubbish %v is read", none)
	}
}
