package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestNoSecretIsStored does everything that involves a secret, then searches every stored
// byte of the log, the buckets and the database for each secret: texts, tokens
// and keys, as they are, in base64 and in hex.
func TestNoSecretIsStored(t *testing.T) {
	slow(t)
	t.Parallel()
	dir := filepath.Join(pgtest.Folder(t), "data")
	r := startRun(t, dir)
	secrets, witness := useEverySecret(t, r)
	r.stop()
	for name, n := range map[string]int{"master-key": 32, "jwt-secret": 32} {
		secret, err := datadir.LoadSecret(dir, name, n)
		noErr(t, err)
		secrets[name] = string(secret)
	}
	signedByFile(t, filepath.Join(dir, "secrets", "jwt-secret"), secrets["core token"])
	database, err := localpostgres.Home(filepath.Join(dir, "postgres"))
	noErr(t, err)
	stored := everyByte(t, filepath.Join(dir, "nats"), database)
	found := 0
	for path, content := range stored {
		if bytes.Contains(content, []byte(witness)) {
			found++
		}
		for name, secret := range secrets {
			for form, text := range formsOf(secret) {
				if bytes.Contains(content, []byte(text)) {
					t.Errorf("%s holds the %s (%s)", path, name, form)
				}
			}
		}
	}
	// Metadata is not secret. Finding it shows that the search works, in the log and in
	// the database.
	if found < 2 {
		t.Errorf("only %d files hold what they should: is the search looking in the right place?", found)
	}
	for name, secret := range secrets {
		if strings.Contains(r.output(), secret) {
			t.Errorf("the %s is in the logs", name)
		}
	}
}

// useEverySecret uses every kind of secret. It returns, by name, the secrets that clients
// sent or got, and a text that is stored in the clear.
func useEverySecret(t *testing.T, r *run) (secrets map[string]string, witness string) {
	t.Helper()
	core, extension := r.clients()
	wallet := stacktest.NewWallet()
	coreToken, extensionToken := core.Token(wallet), extension.Token(wallet)
	session, other := stacktest.Bearer(coreToken), stacktest.Bearer(extensionToken)
	content, throughDrop := "a very private thought about heliotropes", "a private thought left by a visitor"
	witness = "metadata-that-anybody-may-read"
	a := core.Expect(201, "POST", "/memories", map[string]any{"content": content, "metadata": map[string]any{"w": witness}}, session, stacktest.With("Idempotency-Key", "secret-idempotency-key"))
	key := core.Expect(201, "POST", "/keys", map[string]any{"label": "x"}, session).Text("key")
	core.Expect(200, "GET", "/memories/"+a.Text("id"), nil, stacktest.Bearer(key))
	core.Expect(200, "POST", "/memories/search", map[string]any{"query": "private thought"}, session)
	core.Expect(200, "POST", "/memories/search", map[string]any{"query": "what about heliotropes?", "mode": "ranked"}, session)
	app := newApp(core)
	code := app.allow(session, map[string]any{}).Get("code")
	granted := core.Expect(200, "POST", "/oauth/token", app.form(code), asForm)
	core.Expect(200, "GET", "/memories", nil, stacktest.Bearer(granted.Text("access_token")))
	drop := tokenOf(extension.Expect(201, "POST", "/memory-drops", nil, other))
	extension.Expect(201, "POST", "/memory-drops/"+drop, map[string]any{"content": throughDrop})
	agentCase := tokenOf(extension.Expect(201, "POST", "/agent-cases", nil, other))
	extension.Expect(200, "GET", "/agent-cases/"+agentCase, nil)
	extension.Expect(200, "POST", "/auth/logout", nil, other)
	return map[string]string{
		"content": content, "content of a drop": throughDrop, "core token": coreToken, "extension token": extensionToken,
		"code": code, "access token": granted.Text("access_token"), "refresh token": granted.Text("refresh_token"),
		"API key": key, "drop token": drop, "case token": agentCase, "idempotency key": "secret-idempotency-key",
		"search query": "private thought", "ranked query": "what about heliotropes?",
	}, witness
}

// signedByFile: a core API beside the run that uses the run's own JWT_SECRET_FILE accepts
// the run's sessions.
func signedByFile(t *testing.T, path, token string) {
	t.Helper()
	_, err := jwt.Parse(token, func(*jwt.Token) (any, error) {
		secret, err := os.ReadFile(path)
		return bytes.TrimSpace(secret), err
	}, jwt.WithValidMethods([]string{"HS256"}))
	if err != nil {
		t.Errorf("a session of the run under the secret in its file: %v", err)
	}
}

func formsOf(secret string) map[string]string {
	forms := map[string]string{
		"as it is": secret, "hex": hex.EncodeToString([]byte(secret)),
		"base64": strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "="),
	}
	// Often a token is a prefix and 32 random bytes; those bytes alone would be enough.
	if random := secret[strings.LastIndex(secret, "_")+1:]; len(random) == 43 && random != secret {
		forms["without its prefix"] = random
		if raw, err := base64.RawURLEncoding.DecodeString(random); err == nil {
			forms["raw"] = string(raw)
		}
	}
	return forms
}

// everyByte reads every file below the folders. It follows links: the database's folder
// may be a link to another place.
func everyByte(t *testing.T, folders ...string) map[string][]byte {
	t.Helper()
	stored := map[string][]byte{}
	for len(folders) > 0 {
		resolved, err := filepath.EvalSymlinks(folders[0])
		noErr(t, err)
		folders = folders[1:]
		err = filepath.WalkDir(resolved, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.Type()&fs.ModeSymlink != 0 {
				folders = append(folders, path)
			}
			if !entry.Type().IsRegular() {
				return nil
			}
			stored[path], err = os.ReadFile(path)
			return err
		})
		noErr(t, err)
	}
	return stored
}
