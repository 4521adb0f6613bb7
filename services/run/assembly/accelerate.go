package assembly

import (
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats"
)

// accelerate makes the log faster if its server runs in this process and ends with it.
// ACCELERATORS=off turns it off. Each line works without the others, but without the
// group sync, startNATS must make the server sync each message.
func (b *Base) accelerate(server *localnats.Server) {
	b.Durable = func(stream string, rewritten bool) eventlog.Syncer { return server.GroupSync(stream, rewritten) }
	b.Log = eventlog.WithGroupSync(b.Log, b.Durable(eventlog.StreamName, false))
	b.Log = eventlog.WithRecentAppends(b.Log)
	heads := eventlog.WithOwnerHeads(b.Log, server)
	b.Log, b.Heads = heads, heads
}
