package natsconf_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/infra/testkit"
)

var must, slow, errorOf = testkit.Must, testkit.Slow, testkit.ErrorOf

// followers are the users that each have a consumer, named after the user.
var followers = []string{"projector", "anchorer"}

var users = []string{"admin", "core", "extension", "projector", "anchorer", "auditor", "sys"}

func password(user string) string { return "p-" + user + "-1e5" }

// world is a server with the real configuration, and a stream with some facts.
type world struct {
	t     *testing.T
	url   string
	tls   bool // the server is a node of node.conf
	admin jetstream.JetStream
	n     uint64 // messages put in by newWorld
}

// TestMain sets the environment once, because it belongs to the process and tests run in
// parallel. Each test's server gets its own store from Options, not from the file.
func TestMain(m *testing.M) {
	env := map[string]string{"NATS_SERVER_NAME": "test", "NATS_STORE_DIR": "/nonexistent", "NATS_CLUSTER_PASSWORD": "pc"}
	for _, u := range users {
		env["NATS_"+strings.ToUpper(u)+"_PASSWORD"] = password(u)
	}
	for i := 1; i <= 3; i++ {
		env[fmt.Sprintf("NATS_ROUTE_%d", i)] = fmt.Sprintf("nats://cluster:pc@127.0.0.1:%d", 6000+i)
	}
	// The certificates are made as for a deployment.
	secrets, err := os.MkdirTemp("", "ledger-nats-")
	if err != nil {
		panic(err)
	}
	if out, err := exec.Command("../deploy/secrets", secrets).CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v: %s", err, out))
	}
	authority = filepath.Join(secrets, "ca_certificate")
	env["NATS_TLS_CERTIFICATE"], env["NATS_TLS_KEY"] = filepath.Join(secrets, "nats_certificate"), filepath.Join(secrets, "nats_key")
	env["NATS_TLS_CA"] = authority
	for k, v := range env {
		if err := os.Setenv(k, v); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	_ = os.RemoveAll(secrets)
	os.Exit(code)
}

// authority is the certificate file of the authority that signed the nodes' certificates.
var authority string

func newWorld(t *testing.T) *world {
	t.Helper()
	return startWorld(t, "single.conf")
}

func startWorld(t *testing.T, file string) *world {
	t.Helper()
	w := &world{t: t, url: natstest.FromConfig(t, file)}
	conn, _ := w.dial("admin")
	var err error
	w.admin, err = jetstream.New(conn)
	must(t, err)
	for range 2 { // the second run changes nothing
		must(t, errorOf(natsconf.Provision(t.Context(), w.admin, 1)))
	}
	for i, subject := range []string{"ledger.aa.owner.memory", "ledger.aa.owner.grant", "chain.aa.owner.batch"} {
		must(t, errorOf(w.admin.Publish(t.Context(), subject, fmt.Appendf(nil, "[%d]", i))))
	}
	must(t, errorOf(w.admin.Publish(t.Context(), "$KV.ledger_keys.owner", []byte("wrapped"))))
	must(t, errorOf(w.admin.Publish(t.Context(), "ledger_admin.backup", []byte(`{"filter":"ledger_admin.>"}`))))
	w.n = 3
	return w
}

// dial connects as a user and counts the permission errors that the server reports.
func (w *world) dial(user string) (*nats.Conn, *atomic.Int64) {
	w.t.Helper()
	var refused atomic.Int64
	var secure nats.Option
	if w.tls {
		secure = nats.RootCAs(authority)
	}
	conn, err := nats.Connect(w.url, secure, nats.UserInfo(user, password(user)), nats.CustomInboxPrefix("_INBOX_"+user),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				refused.Add(1)
			}
		}))
	must(w.t, err)
	w.t.Cleanup(conn.Close)
	return conn, &refused
}

func (w *world) as(user string) jetstream.JetStream {
	w.t.Helper()
	conn, _ := w.dial(user)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(10*time.Second))
	must(w.t, err)
	return js
}

// wantUnhurt checks that the log and the keys are as newWorld made them. The server has
// already handled everything that a refused user sent, because it handled the user's
// flush. The admin's append comes after all effects of those requests.
func (w *world) wantUnhurt() {
	w.t.Helper()
	ack, err := w.admin.Publish(w.t.Context(), "ledger.zz.last.memory", nil)
	if err != nil {
		w.t.Fatalf("the log is hurt: %v", err)
	}
	if ack.Sequence != w.n+1 {
		w.t.Errorf("the log is at %d, want %d", ack.Sequence, w.n+1)
	}
	w.n = ack.Sequence
	s, err := w.admin.Stream(w.t.Context(), natsconf.Stream)
	must(w.t, err)
	info := s.CachedInfo()
	if info.State.FirstSeq != 1 || info.State.Msgs != w.n || info.State.NumDeleted != 0 || info.State.Consumers != 2 {
		w.t.Errorf("the log is hurt: %+v", info.State)
	}
	if !info.Config.DenyPurge || len(info.Config.Subjects) != 2 || info.Config.MaxMsgs > 0 {
		w.t.Errorf("the log was changed: %+v", info.Config)
	}
	for _, name := range followers {
		consumer, err := s.Consumer(w.t.Context(), name)
		if err != nil {
			w.t.Errorf("the %s's consumer is hurt: %v", name, err)
		} else if c := consumer.CachedInfo().Config; c.FilterSubject != "" || len(c.FilterSubjects) != 0 || c.DeliverPolicy != jetstream.DeliverNewPolicy || c.AckPolicy != jetstream.AckNonePolicy {
			w.t.Errorf("the %s's consumer was changed: %+v", name, c)
		}
	}
	keys, err := w.admin.Stream(w.t.Context(), "KV_ledger_keys")
	must(w.t, err)
	if msg, err := keys.GetLastMsgForSubject(w.t.Context(), "$KV.ledger_keys.owner"); err != nil || string(msg.Data) != "wrapped" {
		w.t.Errorf("the key is hurt: %v", err)
	}
	acts, err := w.admin.Stream(w.t.Context(), "ledger_admin")
	must(w.t, err)
	if is := acts.CachedInfo(); is.State.Msgs != 1 || is.State.FirstSeq != 1 || is.State.LastSeq != 1 || is.State.Consumers != 0 || !is.Config.DenyDelete || !is.Config.DenyPurge {
		w.t.Errorf("the admin log is hurt: %+v, %+v", is.State, is.Config)
	}
}

