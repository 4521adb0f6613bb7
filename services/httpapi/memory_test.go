package httpapi

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/events/canonical"
)

// generalMemory reads a body as DecodeMemory does without the short way.
func generalMemory(raw []byte) (content, source *string, metadata *canonical.Object, ok bool) {
	var body struct {
		Content  *string        `json:"content"`
		Source   *string        `json:"source"`
		Metadata jsontext.Value `json:"metadata"`
	}
	if !isObject(raw) || json.Unmarshal(raw, &body, strict) != nil {
		return nil, nil, nil, false
	}
	if body.Metadata == nil {
		return body.Content, body.Source, nil, true
	}
	o, err := canonical.Admit(body.Metadata)
	return body.Content, body.Source, &o, err == nil
}

func equal[T comparable](a, b *T) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// TestPlainMemory: which bodies take the short way.
func TestPlainMemory(t *testing.T) {
	for _, in := range []string{
		`{"content":"a","metadata":{"b":1,"a":[{"x":"}"}]}}`,
		" {\t\"content\" : \"a\\n\\u00e9\" , \"source\" : \"s\" }\r\n",
		`{"metadata":{"a":1.50},"content":"é"}`,
	} {
		if body, ok := plainMemory([]byte(in), true); !ok || body.Content == nil {
			t.Errorf("%s is not read", in)
		}
	}
	for _, in := range []string{
		``, `{}`, `[]`, `{"content":"a"`, `{"content":"a"} x`, `{"content":"a","content":"b"}`, `{"content":"a",}`,
		`{"content":null}`, `{"content":1}`, `{"content":"a","more":1}`, `{"content":"a","metadata":null}`,
		`{"content":"a","metadata":{"a":1]}`, `{"content":"a","metadata":{"a":1,"a":2}}`, "{\"content\":\"\xff\"}",
		"{\"content\":\"\x01\"}", `{"content":"\ud800"}`, `{"content":"a" "source":"b"}`, `{"content","a"}`, `{"content":"a\`,
		`{"content":"a","metadata":{"a":"\ufffe"}}`, "{\"content\":\"a\",\"metadata\":{\"\ufdd0\":1}}",
	} {
		if body, ok := plainMemory([]byte(in), true); ok {
			t.Errorf("%s is read as %v", in, body)
		}
	}
	if _, ok := plainMemory([]byte(`{"content":"a","source":3}`), false); ok {
		t.Error("an unknown member is not left to the general decoder")
	}
}

// FuzzPlainMemory holds the short way to the general one: what it reads, that
// one reads as well, and the same.
func FuzzPlainMemory(f *testing.F) {
	for _, seed := range []string{
		`{"content":"a","metadata":{"b":1,"a":[{"x":"}"}]}}`, `{"source":"s","content":"\u00e9\"\\"}`,
		`{"metadata":{},"content":"é"}`, `{"content":"a","metadata":{"a":1]}`, `{"content":"a"}}`, "{\"content\":\"\xff\\n\"}",
		"{\"content\":\"\uffff\",\"metadata\":{\"a\":\"\uffff\"}}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, ok := plainMemory(in, true)
		if !ok {
			return
		}
		content, source, metadata, ok := generalMemory(in)
		if !ok || !equal(got.Content, content) || !equal(got.Source, source) || !equal(got.metadata, metadata) {
			t.Fatalf("%q: got %v, the general decoder says %v, %v, %v, %v", in, got, content, source, metadata, ok)
		}
	})
}
