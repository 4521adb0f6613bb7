package canonical_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"

	"github.com/gowebpki/jcs"

	"github.com/memory-ledger/ledger/events/verify/canonical"
)

func TestCanonicalize(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", ` { } `, `{}`},
		{"sorted", `{"b":1,"a":2}`, `{"a":2,"b":1}`},
		{"numbers", `{"a":1.0,"b":-0,"c":1E3,"d":1e-400}`, `{"a":1,"b":0,"c":1000,"d":0}`},
		{"nul escape stays an escape", `{"a":"\u0000"}`, `{"a":"\u0000"}`},
		{"escapes become characters", `{"\u0061":"\u00e9\/"}`, `{"a":"é/"}`},
		{"surrogate pair", `{"a":"\ud83d\ude00"}`, `{"a":"😀"}`},
		{"64 deep", nested(64), nested(64)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := canonical.Canonicalize([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// nested returns an object of the given depth.
func nested(depth int) string {
	return strings.Repeat(`{"a":`, depth-1) + `{}` + strings.Repeat(`}`, depth-1)
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     error
	}{
		{"nothing", ``, canonical.ErrNotObject},
		{"null", `null`, canonical.ErrNotObject},
		{"array", `[]`, canonical.ErrNotObject},
		{"string", `"{}"`, canonical.ErrNotObject},
		{"duplicate name", `{"a":1,"a":1}`, canonical.ErrSyntax},
		{"duplicate name by escape", `{"a":1,"\u0061":1}`, canonical.ErrSyntax},
		{"duplicate name deep down", `{"x":[{"a":1,"a":1}]}`, canonical.ErrSyntax},
		{"lone high surrogate", `{"a":"\ud800"}`, canonical.ErrSyntax},
		{"lone low surrogate", `{"a":"\udc00"}`, canonical.ErrSyntax},
		{"lone surrogate in a name", `{"\ud800":1}`, canonical.ErrSyntax},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", canonical.ErrSyntax},
		{"raw control character", "{\"a\":\"\x00\"}", canonical.ErrSyntax},
		{"number too large", `{"a":1e400}`, canonical.ErrNumber},
		{"number too small", `{"a":[-1e400]}`, canonical.ErrNumber},
		{"65 deep", nested(65), canonical.ErrTooDeep},
		{"5000 arrays", `{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, canonical.ErrTooDeep},
		{"trailing data", `{} {}`, canonical.ErrSyntax},
		{"trailing comma", `{"a":1,}`, canonical.ErrSyntax},
		{"truncated", `{"a":`, canonical.ErrSyntax},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := canonical.Canonicalize([]byte(c.in)); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// TestAdmit: Admit refuses noncharacters, however they are written and wherever they
// stand. Canonicalize keeps them as they are.
func TestAdmit(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= 0xd800 && r <= 0xdfff || r&0xffff < 0xfd00 && r%0x101 != 0 { // test the ends of the planes, and a sample of the rest
			continue
		}
		in := `{"` + jsonEscape(r) + `":0}`
		_, err := canonical.Admit([]byte(in))
		if forbidden := unicode.Is(unicode.Noncharacter_Code_Point, r); forbidden != errors.Is(err, canonical.ErrNoncharacter) || !forbidden && err != nil {
			t.Errorf("%U: %s: %v", r, in, err)
		}
	}
	for _, in := range []string{
		"{\"a\":\"\ufffe\"}", "{\"\uffff\":1}", `{"\ufdd0":1}`, `{"a":[{"b":["\ufdef"]}]}`, `{"a":"x\ud83f\udffe"}`, "{\"a\":\"\U0010ffff\"}",
	} {
		if _, err := canonical.Admit([]byte(in)); !errors.Is(err, canonical.ErrNoncharacter) {
			t.Errorf("%s: %v", in, err)
		}
		kept, err := canonical.Canonicalize([]byte(in))
		if again, err2 := canonical.Canonicalize([]byte(kept.String())); err != nil || err2 != nil || again != kept {
			t.Errorf("%s: %v, %v", in, err, err2)
		}
	}
	for _, in := range []string{`{}`, "{\"a\":\"\ufdcf\ufdf0\ufffd\U0001fffd\U0010fffd\"}", `{"\ufdcf":"\ufffd"}`} {
		want, err := canonical.Canonicalize([]byte(in))
		if got, err2 := canonical.Admit([]byte(in)); err != nil || err2 != nil || got != want {
			t.Errorf("%s: %v, %v, %v", in, got, err, err2)
		}
	}
	for _, in := range []string{``, `{"a":1e400}`, `{"a":1,"a":1}`, nested(65)} {
		_, want := canonical.Canonicalize([]byte(in))
		if _, err := canonical.Admit([]byte(in)); err == nil || err.Error() != want.Error() {
			t.Errorf("%.40s: %v, want %v", in, err, want)
		}
	}
}

// jsonEscape writes a character as JSON escapes.
func jsonEscape(r rune) string {
	if r <= 0xffff {
		return fmt.Sprintf(`\u%04x`, r)
	}
	high, low := utf16.EncodeRune(r)
	return fmt.Sprintf(`\u%04x\u%04x`, high, low)
}

// FuzzCanonicalize checks the package against another implementation of RFC 8785: both
// return the same form, and to canonicalize that form again changes nothing.
func FuzzCanonicalize(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[1,2.50,1e30,"\u20ac\r"],"b":null}`, `{"a":1,"a":2}`, `{"\ud800":0}`, nested(70)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := canonical.Canonicalize(in)
		if err != nil {
			return
		}
		again, err := canonical.Canonicalize([]byte(got.String()))
		if err != nil || again != got {
			t.Fatalf("canonical form %s becomes %s, %v", got, again, err)
		}
		want, err := jcs.Transform(in)
		if err != nil {
			t.Skipf("the other implementation refuses: %v", err)
		}
		if got.String() != string(want) {
			t.Fatalf("got %s, another implementation says %s", got, want)
		}
	})
}
