package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/run/config"
)

const (
	chromeID = "abcdefghijklmnopabcdefghijklmnop"
	uuid     = "0a1b2c3d-0a1b-4c3d-8e9f-0a1b2c3d4e5f"
)

func TestNamesOfExtensions(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load([]string{"EXTENSION_NAMES=" + chromeID + "=My Notes, " + strings.ToUpper(uuid) + " = A = b"})
	if got := cfg.NamesOfExtensions(); err != nil || len(got) != 2 || got[chromeID] != "My Notes" || got[uuid] != "A = b" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestDoorSettings: the error names the refused variable, and does not repeat a value
// that may hold a password.
func TestDoorSettings(t *testing.T) {
	t.Parallel()
	for setting, good := range map[string]bool{
		"ENVIRONMENT=production":                         true,
		"ENVIRONMENT=staging":                            true,
		"ENVIRONMENT=":                                   true,
		"ENVIRONMENT=prod":                               false,
		"ENVIRONMENT= production":                        false,
		"LOG_LEVEL=WARN":                                 true,
		"LOG_LEVEL=verbose":                              false,
		"CORE_URL=https://h/base":                        true,
		"CORE_URL=https://u:s3cr3t@h":                    false,
		"CORE_URL=https://h?q":                           false,
		"SIGN_IN_CHAIN_ID=devnet":                        true,
		"SIGN_IN_CHAIN_ID=a\nNonce: b":                   false,
		"SIGN_IN_CHAIN_ID=a\u202eb":                      false,
		"EXTENSION_ALLOWED_ORIGINS=*":                    false,
		"EXTENSION_ALLOWED_ORIGINS=https://u:s3cr3t@a.b": false,
		"EXTENSION_ALLOWED_ORIGINS=https://a.b/":         false,
		"EXTENSION_ALLOWED_ORIGINS=https://a.b?q=1":      false,
		"DASHBOARD_RPC_URL=u:s3cr3t@h":                   false,
		"EXTENSION_ALLOWED_ORIGINS=https://bücher.b":     false,
		"EXTENSION_ALLOWED_ORIGINS=https://a.b,x":        false,
		"CORE_ALLOWED_ORIGINS=https://a.b":               true,
		"CORE_ALLOWED_ORIGINS=*":                         false,
		"EXTENSION_NAMES=":                               true,
		"EXTENSION_NAMES=" + chromeID + "=My Notes, " + strings.ToUpper(uuid) + " = Ñandú = x": true,
		"EXTENSION_NAMES=" + chromeID:                                 false,
		"EXTENSION_NAMES=" + chromeID + "=":                           false,
		"EXTENSION_NAMES=" + chromeID[1:] + "=x":                      false,
		"EXTENSION_NAMES=My Notes=" + chromeID:                        false,
		"EXTENSION_NAMES=" + chromeID + "=x,":                         false,
		"EXTENSION_NAMES=" + chromeID + "=x," + chromeID + "=y":       false,
		"EXTENSION_NAMES=" + chromeID + "=a\u202eb":                   false,
		"EXTENSION_NAMES=" + chromeID + "=" + strings.Repeat("x", 61): false,
		"OPS_ADDR=127.0.0.1:3003":                                     true,
		"OPS_ADDR=3003":                                               false,
		"EXTENSION_SESSION_TTL=720h":                                  true,
		"EXTENSION_SESSION_TTL=0s":                                    false,
	} {
		_, err := config.Load([]string{setting})
		name, _, _ := strings.Cut(setting, "=")
		if (err == nil) != good || err != nil && (!strings.HasPrefix(err.Error(), name+": ") || strings.Contains(err.Error(), "s3cr3t")) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

// TestDefaultURLs: an API that listens on all addresses is reached by loopback.
func TestDefaultURLs(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"127.0.0.1:3002":   "http://127.0.0.1:3002",
		"127.0.0.1:80":     "http://127.0.0.1",
		":3002":            "http://127.0.0.1:3002",
		"0.0.0.0:3002":     "http://127.0.0.1:3002",
		"[::]:3002":        "http://127.0.0.1:3002",
		"[::1]:3002":       "http://[::1]:3002",
		"10.0.0.1:3002":    "http://10.0.0.1:3002",
		"ledger.test:3002": "http://ledger.test:3002",
	} {
		cfg, err := config.Load([]string{"CORE_ADDR=" + addr, "EXTENSION_ADDR=" + addr})
		if err != nil || cfg.CoreURL != want || cfg.ExtensionURL != want {
			t.Errorf("%s: %s, %s, %v", addr, cfg.CoreURL, cfg.ExtensionURL, err)
		}
	}
}

// TestBaseURLsAsBrowsersWriteThem: wallets compare the host of a text to sign with that of
// the page, and the extension API the dashboard's origin with CORE_URL's, both as text.
func TestBaseURLsAsBrowsersWriteThem(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"https://core.test": "https://core.test", "HTTPS://Core.Test:443/": "https://core.test", "http://core.test:80": "http://core.test",
		"https://Core.Test:8443/Api//": "https://core.test:8443/Api", "http://[2001:DB8::1]:080": "http://[2001:db8::1]",
	} {
		cfg, err := config.Load([]string{"CORE_ADDR=:3001", "CORE_URL=" + given, "EXTENSION_URL=" + given, "LEDGER_URL=" + strings.TrimRight(given, "/")})
		if err != nil || cfg.CoreURL != want || cfg.ExtensionURL != want || cfg.AgentURL != want {
			t.Errorf("%s: %s, %s, %s, %v", given, cfg.CoreURL, cfg.ExtensionURL, cfg.AgentURL, err)
		}
	}
	for given, want := range map[string]string{
		"CORE_URL=https://münchen.test":    `CORE_URL: "https://münchen.test" is not as browsers send it`,
		"CORE_URL=https://core.test:70000": `CORE_URL: "https://core.test:70000" is not an origin`,
		"CORE_ADDR=127.0.0.1:70000":        `CORE_ADDR: "127.0.0.1:70000" is not host:port`, // and nothing of CORE_URL, which is not set
	} {
		if _, err := config.Load([]string{given}); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", given, err)
		}
	}
}

// TestOriginsAsBrowsersSendThem: the allowlist is compared as text with the origin that a
// browser sends.
func TestOriginsAsBrowsersSendThem(t *testing.T) {
	t.Parallel()
	given := "HTTPS://App.Example:443, http://a.example:80,http://a.example:443,https://b.example:8443,http://[::1]:80,http://[2001:DB8::1]:5173," +
		"https://c.example:,https://d.example:0443,safari-web-extension://0A1B"
	want := []string{"https://app.example", "http://a.example", "http://a.example:443", "https://b.example:8443", "http://[::1]", "http://[2001:db8::1]:5173",
		"https://c.example", "https://d.example", "safari-web-extension://0A1B"}
	cfg, err := config.Load([]string{"EXTENSION_ALLOWED_ORIGINS=" + given})
	if err != nil || !slices.Equal(cfg.ExtensionAllowedOrigins, want) {
		t.Errorf("%q, %v", cfg.ExtensionAllowedOrigins, err)
	}
	cfg, err = config.Load([]string{"CORE_ALLOWED_ORIGINS=" + given})
	if err != nil || !slices.Equal(cfg.CoreAllowedOrigins, want) {
		t.Errorf("%q, %v", cfg.CoreAllowedOrigins, err)
	}
}
