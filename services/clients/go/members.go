package memoryledger

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// metadata returns the metadata that the service stores for a memory: with its members, but
// without the hashes of what it supersedes.
func (m NewMemory) metadata() Metadata {
	merged := maps.Clone(m.Metadata)
	set := func(name string, value any) {
		if merged == nil {
			merged = Metadata{}
		}
		merged[name] = value
	}
	if m.Source != "" {
		set("source", strings.TrimSpace(m.Source))
	}
	if m.OccurredAt != "" {
		set("occurredAt", m.OccurredAt)
	}
	if len(m.Tags) > 0 {
		set("tags", m.Tags)
	}
	if m.Namespace != "" {
		set("namespace", m.Namespace)
	}
	if len(m.Supersedes) > 0 {
		delete(merged, "supersedes")
	}
	return merged
}

// expected is what a client knows about the entry of a memory that it wrote.
type expected struct {
	sum [sha256.Size]byte // without the hashes of what it supersedes
	// supersedes has the leaf hashes of the superseded memories that this client knows.
	// unknown counts the others.
	supersedes []Hash
	unknown    int
	corrects   bool
	// anyNamespace: a key that is limited to a namespace adds it, and the client can't know.
	anyNamespace bool
}

// expect returns what the entry of a memory must be.
func (c *Client) expect(m NewMemory) (e expected, err error) {
	metadata := m.metadata()
	if _, named := metadata["namespace"]; !named {
		switch {
		case len(c.namespaces) == 1:
			m.Namespace = c.namespaces[0]
			metadata = m.metadata()
		case c.namespaces == nil:
			c.mu.Lock()
			e.anyNamespace = strings.HasPrefix(c.credential, "svc_")
			c.mu.Unlock()
		}
	}
	if e.sum, err = fingerprint(m.Content, metadata); err != nil {
		return e, err
	}
	ids := slices.Compact(slices.Sorted(slices.Values(m.Supersedes)))
	e.corrects = len(ids) > 0
	for _, id := range ids {
		switch hash, known := c.written.hash(id); {
		case !known:
			e.unknown++
		case !slices.Contains(e.supersedes, hash):
			e.supersedes = append(e.supersedes, hash)
		}
	}
	return e, nil
}

// match checks the entry of a receipt, or the text that a list shows.
func (e *expected) match(content string, metadata any) error {
	text, err := json.Marshal(metadata)
	if err != nil {
		return serviceLies(ErrMalformed, "metadata", "%v", err)
	}
	shown := Metadata{}
	if err := json.Unmarshal(text, &shown); err != nil {
		return serviceLies(ErrMalformed, "metadata", "%v", err)
	}
	if e.corrects {
		var said struct {
			Supersedes []Hash `json:"supersedes"`
		}
		if err := json.Unmarshal(text, &said); err != nil || !e.supersede(said.Supersedes) {
			return serviceLies(ErrWrongText, "metadata.supersedes", "it has not the leaves of the memories that were superseded")
		}
		delete(shown, "supersedes")
	}
	if name, _ := shown["namespace"].(string); e.anyNamespace && name != "" {
		delete(shown, "namespace")
	}
	if sum, err := fingerprint(content, shown); err != nil || sum != e.sum {
		return serviceLies(ErrWrongText, "entry", "text or metadata are not those that were written")
	}
	return nil
}

// supersede reports whether hashes can be those of the superseded memories. Equal memories
// have one hash, and it is named once.
func (e *expected) supersede(hashes []Hash) bool {
	for i, hash := range hashes {
		if slices.Contains(hashes[:i], hash) {
			return false
		}
	}
	missing := func(hash Hash) bool { return !slices.Contains(hashes, hash) }
	return len(hashes) > 0 && len(hashes) <= len(e.supersedes)+e.unknown && !slices.ContainsFunc(e.supersedes, missing)
}
