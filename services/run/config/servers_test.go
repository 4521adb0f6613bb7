package config_test

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/run/config"
)

// TestServersWithPasswords: the error names the variable of a malformed address, and does
// not show its password.
func TestServersWithPasswords(t *testing.T) {
	t.Parallel()
	const password = "s3cr3t"
	for setting, good := range map[string]bool{
		"NATS_URL=nats://u:s3cr3t@host:4222":                        true,
		"NATS_URL=host":                                             true,
		"NATS_URL=tls://u:s3cr3t@one, nats://u:s3cr3t@two:1":        true,
		"NATS_URL=nats://u:s3cr3t%zz@host":                          false,
		"NATS_URL=nats://u:s3cr3t@host:port":                        false,
		"NATS_URL=nats://one,nats://u:s3cr3t @host":                 false,
		"NATS_URL=u:s3cr3t":                                         false,
		"DATABASE_URL=postgres://u:s3cr3t@host/d":                   true,
		"DATABASE_URL=postgresql://ledger@/ledger?host=%2Fa&port=1": true,
		"DATABASE_URL=host=h user=u password=s3cr3t dbname=d":       true,
		"DATABASE_URL=postgres://u:s3cr3t@host:port/d":              false,
		"DATABASE_URL=postgres://u:s3cr3t%zz@host/d":                false,
		"DATABASE_URL=postgres://u:s3cr3t@host/d?sslmode=zz":        false,
		"DATABASE_URL=s3cr3t":                                       false,
		"DATABASE_URL=mysql://u:s3cr3t@host/d":                      false,
	} {
		_, err := config.Load([]string{setting})
		name, _, _ := strings.Cut(setting, "=")
		if (err == nil) != good || err != nil && (!strings.HasPrefix(err.Error(), name+": ") || strings.Contains(err.Error(), password)) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

// TestACertificateThatIsNotThere: the error names the missing certificate file, because
// the address itself is valid.
func TestACertificateThatIsNotThere(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "ca.pem")
	_, err := config.Load([]string{"DATABASE_URL=postgres://u:s3cr3t@host/d?sslmode=verify-full&sslrootcert=" + missing})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) || strings.Contains(err.Error(), "s3cr3t") {
		t.Error(err)
	}
}

// TestAnEmptyFileIsNotSet: an empty file means that the variable is not set. A deployment
// always names the file of the previous master key, but fills it only while keys rotate.
func TestAnEmptyFileIsNotSet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, previous := filepath.Join(dir, "key"), filepath.Join(dir, "previous")
	text := []byte(base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n")
	for _, c := range []struct {
		previous []byte
		want     int
	}{{nil, 1}, {text, 2}} {
		if err := errors.Join(os.WriteFile(key, text, 0o600), os.WriteFile(previous, c.previous, 0o600)); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load([]string{"MASTER_KEY_FILE=" + key, "MASTER_KEY_PREVIOUS_FILE=" + previous})
		if err != nil {
			t.Fatal(err)
		}
		if keys, err := cfg.MasterKeys(); err != nil || len(keys) != c.want {
			t.Errorf("%q: %d keys, %v", c.previous, len(keys), err)
		}
	}
}
