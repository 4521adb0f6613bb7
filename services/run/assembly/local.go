package assembly

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/anchoring/anchorer"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localnats"
	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/run/adminlog"
	"github.com/memory-ledger/ledger/services/run/config"
)

// LocalAnchorMaxWait is how long a leaf waits for its batch in a local run.
const LocalAnchorMaxWait = 5 * time.Second

// natsFolder is the folder of the log's server in the data folder.
const natsFolder = "nats"

// local holds everything that a local run has started.
type local struct {
	cfg      config.Config
	logger   *slog.Logger
	dir      *datadir.Dir
	nats     *localnats.Server
	postgres *localpostgres.Server
	chain    *localChain
	anchorer *anchorer.Anchorer // nil without a chain
	chainIs  string             // in words
	console  Console
}

// RunLocal runs everything in this process and its children until ctx ends:
// embedded log, private database, local chain, projector, anchorer and both
// APIs. console shows the progress.
//
// Start order: data folder, servers, projector and anchorer, APIs. Stop order is the
// reverse, and every step has a deadline.
func RunLocal(ctx context.Context, cfg config.Config, console Console) (err error) {
	dir, err := datadir.Open(cfg.DataDir)
	if err != nil {
		return err
	}
	l := &local{cfg: cfg, dir: dir, console: console}
	defer func() { err = errors.Join(err, l.stop()) }()
	if l.logger, err = console.Opened(dir.Path()); err != nil {
		return err
	}
	if err := l.start(ctx); err != nil {
		return UnlessAsked(ctx, err)
	}
	return l.serve(ctx)
}

func (l *local) start(ctx context.Context) error {
	if err := errors.Join(mayListen("CORE_ADDR", l.cfg.CoreAddr), mayListen("EXTENSION_ADDR", l.cfg.ExtensionAddr)); err != nil {
		return err
	}
	l.console.Say("starting the log, the database and the chain …")
	if err := l.startNATS(ctx); err != nil {
		return err
	}
	if err := l.secrets(ctx); err != nil {
		return err
	}
	group, starting := errgroup.WithContext(ctx)
	group.Go(func() error { return l.startPostgres(starting) })
	group.Go(func() error { return l.startChain(starting) })
	return group.Wait()
}

// masterKey loads the folder's master key, or generates it. If the folder has data keys, it
// generates none: a new key would open none of them, and a backup's is not restored over it.
func (l *local) masterKey(ctx context.Context) error {
	if err := fillMasterKey(&l.cfg); !errors.Is(err, datadir.ErrNoSecret) {
		return err
	}
	if l.nats != nil {
		newest, err := l.newestMaster(ctx)
		if err != nil {
			return err
		}
		if newest != "" {
			return fmt.Errorf("secret %s: there is none in %s, and data keys need master key %s: put it back, or run `ledger restore DIR --only secrets`", masterKeyName, l.dir.Path(), newest)
		}
	}
	if _, err := l.dir.Secret(masterKeyName, keystore.KeySize); err != nil {
		return err
	}
	return fillMasterKey(&l.cfg)
}

