package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// onlyEnviron replaces the environment for the rest of the test.
func onlyEnviron(t *testing.T, environ map[string]string) {
	t.Helper()
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value) // restores it after the test
		must(t, os.Unsetenv(name))
	}
	for name, value := range environ {
		t.Setenv(name, value)
	}
}

// TestEveryProblemAtOnce: the error for a service's environment lists everything that is
// missing or malformed, and repeats no secret.
func TestEveryProblemAtOnce(t *testing.T) {
	half := filepath.Join(t.TempDir(), "half.json")
	must(t, os.WriteFile(half, []byte("[1,2,3]"), 0o600))
	const secret = "tooshort"
	for name, test := range map[string]struct {
		environ map[string]string
		want    []string
	}{
		"core-api": {
			map[string]string{"CORE_ADDR": "nowhere", "MASTER_KEY": secret, "JWT_SECRET": secret},
			[]string{"CORE_ADDR: ", "NATS_URL: not set", "DATABASE_URL: not set", "MASTER_KEY: not 32 bytes", "JWT_SECRET: 8 bytes"},
		},
		"anchorer": {
			map[string]string{
				"ANCHOR_MAX_WAIT": "0s", "NATS_URL": "nats://127.0.0.1:1", "DATABASE_URL": "postgres://127.0.0.1:1/x",
				"SOLANA_RPC_URL": secret, "AUTHORITY_KEYPAIR": half, "COMMITMENT_PROGRAM_ID": "0",
			},
			[]string{"ANCHOR_MAX_WAIT: ", "SOLANA_RPC_URL: not an http", "AUTHORITY_KEYPAIR: ", "COMMITMENT_PROGRAM_ID: not a base58"},
		},
		"run": {
			map[string]string{
				"ANCHOR_MAX_WAIT": "0s", "MASTER_KEY": secret, "JWT_SECRET": secret, "SOLANA_RPC_URL": secret,
				"AUTHORITY_KEYPAIR": half, "COMMITMENT_PROGRAM_ID": "0", "STAKE_MINT": "0", "STAKING_PROGRAM_ID": "0",
			},
			[]string{
				"ANCHOR_MAX_WAIT: ", "MASTER_KEY: not 32 bytes", "JWT_SECRET: 8 bytes", "SOLANA_RPC_URL: not an http", "AUTHORITY_KEYPAIR: ",
				"COMMITMENT_PROGRAM_ID: not a base58", "STAKE_MINT: not a base58", "STAKING_PROGRAM_ID: not a base58",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onlyEnviron(t, test.environ)
			command := newRoot()
			command.SetArgs([]string{name})
			err := command.ExecuteContext(t.Context())
			if err == nil {
				t.Fatal("it started")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("nothing about %q in: %v", want, err)
				}
			}
			if lines := strings.Count(err.Error(), "\n") + 1; lines != len(test.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("%d lines: %v", lines, err)
			}
		})
	}
}
