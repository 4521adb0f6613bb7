package config

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memory-ledger/ledger/services/httpapi/connect"
)

// longestExtensionName is in characters.
const longestExtensionName = 60

// NamesOfExtensions returns the names of EXTENSION_NAMES by id, in lower case.
func (c *Config) NamesOfExtensions() map[string]string {
	names := make(map[string]string, len(c.ExtensionNames))
	for _, pair := range c.ExtensionNames {
		id, name := extensionName(pair)
		names[id] = name
	}
	return names
}

// extensionNames checks EXTENSION_NAMES.
func (c *Config) extensionNames() (errs []error) {
	seen := make(map[string]bool, len(c.ExtensionNames))
	invisible := func(r rune) bool { return !unicode.IsGraphic(r) }
	for _, pair := range c.ExtensionNames {
		id, name := extensionName(pair)
		switch {
		case !connect.IsExtensionID(id):
			errs = append(errs, fmt.Errorf("%q does not begin with the id of a browser extension and =", pair))
		case name == "" || utf8.RuneCountInString(name) > longestExtensionName || strings.ContainsFunc(name, invisible):
			errs = append(errs, fmt.Errorf("the name of %s: not 1 to %d visible characters", id, longestExtensionName))
		case seen[id]:
			errs = append(errs, fmt.Errorf("%s is named twice", id))
		}
		seen[id] = true
	}
	return errs
}

func extensionName(pair string) (id, name string) {
	id, name, _ = strings.Cut(pair, "=")
	return strings.ToLower(strings.TrimSpace(id)), strings.TrimSpace(name)
}
