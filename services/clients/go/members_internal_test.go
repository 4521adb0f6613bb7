package memoryledger

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

// TestEntriesAreWhatWasWritten: the service adds members to the metadata, and nothing else.
func TestEntriesAreWhatWasWritten(t *testing.T) {
	hash := func(digit string) Hash {
		var h Hash
		noErr(t, h.UnmarshalText([]byte(strings.Repeat(digit, 64))))
		return h
	}
	session, key := New("http://x", WithSession("e30.e30.e30")), New("http://x", WithAPIKey("svc_x"))
	limited := New("http://x", WithAPIKey("svc_x"), WithNamespaces("work"))
	for _, c := range []*Client{session, key, limited} {
		c.written.add(Written{ID: "a", LeafHash: hash("a")}, expected{})
		c.written.add(Written{ID: "again", LeafHash: hash("a")}, expected{})
		c.written.add(Written{ID: "b", LeafHash: hash("b")}, expected{})
	}
	a, b, d := hash("a").String(), hash("b").String(), hash("d").String()
	full := NewMemory{Content: "x", Metadata: Metadata{"n": 1, "source": "old"}, Source: " diary ", OccurredAt: "1999-05-01", Tags: []string{"t"}, Namespace: "home"}
	stored := Metadata{"n": 1, "source": "diary", "occurredAt": "1999-05-01", "tags": []string{"t"}, "namespace": "home"}
	but := func(name string, value any) Metadata {
		m := maps.Clone(stored)
		if m[name] = value; value == nil {
			delete(m, name)
		}
		return m
	}
	plain := NewMemory{Content: "x"}
	corrects := func(ids ...string) NewMemory { return NewMemory{Content: "x", Supersedes: ids} }
	hashes := func(all ...any) Metadata { return Metadata{"supersedes": all} }
	for name, c := range map[string]struct {
		client  *Client
		memory  NewMemory
		content string
		shown   Metadata
		honest  bool
	}{
		"all members":            {session, full, "x", stored, true},
		"another text":           {session, full, "y", stored, false},
		"another source":         {session, full, "x", but("source", "old"), false},
		"another time":           {session, full, "x", but("occurredAt", "1999-05-02"), false},
		"other tags":             {session, full, "x", but("tags", []string{"t", "u"}), false},
		"another namespace":      {key, full, "x", but("namespace", "work"), false},
		"no namespace":           {key, full, "x", but("namespace", nil), false},
		"more than was written":  {session, full, "x", but("more", 1), false},
		"supersedes unasked":     {session, full, "x", but("supersedes", []any{a}), false},
		"a namespace of a key":   {key, plain, "x", Metadata{"namespace": "work"}, true},
		"none of a key":          {key, plain, "x", Metadata{}, true},
		"an odd one of a key":    {key, plain, "x", Metadata{"namespace": 7}, false},
		"one of a session":       {session, plain, "x", Metadata{"namespace": "work"}, false},
		"the known one":          {limited, plain, "x", Metadata{"namespace": "work"}, true},
		"not the known one":      {limited, plain, "x", Metadata{"namespace": "home"}, false},
		"without the known one":  {limited, plain, "x", Metadata{}, false},
		"corrects":               {session, corrects("a"), "x", hashes(a), true},
		"corrects equal ones":    {session, corrects("a", "again"), "x", hashes(a), true},
		"corrects two":           {session, corrects("b", "a"), "x", hashes(b, a), true},
		"corrects an unknown":    {session, corrects("a", "?"), "x", hashes(a, d), true},
		"one equal to a known":   {session, corrects("a", "?"), "x", hashes(a), true},
		"corrects another":       {session, corrects("a"), "x", hashes(b), false},
		"corrects one of two":    {session, corrects("a", "b"), "x", hashes(a), false},
		"corrects more":          {session, corrects("a"), "x", hashes(a, d), false},
		"corrects one twice":     {session, corrects("a", "?"), "x", hashes(a, a), false},
		"corrects nothing":       {session, corrects("?"), "x", Metadata{}, false},
		"corrects an empty list": {session, corrects("?"), "x", hashes(), false},
		"corrects no hash":       {session, corrects("?"), "x", hashes("d"), false},
		"corrects, and lies":     {session, corrects("a"), "y", hashes(a), false},
	} {
		e, err := c.client.expect(c.memory)
		noErr(t, err)
		if err := e.match(c.content, c.shown); (err == nil) != c.honest || err != nil && !errors.Is(err, ErrWrongText) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
