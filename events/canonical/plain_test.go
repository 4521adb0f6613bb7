package canonical

import (
	"strings"
	"testing"
)

// TestPlain: which way is taken, for what it is taken to be worth.
func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1}`: `{"a":1}`,
		"{ \"b\" : [ true , null ] ,\n\t\"a\":-12}": `{"a":-12,"b":[true,null]}`,
		`{"source":"é 😀","n":0,"a":{}}`:             `{"a":{},"n":0,"source":"é 😀"}`,
		`{"ab":1,"a":{"y":[],"x":false}}`:           `{"a":{"x":false,"y":[]},"ab":1}`,
		`{"":123456789012345}`:                      `{"":123456789012345}`,
	} {
		if got, ok := plain([]byte(in)); !ok || got != want {
			t.Errorf("%s: got %s, %v, want %s", in, got, ok, want)
		}
	}
	for _, in := range []string{
		`{"a":1.0}`, `{"a":1e3}`, `{"a":-0}`, `{"a":01}`, `{"a":1234567890123456}`, `{"é":1}`, `{"a":"\n"}`,
		`{"a":1,"a":2}`, `{"b":1,"a":2,"b":3}`, `{"a":1,}`, `{"a":1`, `{"a"}`, `{,}`, `{"a":tru}`, `{"a":[1,]}`,
		"{\"a\":\"\xff\"}", "{\"a\":\"\x00\"}", `{"a":1}x`, `[]`, `{"a":-}`, `{"a":"b`, nestedPlain(MaxDepth + 1),
	} {
		if got, ok := plain([]byte(in)); ok {
			t.Errorf("%q became %s", in, got)
		}
	}
	if _, ok := plain([]byte(nestedPlain(MaxDepth))); !ok {
		t.Error("the deepest that is allowed is refused")
	}
}

func nestedPlain(depth int) string {
	return strings.Repeat(`{"a":`, depth-1) + `{}` + strings.Repeat(`}`, depth-1)
}

// FuzzPlain holds the short way to the general one: what it takes, that one
// takes as well, and makes the same of it.
func FuzzPlain(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"source":"bench","n":17}`, `{"b":[1,-2,{"z":null,"y":true}],"a":"é"}`, `{"a":1,"a":2}`, `{"a":-0}`,
		`{"a":123456789012345}`, `{"z":{"b":1,"a":2},"y":[[],{}]}`, nestedPlain(70), "{\"a\":\"\x7f\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, ok := plain(in)
		if !ok {
			return
		}
		want, err := general(in)
		if err != nil || got != want {
			t.Fatalf("%s: got %s, the general way says %s, %v", in, got, want, err)
		}
	})
}

func BenchmarkCanonicalize(b *testing.B) {
	for name, text := range map[string]string{
		"plain":   `{"source":"bench","n":12345}`,
		"general": `{"source":"bench\n","n":12345}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Canonicalize([]byte(text)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestClonePlain: what is not canonical already is not taken, and what is taken
// is a copy.
func TestClonePlain(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"a":[1,"é",true],"b":{}}`)
	clone, ok := ClonePlain(raw)
	if !ok || string(clone) != string(raw) {
		t.Fatalf("%s, %v", clone, ok)
	}
	raw[2] = 'x'
	if clone[2] != 'a' {
		t.Error("it is no copy")
	}
	for _, other := range []string{``, `{`, `[]`, `{"b":1,"a":2}`, `{"a": 1}`, ` {}`, `{} `, `{"a":1,"a":2}`, `{"a":1.5}`, `{"a":"\n"}`, `{}{}`} {
		if _, ok := ClonePlain([]byte(other)); ok {
			t.Errorf("%s was taken", other)
		}
	}
}
