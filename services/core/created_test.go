package core

import (
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/memory-ledger/ledger/events"
)

// TestCreated: the answer is what the encoder would make of it.
func TestCreated(t *testing.T) {
	for _, c := range []created{
		{},
		{ID: "01926f3a-7b1c-7def-8123-456789abcdef", LeafHash: events.Hash{1, 2, 0xff}, LeafIndex: 1<<64 - 1},
	} {
		want, err := json.Marshal(c)
		if err != nil || string(c.json()) != string(want) {
			t.Errorf("got %s, want %s, %v", c.json(), want, err)
		}
	}
}
