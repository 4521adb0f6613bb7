package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/memory-ledger/ledger/anchoring/chain"
)

const production = "production"

// URLOf returns the base URL at which this machine reaches a listen address. If the
// listen address means all addresses of the machine, the URL uses loopback.
func URLOf(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "http://" + addr
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		addr = net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + addr
}

// chainID is what the clients accept as a chain's name in a text to sign.
var chainID = regexp.MustCompile(`^[\w:.-]{1,64}$`)

// apis checks the settings of the APIs, and normalizes the base URLs and the origins.
func (c *Config) apis() []error {
	var errs []error
	problem := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, api := range []struct {
		name, addr string
		base       *string
	}{{"CORE", c.CoreAddr, &c.CoreURL}, {"EXTENSION", c.ExtensionAddr, &c.ExtensionURL}} {
		good := isAddress(api.addr)
		if !good {
			problem("%s_ADDR: %q is not host:port", api.name, api.addr)
		}
		if good || *api.base != URLOf(api.addr) {
			errs = append(errs, baseURL(api.name+"_URL", api.base)...)
		}
	}
	if c.OpsAddr != "" && !isAddress(c.OpsAddr) {
		problem("OPS_ADDR: %q is not host:port", c.OpsAddr)
	}
	if _, err := chain.New(c.DashboardRPCURL); c.DashboardRPCURL != "" && err != nil {
		problem("DASHBOARD_RPC_URL: %w", err)
	}
	if c.AgentURL != "" { // unset: the local run's URL
		errs = append(errs, baseURL("LEDGER_URL", &c.AgentURL)...)
	}
	errs = append(errs, origins("CORE_ALLOWED_ORIGINS", c.CoreAllowedOrigins)...)
	errs = append(errs, origins("EXTENSION_ALLOWED_ORIGINS", c.ExtensionAllowedOrigins)...)
	for _, err := range c.extensionNames() {
		problem("EXTENSION_NAMES: %w", err)
	}
	// A misspelled production would show the causes that production hides.
	name := strings.ToLower(strings.TrimSpace(c.Environment))
	if strings.HasPrefix(name, "prod") && !c.Production() {
		problem("ENVIRONMENT: %q: did you mean %s?", c.Environment, production)
	}
	if new(slog.Level).UnmarshalText([]byte(c.LogLevel)) != nil {
		problem("LOG_LEVEL: %q is none of debug, info, warn and error", c.LogLevel)
	}
	if !chainID.MatchString(c.SignInChainID) {
		problem("SIGN_IN_CHAIN_ID: %q is no name: one word such as mainnet, of letters, digits and :.-_", c.SignInChainID)
	}
	return errs
}

// isAddress reports whether a server may listen on an address.
func isAddress(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err == nil
}

// baseURL checks a variable's URL and normalizes it: a wallet compares its host with the
// page's, and the APIs its origin with the browser's.
func baseURL(variable string, base *string) []error {
	u, err := url.Parse(*base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return []error{fmt.Errorf("%s: %s is not an http or https URL without user, query and fragment", variable, shown(*base))}
	}
	own, err := origin(u.Scheme + "://" + u.Host)
	if err != nil {
		return []error{fmt.Errorf("%s: %s %w", variable, shown(*base), err)}
	}
	*base = own + u.EscapedPath()
	return nil
}

// shown quotes a value for an error. It does not show a value that may hold a password.
func shown(value string) string {
	if strings.Contains(value, "@") {
		return "what it is set to"
	}
	return strconv.Quote(value)
}

// origins checks a variable's origins and normalizes them.
func origins(variable string, list []string) (errs []error) {
	for i, text := range list {
		normal, err := origin(strings.TrimSpace(text))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s %w", variable, shown(text), err))
		}
		list[i] = normal
	}
	return errs
}

var errOrigin = errors.New("is not an origin (scheme://host[:port], and nothing more)")

// origin returns an origin as browsers send it: scheme and host in lower case, in
// ASCII, without the port that the scheme implies. Origins are compared as text, so
// another form would never match.
func origin(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Hostname() == "" || u.Path != "" || strings.ContainsAny(text, "@?#") {
		return text, errOrigin
	}
	if strings.ContainsFunc(u.Host, func(r rune) bool { return r > unicode.MaxASCII }) {
		return text, errors.New("is not as browsers send it: write the host in its xn-- form")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return text, nil // a browser extension: the host is a case-sensitive id
	}
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if u.Port() == "" {
		return u.Scheme + "://" + host, nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case err != nil:
		return text, errOrigin
	case u.Scheme == "http" && port == 80, u.Scheme == "https" && port == 443:
		return u.Scheme + "://" + host, nil
	}
	return fmt.Sprintf("%s://%s:%d", u.Scheme, host, port), nil
}