// newestMaster returns the id of the master key of the folder's newest data key.
func (l *local) newestMaster(ctx context.Context) (string, error) {
	nc, err := l.nats.Connect()
	if err != nil {
		return "", err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return keystore.NewestMaster(ctx, js)
}

// secrets generates the secrets that the environment does not set. A secret is on the
// disk before anything is sealed with it.
func (l *local) secrets(ctx context.Context) error {
	if err := l.masterKey(ctx); err != nil {
		return err
	}
	if l.cfg.JWTSecret == "" {
		secret, err := l.dir.Secret("jwt-secret", 32)
		if err != nil {
			return err
		}
		// Use base64, as the file does: another service may read the file as its
		// JWT_SECRET_FILE.
		l.cfg.JWTSecret = base64.StdEncoding.EncodeToString(secret)
	}
	return l.cfg.Check(config.NeedMasterKey, config.NeedJWTSecret)
}

func (l *local) startNATS(ctx context.Context) error {
	if l.cfg.NATSURL != "" {
		return nil
	}
	dir, err := l.dir.Sub(natsFolder)
	if err != nil {
		return err
	}
	l.nats, err = localnats.Start(ctx, localnats.Config{
		Dir: dir, GroupSync: true, ReadStream: eventlog.StreamName, AdminStream: adminlog.Stream, Logger: l.logger.With("server", "nats"),
	})
	return err
}

func (l *local) startPostgres(ctx context.Context) error {
	if l.cfg.DatabaseURL != "" {
		return nil
	}
	var err error
	if l.postgres, err = l.launchPostgres(ctx); err != nil {
		return err
	}
	l.cfg.DatabaseURL = l.postgres.URL()
	return nil
}

func (l *local) launchPostgres(ctx context.Context) (*localpostgres.Server, error) {
	dir, err := l.dir.Sub("postgres")
	if err != nil {
		return nil, err
	}
	return localpostgres.Start(ctx, localpostgres.Config{
		Dir: dir, Logger: l.logger.With("server", "postgres"), OnFetch: l.console.Say,
		// A crash may lose the commits of the last fraction of a second, whole ones only. The
		// projector then applies their events again.
		Settings: map[string]string{"synchronous_commit": "off", "shared_buffers": schema.LocalSharedBuffers},
	})
}

// keepPostgres restarts the local PostgreSQL server if it ends unexpectedly. Until it
// runs again, the APIs refuse reads, as they do whenever the database is unreachable.
// Writes still go into the log. Then the projector projects again the events that the
// database had not yet written to disk.
func (l *local) keepPostgres(ctx context.Context) error {
	if l.postgres == nil {
		return nil
	}
	return keepUp(ctx, l.logger, "the local PostgreSQL server", func() <-chan struct{} { return l.postgres.Done() }, l.restartPostgres)
}

// restartPostgres replaces a server that has ended, at the same URL. After an error, stop ends
// the servers that still run.
func (l *local) restartPostgres(ctx context.Context) error {
	err := l.postgres.Kill() // it has ended: this only releases its folder, once
	if l.postgres = nil; err != nil {
		return err
	}
	l.postgres, err = l.launchPostgres(ctx)
	return err
}

// connector connects to the embedded server without the network, or to the servers that
// the environment names.
func (l *local) connector() Connector {
	if l.nats == nil {
		return Dial(l.cfg)
	}
	return l.nats.Connect
}

func (l *local) serve(ctx context.Context) error {
	base, err := newBase(ctx, l.cfg, l.logger, l.connector(), l.nats)
	if err != nil {
		return UnlessAsked(ctx, err)
	}
	defer base.Close()
	projector := NewProjector(base)
	parts := map[string]func() error{"projector": projector.Ready, "anchorer": l.anchoring}
	if l.nats != nil {
		parts["log server"] = l.nats.Failed
	}
	deciding, err := NewAPIServer(ctx, base, Neighbors{APIs: 2, Workers: parts})
	if err != nil {
		return UnlessAsked(ctx, err)
	}
	if l.cfg.SolanaRPCURL != "" {
		if l.anchorer, err = NewAnchorer(base, deciding.Fence); err != nil {
			return err
		}
	}
	coreListener, err := listenTo("CORE_ADDR", l.cfg.CoreAddr, &base.Config.CoreURL)
	if err != nil {
		return err
	}
	defer coreListener.Close()
	extensionListener, err := listenTo("EXTENSION_ADDR", l.cfg.ExtensionAddr, &base.Config.ExtensionURL)
	if err != nil {
		return err
	}
	defer extensionListener.Close()
	l.cfg.CoreURL, l.cfg.ExtensionURL = base.Config.CoreURL, base.Config.ExtensionURL
	serveCore, err := deciding.prepareCore(ctx)
	if err == nil {
		err = l.note()
	}
	if err != nil {
		return UnlessAsked(ctx, err)
	}

	// The workers outlive the APIs: a request in flight may still be waiting
	// for the projection.
	workers, stopWorkers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorkers()
	group, failing := errgroup.WithContext(ctx)
	var background errgroup.Group
	keep := func(what string, do func(context.Context) error) {
		background.Go(func() error {
			err := do(workers)
			if err != nil && workers.Err() == nil {
				// The run goes on without this part, and returns the error only when it
				// stops. Log the error now, so that an operator sees it.
				l.logger.Error("a part of the run has ended", "part", what, "err", err)
			}
			return err
		})
	}
	keep("projector", projector.Run)
	keep("fence", deciding.Fence.Run)
	if l.anchorer != nil {
		keep("anchorer", l.anchorer.Run)
		keep("stakes", func(ctx context.Context) error { return watchStakes(ctx, base, deciding.Fence) })
	}
	group.Go(func() error { return serveCore(failing, coreListener) })
	group.Go(func() error { return deciding.ServeExtension(failing, extensionListener) })
	group.Go(func() error { return l.keepPostgres(failing) })
	group.Go(func() error { l.keepChain(failing); return nil })
	l.console.Up(Up{Core: l.cfg.CoreURL, Extension: l.cfg.ExtensionURL, Folder: l.dir.Path(), Chain: l.chainIs})
	err = group.Wait()
	l.console.Say("stopping")
	stopWorkers()
	return errors.Join(err, background.Wait())
}

// note writes the addresses of this run's servers to the data folder, for subcommands.
func (l *local) note() error {
	run := datadir.Run{
		NATSURL: l.cfg.NATSURL, DatabaseURL: l.cfg.DatabaseURL, SolanaRPCURL: l.cfg.SolanaRPCURL,
		CommitmentProgramID: l.cfg.CommitmentProgramID, AuthorityKeypair: l.cfg.AuthorityKeypair,
		CoreURL: l.cfg.CoreURL, ExtensionURL: l.cfg.ExtensionURL,
	}
	if l.nats != nil {
		run.NATSURL, run.NATSReadURL = l.nats.URL(), l.nats.ReadURL()
	}
	return l.dir.WriteRun(run)
}

// stop ends the servers, then releases the data folder. After an error, the remaining
// steps still run.
func (l *local) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var errs []error
	if l.nats != nil {
		errs = append(errs, l.nats.Stop(ctx))
	}
	if l.chain != nil && l.chain.server != nil { // nil: a restart failed
		errs = append(errs, l.chain.server.Stop(ctx))
	}
	if l.postgres != nil {
		errs = append(errs, l.postgres.Stop(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		cmp.Or(l.logger, slog.Default()).Warn("a local server did not stop cleanly", "err", fmt.Sprint(err))
	}
	return l.dir.Close()
}

// Console shows a person what a local run does. Its methods may be called concurrently.
type Console interface {
	// Opened is called first, once the data folder belongs to this run. It returns the
	// run's logger.
	Opened(folder string) (*slog.Logger, error)
	// Say reports a step, or a later change.
	Say(line string)
	// Up reports that both APIs answer.
	Up(Up)
}

// Up describes a local run that is up.
type Up struct {
	Core, Extension string // base URLs
	Folder          string // the data folder
	Chain           string // in words
}

// settledAfter: a server of a local run is not restarted if it ends more than three times
// in a row, each time less than this after its start.
const settledAfter = time.Minute

// keepUp restarts a server that ends unexpectedly, until ctx ends. ended returns a
// channel that closes when the running server has ended. restart returns once a new
// server runs. keepUp returns an error if restart fails, or if the server repeatedly ends
// soon after its start. No server runs then.
func keepUp(ctx context.Context, logger *slog.Logger, name string, ended func() <-chan struct{}, restart func(context.Context) error) error {
	for ends := 1; ; ends++ {
		begun := time.Now()
		select {
		case <-ctx.Done():
			return nil
		case <-ended():
		}
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(begun) >= settledAfter {
			ends = 1
		}
		if ends > 3 {
			return fmt.Errorf("%s ended %d times, each soon after its start", name, ends)
		}
		logger.Error(name + " ended unexpectedly, and is restarted")
		if err := restart(ctx); err != nil {
			return UnlessAsked(ctx, fmt.Errorf("start %s again: %w", name, err))
		}
		logger.Info(name + " is up again")
	}
}
