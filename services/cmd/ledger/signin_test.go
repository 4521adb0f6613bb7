package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/keystore/keystoretest"
	"github.com/memory-ledger/ledger/services/run/assembly"
)

// challenger issues challenges that name a site, and counts the answers.
func challenger(t *testing.T, site string) (url string, signed *atomic.Int32) {
	t.Helper()
	signed = new(atomic.Int32)
	stamp := func(after time.Duration) string {
		return time.Now().Add(after).UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/auth/verify" {
			signed.Add(1)
			_, _ = w.Write([]byte(`{"token": "the token", "expiresAt": "2999-01-01T00:00:00Z", "publicKey": "the owner"}`))
			return
		}
		if r.URL.Path == "/memories/the-id/forget" && r.Method == http.MethodPost && r.Header.Get("Authorization") == "Bearer the token" {
			_, _ = w.Write([]byte(`{"ok": true}`))
			return
		}
		var asked struct{ PublicKey string }
		if err := json.UnmarshalRead(r.Body, &asked, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Error(err)
		}
		named := site
		if named == "" {
			named = "http://" + r.Host
		}
		_, domain, _ := strings.Cut(named, "://")
		_ = json.MarshalWrite(w, map[string]string{"message": domain + " wants you to sign in with your Solana account:\n" + asked.PublicKey +
			"\n\nSign in to Memory Ledger. This proves that you hold this wallet's key. It costs nothing and moves nothing.\n\nURI: " + named +
			"\nVersion: 1\nChain ID: localnet\nNonce: abcdefgh\nIssued At: " + stamp(0) + "\nExpiration Time: " + stamp(time.Minute)})
	}))
	t.Cleanup(server.Close)
	return server.URL, signed
}

// TestSignInSignsItsOwnService: sign-in and docs/signin.mjs sign for the service that they
// were pointed at, and not what a relay passes on from another one.
func TestSignInSignsItsOwnService(t *testing.T) {
	onlyEnviron(t, nil)
	own, signed := challenger(t, "")
	relay, relayed := challenger(t, "https://bank.example")
	keypair := filepath.Join(t.TempDir(), "wallet.json")
	var out strings.Builder
	if code := run([]string{"sign-in", "--keypair", keypair, "--url", own}, &out); code != 0 || out.String() != "the token\n" || signed.Load() != 1 {
		t.Errorf("its own service: exit code %d, %q, signed %d times", code, out.String(), signed.Load())
	}
	if code := run([]string{"sign-in", "--keypair", keypair, "--url", relay}, &out); code != exitUsage || relayed.Load() != 0 {
		t.Errorf("a relay: exit code %d, signed %d times", code, relayed.Load())
	}
	if code := run([]string{"sign-in", "--keypair", keypair, "--url", relay, "--public-url", "https://bank.example/"}, &out); code != 0 || relayed.Load() != 1 {
		t.Errorf("an inner address: exit code %d, signed %d times", code, relayed.Load())
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("needs Node for docs/signin.mjs")
	}
	script := func(url string) (string, error) {
		text, err := exec.CommandContext(t.Context(), "node", "../../../docs/signin.mjs", url).CombinedOutput()
		return string(text), err
	}
	if text, err := script(own); err != nil || !strings.HasPrefix(text, "TOKEN=the token\n") || signed.Load() != 2 {
		t.Errorf("the script, its own service: %v, %s", err, text)
	}
	if text, err := script(relay); err == nil || !strings.Contains(text, "not signed") || relayed.Load() != 1 {
		t.Errorf("the script, a relay: %v, %s", err, text)
	}
}

// TestForgetMemory: the command asks first, and then forgets with the wallet's session. If
// there is no wallet, it makes none: that would be another owner.
func TestForgetMemory(t *testing.T) {
	onlyEnviron(t, nil)
	url, signed := challenger(t, "")
	keypair := filepath.Join(t.TempDir(), "wallet.json")
	command := []string{"forget-memory", "the-id", "--url", url, "--keypair", keypair}
	var out strings.Builder
	if code := run(append(command, "--yes"), &out); code != exitUsage || signed.Load() != 0 {
		t.Errorf("without a wallet: exit code %d, signed %d times", code, signed.Load())
	}
	must(t, assembly.EnsureKeypair(keypair))
	if code := run(command, &out); code != exitUsage || signed.Load() != 0 {
		t.Errorf("without --yes: exit code %d, %q", code, out.String())
	}
	if code := run(append(command, "--yes"), &out); code != 0 || signed.Load() != 1 || out.String() != "the text of memory the-id can't be read again\n" {
		t.Errorf("exit code %d, %q, signed %d times", code, out.String(), signed.Load())
	}
}

