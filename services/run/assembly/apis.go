package assembly

import (
	"context"
	"errors"
	"net"
	"net/url"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/core"
	"github.com/memory-ledger/ledger/services/dashboard"
	"github.com/memory-ledger/ledger/services/extension"
	"github.com/memory-ledger/ledger/services/feed"
	"github.com/memory-ledger/ledger/services/grant"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/httpapi/connect"
	"github.com/memory-ledger/ledger/services/mcp"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/oauth"
	"github.com/memory-ledger/ledger/services/signin"
)

// ServeCore runs the core API on a listener until ctx ends.
func (d *APIServer) ServeCore(ctx context.Context, listener net.Listener) error {
	serve, err := d.prepareCore(ctx)
	if err != nil {
		return err
	}
	return serve(ctx, listener)
}

// prepareCore does all that can fail of the core API's start, and returns what then runs it.
func (d *APIServer) prepareCore(ctx context.Context) (func(context.Context, net.Listener) error, error) {
	commands := d.Commands.As("/core")
	memories := d.memories(commands, true)
	tokens := signin.NewSignedTokens([]byte(d.Config.JWTSecret), time.Now)
	stakes, err := d.staking(ctx)
	if err != nil {
		return nil, err
	}
	connections := d.maxConnections()
	history := feed.New(feed.Config{
		Log: d.Log, Tail: d.Log, Logger: d.Logger, Max: min(1024, connections/2),
	})
	d.gauge("ledger_event_streams", "Event streams that are open.", nil, func() float64 { return float64(history.Streams()) })
	grants := d.grants(memories, commands)
	apps, err := d.bucket(ctx, oauth.Bucket)
	if err != nil {
		return nil, err
	}
	authenticator := access.NewCore(d.Pool, d.Fence, tokens, time.Now)
	api := &core.API{
		Access: authenticator,
		Apps: oauth.New(oauth.Config{
			Tokens: tokens, Access: authenticator, Commands: commands, Quotas: d.quotas, Apps: apps, SyncApps: d.syncOf(oauth.Stream, true),
			BaseURL: d.Config.CoreURL, Now: time.Now, NewID: NewID,
		}),
		Desk: d.signIn(d.Config.CoreURL, tokens, commands, memories),
		Agents: mcp.New(mcp.Config{
			Memories: memories, Grants: grants, BaseURL: d.Config.CoreURL, Now: time.Now, Log: d.Logger, Quotas: d.quotas,
		}),
		Memories: memories, Commands: commands, Query: d.Pool, Staking: stakes, Grants: grants, Feed: history,
		BaseURL: d.Config.CoreURL, AllowedOrigins: d.Config.CoreAllowedOrigins, Quotas: d.quotas, Now: time.Now, NewID: NewID,
		Dashboard: dashboard.Config{
			CoreURL: d.Config.CoreURL, ExtensionURL: d.Config.ExtensionURL, ChainID: d.Config.SignInChainID, RPCURL: d.Config.DashboardRPCURL,
			StakingProgramID: d.Config.StakingProgramID, StakeMint: d.Config.StakeMint,
		},
	}
	d.registerHits("core_credentials", api.Access.Hits)
	app := httpapi.New(httpapi.Config{
		Service: "core", Log: d.Logger, Registry: d.Registry, OpenAPI: core.OpenAPI, Probes: d.probes(), NewID: NewID,
		Tracer: d.Traces.Tracer("core"), MaxConnections: connections,
	})
	api.Mount(app)
	return func(ctx context.Context, listener net.Listener) error {
		return d.serve(ctx, app, listener, d.Chain.Run, d.finishForgetting(memories), api.Run, history.Run)
	}, nil
}

// ServeExtension runs the extension API on a listener until ctx ends.
func (d *APIServer) ServeExtension(ctx context.Context, listener net.Listener) error {
	commands := d.Commands.As("/extension")
	memories := d.memories(commands, false)
	grants := d.grants(memories, commands)
	api := &extension.API{
		Access:   access.NewExtension(d.Pool, d.Fence, time.Now),
		Desk:     d.signIn(d.Config.ExtensionURL, signin.RandomTokens{TTL: d.Config.ExtensionSessionTTL}, commands, memories),
		Memories: memories, Commands: commands, Grants: grants, Quotas: d.quotas,
		BaseURL: d.Config.ExtensionURL, AllowedOrigins: append(slices.Clone(d.Config.ExtensionAllowedOrigins), originOf(d.Config.CoreURL)), // the dashboard's
		SessionTTL: d.Config.ExtensionSessionTTL, ExtensionNames: d.Config.NamesOfExtensions(),
	}
	d.registerHits("extension_credentials", api.Access.Hits)
	app := httpapi.New(httpapi.Config{
		Service: "extension", Log: d.Logger, Registry: d.Registry, OpenAPI: extension.OpenAPI, Probes: d.probes(),
		ShowCauses: true, HideCauses: d.Config.Production(), NewID: NewID, Tracer: d.Traces.Tracer("extension"),
		MaxConnections: d.maxConnections(),
	})
	api.Mount(app)
	return d.serve(ctx, app, listener)
}

// grants returns the service of the one-time links. The extension API answers requests
// for those links.
func (d *APIServer) grants(memories *memory.Service, commands *command.Executor) *grant.Service {
	return grant.New(grant.Config{
		Commands: commands, Memories: memories, Query: d.Pool, Fence: d.Fence,
		BaseURL: d.Config.ExtensionURL, Now: time.Now, NewID: NewID, Quotas: d.quotas,
	})
}

// serve answers requests. The functions in beside run until the last request is answered.
func (d *APIServer) serve(ctx context.Context, app *httpapi.App, listener net.Listener, beside ...func(context.Context)) error {
	d.Logger.Info("listening", "addr", listener.Addr().String())
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var group errgroup.Group
	for _, run := range beside {
		group.Go(func() error { run(work); return nil })
	}
	err := app.Serve(ctx, listener, 3*time.Second)
	stop()
	_ = group.Wait()
	return err
}

// signIn returns the sign-in of the API with this public base URL.
func (d *APIServer) signIn(base string, issuer signin.Issuer, commands *command.Executor, memories *memory.Service) *signin.SignIn {
	return signin.New(signin.Config{
		Site:      signin.Site{Domain: connect.HostOf(base), URI: base, ChainID: d.Config.SignInChainID},
		NonceKeys: d.nonceKeys, Spent: d.spentNonces, SyncSpent: d.syncSpent,
		Commands: commands, Closed: d.Config.NewOwners == "off", EnsureDataKey: memories.EnsureDataKey, Issuer: issuer, NewID: NewID,
	})
}

// originOf returns the origin of a URL that the configuration has checked.
func originOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	return u.Scheme + "://" + u.Host
}

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

func NewProjector(b *Base) *projector.Runner {
	return projector.New(projector.Config{
		Projections: readmodel.All(),
		Pool:        b.Pool, Log: b.follower("projector"),
		Logger: b.Logger, Registerer: b.Registry, Tracer: b.Traces.Tracer("projector"), Turn: b.turn,
	})
}

// RunProjector runs the projector alone until ctx ends.
func RunProjector(ctx context.Context, b *Base) error {
	projector := NewProjector(b)
	return withOps(ctx, b, "projector", projector.Ready, projector.Run)
}
