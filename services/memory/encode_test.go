package memory

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/memory-ledger/ledger/events"
)

// TestAppendJSON: AppendJSON writes the same bytes as the encoder.
func TestAppendJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := View{
			ID: rapid.String().Draw(t, "id"), Content: rapid.String().Draw(t, "content"),
			Metadata:  jsontext.Value(rapid.SampledFrom([]string{`{}`, `{"a":"\u0000\"é","b":[1,null]}`}).Draw(t, "metadata")),
			LeafIndex: rapid.Uint64().Draw(t, "index"), Anchored: rapid.Bool().Draw(t, "anchored"),
			CreatedAt: events.At(time.UnixMilli(rapid.Int64Range(0, 1<<41).Draw(t, "time"))),
		}
		copy(v.LeafHash[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		if rapid.Bool().Draw(t, "scored") {
			score := rapid.Float64Range(-1e9, 1e9).Draw(t, "score")
			v.Score = &score
		}
		if rapid.Bool().Draw(t, "came in by") {
			v.Via = &events.Via{Kind: events.ViaDrop, ID: "019ca8d2-7b02-7d18-8f3e-6a1c2b3d4e02"}
		}
		if rapid.Bool().Draw(t, "in a batch") {
			id := rapid.String().Draw(t, "batch")
			v.BatchID = &id
		}
		want, err := json.Marshal(&v, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.AppendJSON([]byte("before"))
		if err != nil || string(got) != "before"+string(want) {
			t.Fatalf("got %s, %v\nwant %s", got, err, want)
		}
	})
}