// TestRecordedActsStay: the server deletes no record of what operators did, not even for
// the administrator, and auditors read them all.
func TestRecordedActsStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acts, err := w.admin.Stream(t.Context(), "ledger_admin")
	must(t, err)
	for what, err := range map[string]error{"delete": acts.DeleteMsg(t.Context(), 1), "erase": acts.SecureDeleteMsg(t.Context(), 1), "purge": acts.Purge(t.Context())} {
		if err == nil {
			t.Errorf("%s: done", what)
		}
	}
	seen, err := w.as("auditor").Stream(t.Context(), "ledger_admin")
	must(t, err)
	if record, err := seen.GetMsg(t.Context(), 1); err != nil || record.Subject != "ledger_admin.backup" {
		t.Errorf("%+v, %v", record, err)
	}
	w.wantUnhurt()
}

// These attacks need only headers: roll up (a purge), expire, or skip the owner's line.
func TestHeadersPurgeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn, _ := w.dial("core")
	for _, subject := range []string{"ledger.aa.owner.memory", "$KV.ledger_keys.other"} {
		for header, value := range map[string]string{
			"Nats-Rollup": "all", "Nats-TTL": "1s", "Nats-Schedule": "@at 2000-01-01T00:00:00Z", "Nats-Incr": "1",
		} {
			msg := nats.NewMsg(subject)
			msg.Header.Set(header, value)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			answer, err := conn.RequestMsgWithContext(ctx, msg)
			cancel()
			must(t, err)
			var ack struct{ Error *struct{ Code int } }
			if err := json.Unmarshal(answer.Data, &ack); err != nil || ack.Error == nil {
				t.Errorf("%s on %s was accepted: %s", header, subject, answer.Data)
			}
		}
	}
	w.wantUnhurt()
}

// The admin may do all this, and could do it by mistake. The log itself refuses it.
func TestNotEvenTheAdminPurgesTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, err := w.admin.Stream(t.Context(), natsconf.Stream)
	must(t, err)
	if err := s.Purge(t.Context()); err == nil {
		t.Error("purged")
	}
	if err := s.DeleteMsg(t.Context(), 1); err == nil {
		t.Error("deleted a message")
	}
	cfg := s.CachedInfo().Config
	cfg.DenyPurge = false
	if _, err := w.admin.UpdateStream(t.Context(), cfg); err == nil {
		t.Error("allowed purges again")
	}
	w.wantUnhurt()
}

// A key is forgotten by erasing it. Only the admin and core may do that. A bucket that was made
// before this was allowed still denies it.
func TestTheAdminErasesKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keys, err := w.admin.Stream(t.Context(), "KV_ledger_keys")
	must(t, err)
	if err := keys.SecureDeleteMsg(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if _, err := keys.GetMsg(t.Context(), 1); !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Errorf("an erased key: %v", err)
	}
	before := keys.CachedInfo().Config
	before.DenyDelete = true
	must(t, errorOf(w.admin.UpdateStream(t.Context(), before)))
	must(t, errorOf(natsconf.Provision(t.Context(), w.admin, 1)))
	if info, err := keys.Info(t.Context()); err != nil || !info.Config.DenyDelete {
		t.Errorf("the bucket of before: %+v, %v", info, err)
	}
}

func TestNobodyGetsInWithoutACredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, opt := range map[string]nats.Option{
		"nobody": nats.Name("x"), "wrong": nats.UserInfo("admin", "wrong"), "swapped": nats.UserInfo("admin", password("auditor")),
	} {
		if conn, err := nats.Connect(w.url, opt); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
			if conn != nil {
				conn.Close()
			}
		}
	}
}

func TestMessagesAreFsyncedAndBounded(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"single.conf", "node.conf"} {
		opts, err := server.ProcessConfigFile(file)
		must(t, err)
		if !opts.SyncAlways || opts.MaxPayload != 2<<20 {
			t.Errorf("%s: sync always %v, max payload %d", file, opts.SyncAlways, opts.MaxPayload)
		}
	}
}

func TestClusterFileIsRead(t *testing.T) {
	t.Parallel()
	opts, err := server.ProcessConfigFile("node.conf")
	must(t, err)
	if opts.Cluster.Name != "ledger" || opts.Cluster.Password != "pc" || len(opts.Routes) != 3 || !opts.SyncAlways || opts.SystemAccount != "SYS" {
		t.Errorf("cluster: %+v, routes %v", opts.Cluster, opts.Routes)
	}
}

// A forgotten password must not let everyone in.
func TestMissingPasswordStopsTheServer(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("accounts.conf")
	must(t, err)
	file := filepath.Join(t.TempDir(), "accounts.conf")
	must(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "$NATS_AUDITOR_PASSWORD", "$NATS_NOT_SET")), 0o600))
	if _, err := server.ProcessConfigFile(file); err == nil || !strings.Contains(err.Error(), "NATS_NOT_SET") {
		t.Errorf("got %v", err)
	}
}
