package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

// issuer makes credentials of its account.
type issuer struct {
	t       *testing.T
	account nkeys.KeyPair
	url     string
}

// withOperator runs a server that knows its users only by their credentials.
func withOperator(t *testing.T) issuer {
	t.Helper()
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	operator, err := nkeys.CreateOperator()
	must(err)
	account, err := nkeys.CreateAccount()
	must(err)
	publicOperator, err := operator.PublicKey()
	must(err)
	publicAccount, err := account.PublicKey()
	must(err)
	claims := jwt.NewAccountClaims(publicAccount)
	token, err := claims.Encode(operator)
	must(err)
	accounts := &server.MemAccResolver{}
	must(accounts.Store(publicAccount, token))
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
		TrustedOperators: []*jwt.OperatorClaims{jwt.NewOperatorClaims(publicOperator)}, AccountResolver: accounts,
	})
	must(err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(2 * time.Minute) {
		t.Fatal("server is not ready")
	}
	return issuer{t, account, ns.ClientURL()}
}

// file writes a credentials file of a user who may subscribe only to some subjects.
func (i issuer) file(listen ...string) string {
	i.t.Helper()
	user, err := nkeys.CreateUser()
	must(i.t, err)
	public, err := user.PublicKey()
	must(i.t, err)
	claims := jwt.NewUserClaims(public)
	claims.Permissions.Sub.Allow = listen
	token, err := claims.Encode(i.account)
	must(i.t, err)
	seed, err := user.Seed()
	must(i.t, err)
	text, err := jwt.FormatUserConfig(token, seed)
	must(i.t, err)
	path := filepath.Join(i.t.TempDir(), "user.creds")
	must(i.t, os.WriteFile(path, text, 0o600))
	return path
}

// A client with a credentials file receives replies on the inbox prefix that it may
// subscribe to, and on no other.
func TestInboxOfCredentials(t *testing.T) {
	t.Parallel()
	i := withOperator(t)
	dial := func(cfg config.Config) *nats.Conn {
		cfg.NATSURL = i.url
		refused := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
		nc, err := assembly.Dial(cfg)(refused)
		must(t, err)
		t.Cleanup(nc.Close)
		return nc
	}
	answering := dial(config.Config{NATSCreds: i.file()})
	if _, err := answering.Subscribe("question", func(m *nats.Msg) { _ = m.Respond([]byte("answer")) }); err != nil {
		t.Fatal(err)
	}
	must(t, answering.Flush())
	creds := i.file("_INBOX_reader.>")
	reader := dial(config.Config{NATSCreds: creds, NATSInbox: "_INBOX_reader"})
	if m, err := reader.Request("question", nil, 10*time.Second); err != nil || string(m.Data) != "answer" {
		t.Errorf("with the prefix: %v", err)
	}
	if _, err := dial(config.Config{NATSCreds: creds}).Request("question", nil, 300*time.Millisecond); err == nil {
		t.Error("without the prefix an answer came")
	}
}
