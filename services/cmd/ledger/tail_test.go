package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
)

// TestTailIsHarmless: whatever an owner wrote into metadata, an event is printed as one
// line, moves no cursor, and is the same JSON.
func TestTailIsHarmless(t *testing.T) {
	t.Parallel()
	metadata := "{\"a\u009b2J\":\"\x7f\u0080\u0085\u009f\u2028\u2029\",\"b\":\"é\u00a0\u2027\u202a😀\\u001b\\u009b\"}"
	payload, err := events.EncodeBatch([]events.Event{{
		ID: "id", Source: "/test", Owner: logtest.Owner(), Time: events.At(time.Now()), OwnerVersion: 1, CommandID: "c",
		Data: &events.MemoryWritten{MemoryID: "m", LeafVersion: 1, Metadata: []byte(metadata), Sealed: []byte("sealed")},
	}})
	must(t, err)
	var out bytes.Buffer
	tail := tailing{json: true}
	must(t, tail.print(&out, eventlog.Record{Seq: 7, Payload: payload}))
	line := strings.TrimSuffix(out.String(), "\n")
	if strings.ContainsFunc(line, unicode.IsControl) || strings.ContainsAny(line, "\u2028\u2029") {
		t.Errorf("%q", line)
	}
	for _, want := range []string{`\u007f\u0080\u0085\u009f\u2028\u2029`, `"a\u009b2J"`, "é\u00a0\u2027\u202a😀"} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
	var printed struct {
		Data struct{ Metadata any }
	}
	var want any
	if json.Unmarshal([]byte(line), &printed) != nil || json.Unmarshal([]byte(metadata), &want) != nil || !reflect.DeepEqual(printed.Data.Metadata, want) {
		t.Errorf("%s, want %s", line, metadata)
	}
}
