// Package canonical checks incoming metadata: it turns a JSON object into its
// one canonical form, RFC 8785 (JCS), and refuses what RFC 7493 (I-JSON)
// forbids. Only this form is stored, hashed, and returned.
package canonical

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep objects and arrays may nest; the outermost object is
// at depth 1.
const MaxDepth = 64

// Object is the RFC 8785 form of a JSON object. Only this package makes one.
type Object struct{ text string }

// Empty is the object without members.
var Empty = Object{"{}"}

// String returns the canonical text. It is valid UTF-8 and holds no NUL.
func (o Object) String() string { return o.text }

// Len is the length of the canonical text in bytes.
func (o Object) Len() int { return len(o.text) }

// Trusted wraps text that is known to be canonical because it was read from the
// log, which holds only canonical text.
func Trusted(text []byte) Object { return Object{string(text)} }

// Errors: what is wrong with the text. All are the caller's fault.
var (
	ErrNotObject = errors.New("not a JSON object")
	ErrSyntax    = errors.New("not valid I-JSON")
	ErrTooDeep   = fmt.Errorf("nested deeper than %d", MaxDepth)
	ErrNumber    = errors.New("number outside the range of an IEEE 754 double")

	// ErrNoncharacter is returned only by Admit.
	ErrNoncharacter = errors.New("a Unicode noncharacter, which I-JSON forbids")
)

// Admit is Canonicalize for input from outside: it also refuses noncharacters.
// Earlier builds accepted them. That metadata stays readable and its leaf stays the
// same, so code that reads the log or a receipt uses Canonicalize.
func Admit(raw []byte) (Object, error) {
	o, err := Canonicalize(raw)
	if err != nil {
		return Object{}, err
	}
	// The canonical form holds noncharacters as they are, never as escapes.
	for _, r := range o.text {
		if r >= 0xfdd0 && (r <= 0xfdef || r&0xfffe == 0xfffe) {
			return Object{}, ErrNoncharacter
		}
	}
	return o, nil
}

// Canonicalize reads one JSON object and returns its canonical form. Duplicate
// names, lone surrogates, invalid UTF-8, numbers outside the range of a double
// and nesting deeper than MaxDepth are errors.
func Canonicalize(raw []byte) (Object, error) {
	raw = bytes.Trim(raw, " \t\r\n")
	if len(raw) == 0 || raw[0] != '{' {
		return Object{}, ErrNotObject
	}
	if string(raw) == "{}" {
		return Empty, nil
	}
	if err := check(raw); err != nil {
		return Object{}, err
	}
	value := jsontext.Value(bytes.Clone(raw))
	if err := value.Canonicalize(); err != nil {
		return Object{}, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	return Object{string(value)}, nil
}

// check refuses what jsontext's Canonicalize lets through: deep nesting, and numbers
// out of range, which Canonicalize would round.
func check(raw []byte) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(raw))
	for {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrSyntax, err)
		}
		if decoder.StackDepth() > MaxDepth {
			return ErrTooDeep
		}
		if token.Kind() == '0' {
			if _, err := strconv.ParseFloat(token.String(), 64); err != nil {
				return ErrNumber
			}
		}
	}
}

// AppendString appends the RFC 8785 form of a string. The string must be valid
// UTF-8.
func AppendString(dst []byte, s string) ([]byte, error) {
	out, err := jsontext.AppendQuote(dst, s)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	return out, nil
}

// Members returns the members of the object, each in canonical form.
func (o Object) Members() (map[string]jsontext.Value, error) {
	members := map[string]jsontext.Value{}
	if err := json.Unmarshal([]byte(o.text), &members); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	return members, nil
}

// FromMembers returns the object with these members, which need not be in canonical form.
// Admit checks it, like input from outside.
func FromMembers(members map[string]jsontext.Value) (Object, error) {
	text, err := json.Marshal(members)
	if err != nil {
		return Object{}, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	return Admit(text)
}
