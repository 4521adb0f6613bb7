package npm

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// registryURL returns the registry that npm would use: NPM_CONFIG_REGISTRY, else registry
// in the user's .npmrc, else what an installed npm says. The URL ends with a slash.
func registryURL(ctx context.Context) (*url.URL, error) {
	text := cmp.Or(os.Getenv("npm_config_registry"), os.Getenv("NPM_CONFIG_REGISTRY"), fromNPMRC())
	if text == "" {
		text = fromNPM(ctx)
	}
	if text == "" {
		return nil, errors.New("no npm registry is known: set NPM_CONFIG_REGISTRY to its address")
	}
	u, err := url.Parse(strings.TrimSuffix(text, "/") + "/")
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("NPM_CONFIG_REGISTRY or registry in .npmrc is not a URL of a registry: %q", text)
	}
	return u, nil
}

// fromNPM returns the registry of the installed npm, or "" if there is none.
func fromNPM(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "npm", "config", "get", "registry").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
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
