// Package pkcs11 uses a master key in a PKCS #11 token. All but its URI needs cgo.
package pkcs11

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// URI is the part of RFC 7512 that names a key and how to reach it.
type URI struct {
	Token, Serial string // one of them at least
	Object        string // the key's label
	Module        string // path of the library
	PINFile       string
}

// ParseURI reads a URI, such as
//
//	pkcs11:token=ledger;object=master?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/run/secrets/pin
//
// A PIN in the URI is refused, because command lines are public on their machine.
func ParseURI(text string) (u URI, err error) {
	rest, is := strings.CutPrefix(text, "pkcs11:")
	if !is {
		return u, errors.New("not a pkcs11: URI")
	}
	path, query, _ := strings.Cut(rest, "?")
	pin := ""
	fields := map[string]*string{
		"token": &u.Token, "serial": &u.Serial, "object": &u.Object, "?module-path": &u.Module, "?pin-source": &pin,
	}
	for _, part := range append(split(path, ";", ""), split(query, "&", "?")...) {
		name, value, _ := strings.Cut(part, "=")
		field, known := fields[name]
		switch {
		case !known:
			return u, fmt.Errorf("the attribute %s of the URI is not supported", strings.TrimPrefix(name, "?"))
		case *field != "":
			return u, fmt.Errorf("the attribute %s is twice in the URI", strings.TrimPrefix(name, "?"))
		}
		if *field, err = url.PathUnescape(value); err != nil {
			return u, fmt.Errorf("the attribute %s of the URI: %w", strings.TrimPrefix(name, "?"), err)
		}
	}
	u.PINFile = strings.TrimPrefix(pin, "file:")
	switch {
	case u.Token == "" && u.Serial == "", u.Object == "":
		return u, errors.New("the URI must name a token or its serial, and an object")
	case !filepath.IsAbs(u.Module), !filepath.IsAbs(u.PINFile):
		return u, errors.New("the URI needs module-path and pin-source, with absolute paths of files")
	}
	return u, nil
}

func split(text, by, mark string) (parts []string) {
	for part := range strings.SplitSeq(text, by) {
		if part != "" {
			parts = append(parts, mark+part)
		}
	}
	return parts
}
