package assembly_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

var must, slow, errorOf = testkit.Must, testkit.Slow, testkit.ErrorOf

// lines collects the log, and calls onLine with each line.
type lines struct {
	mu     sync.Mutex
	text   bytes.Buffer
	onLine func(string)
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onLine(string(p))
	return l.text.Write(p)
}

// This returns an address where nothing listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// TestAStartSaysWhatItWaitsFor: a start logs which server it waits for and why, and never
// logs a password. The test ends the start as soon as it has logged that.
func TestAStartSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	log := natstest.Start(t)
	into := func(options ...nats.Option) (*nats.Conn, error) { return log.Connect(options...) }
	for name, c := range map[string]struct {
		cfg  config.Config
		dial assembly.Connector // nil: the configured one
		want string
	}{
		"the log's server": {config.Config{NATSURL: "nats://u:s3cr3t@" + nobody(t)}, nil, "connection refused"},
		"the database":     {config.Config{DatabaseURL: "postgres://u:s3cr3t@" + nobody(t) + "/d?sslmode=disable"}, into, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			said := &lines{onLine: func(line string) {
				if strings.Contains(line, "level=WARN") && strings.Contains(line, "waiting for "+name) && strings.Contains(line, c.want) {
					stop()
				}
			}}
			if c.dial == nil {
				c.dial = assembly.Dial(c.cfg)
			}
			_, err := assembly.NewBase(ctx, c.cfg, slog.New(slog.NewTextHandler(said, nil)), c.dial)
			if err == nil || !strings.Contains(err.Error(), c.want) || context.Cause(ctx) != context.Canceled {
				t.Errorf("%v; said\n%s", err, said.text.String())
			}
			if strings.Contains(said.text.String()+err.Error(), "s3cr3t") {
				t.Errorf("the password was said: %v\n%s", err, said.text.String())
			}
		})
	}
}

// TestAServiceMakesNothingOnACluster: on a cluster, a service creates no streams. Its
// error names the command that does.
func TestAServiceMakesNothingOnACluster(t *testing.T) {
	t.Parallel()
	conf := filepath.Join(t.TempDir(), "nats.conf")
	must(t, os.WriteFile(conf, []byte("cluster { name: c, listen: \"127.0.0.1:-1\" }\n"), 0o600))
	cfg := config.Config{NATSURL: natstest.FromConfig(t, conf)}
	nodes, err := nats.Connect(cfg.NATSURL) // answers like the nodes of an empty cluster
	must(t, err)
	defer nodes.Close()
	must(t, errorOf(nodes.Subscribe("$JS.API.STREAM.INFO.*", func(m *nats.Msg) {
		_ = m.Respond([]byte(`{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`))
	})))
	must(t, nodes.Flush())
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	said := &lines{onLine: func(line string) {
		if strings.Contains(line, "run `ledger provision`") {
			stop()
		}
	}}
	_, err = assembly.NewBase(ctx, cfg, slog.New(slog.NewTextHandler(said, nil)), assembly.Dial(cfg))
	if err == nil || !strings.Contains(err.Error(), "run `ledger provision`") {
		t.Errorf("%v; said\n%s", err, said.text.String())
	}
}

// TestARunIsUpOnceItAnswers: a local run that can't serve the core API ends without having
// said that it is up.
func TestARunIsUpOnceItAnswers(t *testing.T) {
	t.Parallel()
	const noMint = "11111111111111111111111111111111"
	cfg, err := config.Load([]string{"LEDGER_DATA_DIR=" + filepath.Join(t.TempDir(), "data"), "DATABASE_URL=" + pgtest.Database(t),
		"CORE_ADDR=127.0.0.1:0", "EXTENSION_ADDR=127.0.0.1:0", "STAKE_MINT=" + noMint, "STAKING_PROGRAM_ID=" + noMint})
	must(t, err)
	up := make(chan struct{})
	err = assembly.RunLocal(t.Context(), cfg, console{slog.New(slog.DiscardHandler), up})
	if err == nil || !strings.Contains(err.Error(), "no SPL Token mint") {
		t.Error(err)
	}
	select {
	case <-up:
		t.Error("it said that it is up")
	default:
	}
}

// TestRefusedCredentialsEndTheStart: a start with refused credentials fails at once,
// because waiting would not help.
func TestRefusedCredentialsEndTheStart(t *testing.T) {
	t.Parallel()
	log := natstest.Start(t)
	conf := filepath.Join(t.TempDir(), "nats.conf")
	must(t, os.WriteFile(conf, []byte("authorization { user: u, password: right }\n"), 0o600))
	guarded := natstest.FromConfig(t, conf)
	_, wrong := pgtest.StartTCP(t, nil)
	wrong.User = url.UserPassword("ledger", "s3cr3t")
	for name, c := range map[string]struct {
		cfg  config.Config
		dial assembly.Connector
		want string
	}{
		"log":      {config.Config{NATSURL: strings.Replace(guarded, "nats://", "nats://u:s3cr3t@", 1)}, nil, "refuses the credentials of NATS_URL or NATS_CREDS: nats: authorization violation"},
		"database": {config.Config{DatabaseURL: wrong.String()}, func(options ...nats.Option) (*nats.Conn, error) { return log.Connect(options...) }, "refuses the credentials of DATABASE_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // half of a start's patience
			defer cancel()
			if c.dial == nil {
				c.dial = assembly.Dial(c.cfg)
			}
			_, err := assembly.NewBase(ctx, c.cfg, slog.New(slog.DiscardHandler), c.dial)
			if err == nil || ctx.Err() != nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.want)) || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("%v, %v", err, ctx.Err())
			}
		})
	}
}

// A service does not start if its master key is not that of the data keys in the
// keystore. The error names both master keys by their ids.
func TestAnotherMasterKeyDoesNotStart(t *testing.T) {
	t.Parallel()
	log := natstest.Start(t)
	db := pgtest.Start(t, localpostgres.Config{Dir: pgtest.Folder(t), NoSync: true})
	start := func(keys ...keystore.MasterKey) (*assembly.APIServer, error) {
		t.Helper()
		environ := []string{"DATABASE_URL=" + db.URL()}
		for i, name := range []string{"MASTER_KEY", "MASTER_KEY_PREVIOUS"}[:len(keys)] {
			environ = append(environ, name+"="+base64.StdEncoding.EncodeToString(keys[i][:]))
		}
		cfg, err := config.Load(environ)
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		base, err := assembly.NewBase(ctx, cfg, slog.New(slog.DiscardHandler), func(options ...nats.Option) (*nats.Conn, error) { return log.Connect(options...) })
		must(t, err)
		t.Cleanup(base.Close)
		return assembly.NewAPIServer(ctx, base, assembly.Neighbors{})
	}
	right, wrong := keystore.MasterKey{1}, keystore.MasterKey{2}
	d, err := start(right)
	must(t, err)
	must(t, errorOf(d.Keys.FindOrCreate(t.Context(), logtest.Owner(), 0, nil)))
	if _, err := start(wrong); !errors.Is(err, keystore.ErrMasterKey) || !strings.Contains(err.Error(), right.ID()) || !strings.Contains(err.Error(), wrong.ID()) {
		t.Errorf("with another one: %v", err)
	}
	for _, keys := range [][]keystore.MasterKey{{right}, {wrong, right}, {right, wrong}} {
		if _, err := start(keys...); err != nil {
			t.Errorf("%d keys: %v", len(keys), err)
		}
	}
}
