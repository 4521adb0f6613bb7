package fence_test

import (
	"context"
	"testing"

	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
)

// BenchmarkAppendThenWait measures the cost of reading one's own write: an append, then a
// wait until it is projected.
func BenchmarkAppendThenWait(b *testing.B) {
	_, pool := fixture.Database(b)
	log := fixture.NewLog(b)
	r, err := projector.New(projector.Config{Projections: readmodel.All(), Pool: pool, Log: log, Logger: fixture.Quiet()})
	if err != nil {
		b.Fatal(err)
	}
	fixture.Running(b, r.Run)
	f, err := fence.New(pool, log, fence.Options{})
	if err != nil {
		b.Fatal(err)
	}
	fixture.Running(b, f.Run)
	a := fixture.NewActor()
	_, seq := a.AppendMemory(b, log, `{}`)
	if err := f.Wait(context.Background(), seq); err != nil {
		b.Fatal(err)
	}
	b.Run("append", func(b *testing.B) {
		for b.Loop() {
			a.AppendMemory(b, log, `{}`)
		}
	})
	b.Run("append and wait", func(b *testing.B) {
		for b.Loop() {
			a.AppendMemory(b, log, `{}`)
			if err := f.WaitOwner(context.Background(), a.Owner); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("nothing to wait for", func(b *testing.B) {
		for b.Loop() {
			if err := f.WaitOwner(context.Background(), a.Owner); err != nil {
				b.Fatal(err)
			}
		}
	})
}
