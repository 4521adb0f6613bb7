package config_test

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/infra/testkit"
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
		testkit.Must(t, errors.Join(os.WriteFile(key, text, 0o600), os.WriteFile(previous, c.previous, 0o600)))
		cfg, err := config.Load([]string{"MASTER_KEY_FILE=" + key, "MASTER_KEY_PREVIOUS_FILE=" + previous})
		testkit.Must(t, err)
		if keys, err := cfg.MasterKeys(); err != nil || len(keys) != c.want {
			t.Errorf("%q: %d keys, %v", c.previous, len(keys), err)
		}
	}
}

func TestStakingSettings(t *testing.T) {
	t.Parallel()
	const address = "11111111111111111111111111111111"
	for name, test := range map[string]struct {
		environ []string
		want    string // part of the error
	}{
		"dormant":           {nil, ""},
		"alive":             {[]string{"STAKE_MINT=" + address, "STAKING_PROGRAM_ID=" + address, "SOLANA_RPC_URL=http://u", "MIN_PARTIAL_UNSTAKE=18446744073709551615", "STAKE_MATURITY=0s"}, ""},
		"no chain":          {[]string{"STAKE_MINT=" + address, "STAKING_PROGRAM_ID=" + address}, "SOLANA_RPC_URL"},
		"no address":        {[]string{"STAKE_MINT=" + address, "STAKING_PROGRAM_ID=0", "SOLANA_RPC_URL=http://u"}, "STAKING_PROGRAM_ID"},
		"half":              {[]string{"STAKE_MINT=m", "SOLANA_RPC_URL=u"}, "set both or neither"},
		"negative minimum":  {[]string{"MIN_PARTIAL_UNSTAKE=-1"}, "MIN_PARTIAL_UNSTAKE"},
		"maturity past":     {[]string{"STAKE_MATURITY=-1h"}, "STAKE_MATURITY"},
		"maturity unitless": {[]string{"STAKE_MATURITY=24"}, "STAKE_MATURITY"},
	} {
		cfg, err := config.Load(test.environ)
		if err == nil {
			err = cfg.Check(config.NeedStaking)
		}
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestACacheThatHoldsNothing(t *testing.T) {
	t.Parallel()
	for value, ok := range map[string]bool{"-1": false, "0": false, "1048575": false, "1048576": true} {
		_, err := config.Load([]string{"BODY_CACHE_BYTES=" + value})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "BODY_CACHE_BYTES: must be at least") {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// TestARunNeedsOnlyRightSettings: a local run makes what is not set, and names every setting
// that is wrong at once.
func TestARunNeedsOnlyRightSettings(t *testing.T) {
	t.Parallel()
	check := func(environ ...string) error {
		cfg, err := config.Load(environ)
		return errors.Join(err, cfg.Check(config.WhatIsSet))
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	wrong := []string{"MASTER_KEY", "JWT_SECRET", "SOLANA_RPC_URL", "AUTHORITY_KEYPAIR", "COMMITMENT_PROGRAM_ID", "STAKE_MINT", "STAKING_PROGRAM_ID"}
	var environ []string
	for _, name := range wrong {
		environ = append(environ, name+"=x")
		if err := check(environ[len(environ)-1]); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "not set") {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := check(environ...)
	for _, name := range wrong {
		if err == nil || !strings.Contains(err.Error(), name+": ") {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
}

// TestEveryVariableIsDocumented: each variable has a meaning and the commands that read
// it. A new variable needs the tags for and doc.
func TestEveryVariableIsDocumented(t *testing.T) {
	t.Parallel()
	var names []string
	for _, v := range config.Variables() {
		names = append(names, v.Name)
		if v.Name == "" || len(v.Commands) == 0 || len(v.Meaning) < 10 || strings.Contains(v.Meaning, "|") {
			t.Errorf("%+v", v)
		}
	}
	for _, want := range []string{"CORE_ADDR", "EXTENSION_ADDR", "MASTER_KEY"} {
		if !slices.Contains(names, want) {
			t.Errorf("there is no %s", want)
		}
	}
	for _, reads := range [][2]string{{"core-api", "CORE_ADDR"}, {"extension-api", "EXTENSION_ADDR"}, {"extension-api", "QUOTA_SEARCHES"}, {"run", "LOCAL_CHAIN"}, {"anchorer", "ANCHOR_MAX_WAIT"}, {"restore", "NATS_REPLICAS"}} {
		if !slices.ContainsFunc(config.VariablesOf(reads[0]), func(v config.Variable) bool { return v.Name == reads[1] }) {
			t.Errorf("%s does not read %s", reads[0], reads[1])
		}
	}
	if slices.ContainsFunc(config.VariablesOf("core-api"), func(v config.Variable) bool { return v.Name == "EXTENSION_ADDR" }) {
		t.Error("the core API reads EXTENSION_ADDR")
	}
}
