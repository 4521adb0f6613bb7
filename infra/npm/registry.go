package npm

import (
	"bufio"
	"cmp"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// publicRegistry is npm's own default. It is the one address that a machine without npm
// has to know, and the integrity of each package is in our lock files: a registry can
// refuse to answer, but not change what we run.
const publicRegistry = ""

// registryURL returns the registry that npm would use: NPM_CONFIG_REGISTRY, else registry
// in the user's .npmrc, else the public one. The URL ends with a slash.
func registryURL() (*url.URL, error) {
	text := cmp.Or(os.Getenv("npm_config_registry"), os.Getenv("NPM_CONFIG_REGISTRY"), fromNPMRC(), publicRegistry)
	u, err := url.Parse(strings.TrimSuffix(text, "/") + "/")
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("NPM_CONFIG_REGISTRY or registry in .npmrc is not a URL of a registry: %q", text)
	}
	return u, nil
}

// fromNPMRC returns the registry of the user's .npmrc, or "" if none is set.
func fromNPMRC() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	file, err := os.Open(filepath.Join(home, ".npmrc"))
	if err != nil {
		return ""
	}
	defer file.Close()
	registry := ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok && strings.TrimSpace(name) == "registry" {
			registry = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return registry
}
