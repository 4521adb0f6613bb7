package readmodel_test

import (
	"slices"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
)

// folds lists the read models that write rows for an event type. The other models ignore
// the type. The model owners folds every type, and is not listed.
var folds = map[events.Type][]string{
	events.TypeOwnerRegistered: {},
	events.TypeSessionIssued:   {"sessions"},
	events.TypeSessionRevoked:  {"sessions"},
	events.TypeMemoryWritten:   {"memories"}, // also tree, if a tile is full
	events.TypeMemoryRetracted: {"retractions"},
	events.TypeMemoryForgotten: {"retractions"},
	events.TypeOwnerErased:     {"erasures"},
	events.TypeImportStarted:   {"imports"},
	events.TypeImportFinished:  {"imports"},
	events.TypeGrantMinted:     {"grants"},
	events.TypeGrantConsumed:   {"grants"},
	events.TypeGrantRevoked:    {"grants"},
	events.TypeApiKeyCreated:   {"apikeys"},
	events.TypeApiKeyRevoked:   {"apikeys"},
	events.TypeApiKeyUsed:      {"apikeys"},
	events.TypeBatchCut:        {"batches"},
	events.TypeBatchSubmitted:  {"batches"},
	events.TypeBatchConfirmed:  {"batches"},
	events.TypeBatchFailed:     {"batches"},
	events.TypeStakeDeposited:  {"stakes"},
	events.TypeStakeWithdrawn:  {"stakes"},
}

// unlisted models read the database, or write only when a tile is full.
var unlisted = []string{"owners", "tree"}

// TestEveryTypeIsFoldedOrIgnored: every type of the catalogue must be declared above, and
// the read models must write rows as declared.
func TestEveryTypeIsFoldedOrIgnored(t *testing.T) {
	t.Parallel()
	for _, d := range events.Catalogue() {
		if _, declared := folds[d.Type]; !declared {
			t.Errorf("%s: declare in folds which read models fold it", d.Type)
		}
	}
	seen, wrote := map[events.Type]bool{}, map[string]bool{}
	for _, message := range fixture.NewHistory(70, 8).Messages(4000) {
		slice := fixture.Slice(1, message)
		var want []string
		for _, e := range slice.Events() {
			want = append(want, folds[e.Type()]...)
			seen[e.Type()] = true
		}
		for _, p := range readmodel.All() {
			if slices.Contains(unlisted, p.Name()) {
				continue
			}
			w := projector.NewWriter(nil)
			if err := p.Apply(t.Context(), w, slice); err != nil {
				t.Fatalf("%s: %v", p.Name(), err)
			}
			if writes := len(w.Steps()) > 0; writes != slices.Contains(want, p.Name()) {
				t.Fatalf("%s writes %v for %v, folds says otherwise", p.Name(), writes, slice.Records[0].Events[0].Type())
			} else if writes {
				wrote[p.Name()] = true
			}
		}
	}
	for _, d := range events.Catalogue() {
		if !seen[d.Type] {
			t.Errorf("%s: the history of projections/internal/fixture has none", d.Type)
		}
	}
	for _, p := range readmodel.All() {
		if !wrote[p.Name()] && !slices.Contains(unlisted, p.Name()) {
			t.Errorf("%s: no message of the history of projections/internal/fixture makes a row of it", p.Name())
		}
	}
}
