package anchorer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/projector"
)

// dayLayout formats the key of spending: the UTC day.
const dayLayout = time.DateOnly

// relevant selects the leaves and the events of the chain family.
func relevant(s events.Subject) bool {
	return s.Family == events.FamilyChain || s.Kind == events.KindMemory
}

// fold is the projection of the log into the anchorer's owners.
type fold struct{ anchorer *Anchorer }

// Name implements projector.Projection.
func (*fold) Name() string { return "anchorer" }

// Tables implements projector.Projection.
func (*fold) Tables() []string { return []string{"owners", "clusters", "spending"} }

// Apply implements projector.Projection.
func (f *fold) Apply(ctx context.Context, w *projector.Writer, s projector.Slice) error {
	if f.anchorer.cfg.around != nil {
		if err := f.anchorer.cfg.around(false); err != nil {
			return err
		}
	}
	changed, err := f.touched(ctx, s.Records)
	if err != nil {
		return err
	}
	spent := map[string]uint64{}
	genesis := "" // of the newest confirmed batch
	for i := range s.Records {
		r := &s.Records[i]
		if err := f.record(changed[r.Owner], r, spent, &genesis); err != nil {
			return fmt.Errorf("sequence %d: %w", r.Seq, err)
		}
	}
	f.anchorer.store.write(w, changed, spent, genesis)
	return nil
}

// touched returns the owners of the messages.
func (f *fold) touched(ctx context.Context, records []projector.Record) (map[events.Owner]*owner, error) {
	owners := make(map[events.Owner]*owner)
	for i := range records {
		owners[records[i].Owner] = nil
	}
	known, err := f.anchorer.store.load(ctx, slices.Collect(maps.Keys(owners)))
	if err != nil {
		return nil, err
	}
	for _, o := range known {
		owners[o.key] = o
	}
	for key, o := range owners {
		if o == nil {
			owners[key] = newOwner(key)
		}
	}
	return owners, nil
}

func (f *fold) record(o *owner, r *projector.Record, spent map[string]uint64, genesis *string) error {
	if r.Family == events.FamilyChain {
		if err := o.message(r.Seq, r.Events[0].OwnerVersion); err != nil {
			return err
		}
	}
	for i := range r.Events {
		e := &r.Events[i]
		at := e.Time.Time()
		switch data := e.Data.(type) {
		case *events.MemoryWritten:
			if err := o.leaf(data, at); err != nil {
				return err
			}
			continue
		case *events.BatchSubmitted:
			// Before the rent was read from the chain, two years of 3480 lamports for each byte
			// count, as on every cluster.
			const mostRent = (128 + accountLen) * 2 * 3480
			spent[at.Format(dayLayout)] += shareOf(data.Transaction, o.confirmedSize == 0, cmp.Or(f.anchorer.rent.Load(), mostRent))
		case *events.BatchConfirmed:
			*genesis = data.Cluster
		}
		if err := o.fold(e.Data, at); err != nil {
			return err
		}
	}
	return nil
}
