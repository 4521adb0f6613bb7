package assembly

import (
	"context"
	"errors"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
)

// RunCore runs the core API alone until ctx ends.
func RunCore(ctx context.Context, b *Base) error {
	return runAPI(ctx, b, "CORE_ADDR", b.Config.CoreAddr, (*APIServer).ServeCore)
}

// RunExtension runs the extension API alone until ctx ends.
func RunExtension(ctx context.Context, b *Base) error {
	return runAPI(ctx, b, "EXTENSION_ADDR", b.Config.ExtensionAddr, (*APIServer).ServeExtension)
}

// runAPI runs the fence until the last request is answered.
func runAPI(ctx context.Context, b *Base, variable, addr string, serve func(*APIServer, context.Context, net.Listener) error) error {
	d, err := NewAPIServer(ctx, b, Neighbors{})
	if err != nil {
		return UnlessAsked(ctx, err)
	}
	listener, err := listen(variable, addr)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var group errgroup.Group
	group.Go(func() error { return d.Fence.Run(watching) })
	err = serve(d, ctx, listener)
	stop()
	return errors.Join(err, group.Wait())
}

// NewProjector returns the projector of all read models.
func NewProjector(b *Base) (*projector.Runner, error) {
	return projector.New(projector.Config{
		Projections: readmodel.All(),
		Pool:        b.Pool, Log: b.follower("projector"), Lag: b.Stream.Lag(),
		Logger: b.Logger, Registerer: b.Registry, Tracer: b.Traces.Tracer("projector"), Turn: b.turn,
	})
}

// RunProjector runs the projector alone until ctx ends.
func RunProjector(ctx context.Context, b *Base) error {
	projector, err := NewProjector(b)
	if err != nil {
		return err
	}
	return withOps(ctx, b, "projector", projector.Ready, projector.Run)
}