// TestCheckKey: the drill says for each key how many records it opens, of the keystore in
// use and of a backup whose server is gone, and changes no record.
func TestCheckKey(t *testing.T) {
	server := natstest.Start(t)
	nc, js := natstest.Connect(t, server.URL())
	natstest.Log(t, nc)
	right, before, other := keystore.MasterKey{1}, keystore.MasterKey{2}, keystore.MasterKey{3}
	store := keystoretest.Create(t, js, right)
	onlyEnviron(t, map[string]string{"NATS_URL": server.URL(), "LEDGER_DATA_DIR": t.TempDir()})
	drill := func(key keystore.MasterKey, code int, want string, more ...string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "key")
		must(t, os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(key[:])+"\n"), 0o600))
		var out bytes.Buffer
		if got := run(append([]string{"check-key", path}, more...), &out); got != code || !strings.HasPrefix(out.String(), want) {
			t.Errorf("exit code %d, want %d: %s, want %s", got, code, out.String(), want)
		}
	}
	drill(right, exitFinding, "master key "+right.ID()+" opens 0 of 0 data keys\n")
	add := func(s *keystore.Store) {
		t.Helper()
		must(t, errorOf(s.FindOrCreate(t.Context(), logtest.Owner(), 0, nil)))
	}
	add(store)
	gone := logtest.Owner()
	must(t, errorOf(store.FindOrCreate(t.Context(), gone, 0, nil)))
	must(t, errorOf(keystore.Forget(t.Context(), js, gone, true)))
	drill(right, 0, "master key "+right.ID()+" opens 1 of 1 data keys\n")

	copies := filepath.Join(t.TempDir(), "copies")
	if out, err := ledger(t.Context(), "backup", copies); err != nil {
		t.Fatal(out, err)
	}
	bucket, err := js.KeyValue(t.Context(), keystore.Bucket)
	must(t, err)
	earlier := keystore.Open(bucket, keystore.Config{Masters: []keystore.Master{before}})
	add(earlier)
	must(t, errorOf(bucket.Put(t.Context(), string(logtest.Owner()), []byte(`{"v":2,"master":"`+right.ID()+`","wrapped":"AAAA"}`))))
	state := func() any {
		stream, err := js.Stream(t.Context(), keystore.Stream)
		must(t, err)
		is := stream.CachedInfo().State
		return [3]uint64{is.Msgs, is.FirstSeq, is.LastSeq}
	}
	was := state()
	drill(right, exitFinding, "master key "+right.ID()+" opens 1 of 3 data keys\n1 need master key "+before.ID()+"\n1 are damaged\n")
	drill(before, exitFinding, "master key "+before.ID()+" opens 1 of 3 data keys\n2 need master key "+right.ID()+"\n")
	if is := state(); is != was {
		t.Errorf("the drill changed the keystore: %v, was %v", is, was)
	}

	must(t, server.Stop(context.Background()))
	drill(right, exitUsage, "")
	drill(right, 0, "master key "+right.ID()+" opens 1 of 1 data keys\n", "--backup", copies)
	drill(other, exitFinding, "master key "+other.ID()+" opens 0 of 1 data keys\n1 need master key "+right.ID()+"\n", "--backup", copies)
	drill(right, exitUsage, "", "--backup", t.TempDir())
	must(t, os.WriteFile(filepath.Join(copies, "keystore", "stream.s2"), []byte("x"), 0o600))
	drill(right, exitUsage, "", "--backup", copies)
}

// TestCheckKeyReadsStandardInput, so that a key from the safe need not touch a disk.
func TestCheckKeyReadsStandardInput(t *testing.T) {
	onlyEnviron(t, map[string]string{"LEDGER_DATA_DIR": t.TempDir()})
	for text, want := range map[string]string{
		base64.StdEncoding.EncodeToString(make([]byte, keystore.KeySize)) + "\r\n": "not running",
		"short": "standard input: not 32 bytes in base64", "": "standard input: not set",
	} {
		root := newRoot()
		root.SetIn(strings.NewReader(text))
		root.SetArgs([]string{"check-key", "-"})
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
