package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/rfc3339"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/command"
)

// Members are what a memory can say about itself beside its text. Each is merged into the
// metadata member of the same name, so the leaf proves it. An absent member is nil.
type Members struct {
	Source     *string   `json:"source,omitempty" jsonschema:"where it comes from, such as the name of your application; at most 80 characters"`
	OccurredAt *string   `json:"occurredAt,omitempty" jsonschema:"when it happened, if not now: a date, or a date and time as RFC 3339 has it"`
	Tags       *[]string `json:"tags,omitempty" jsonschema:"1 to 16 words to find it by"`
	Namespace  *string   `json:"namespace,omitempty" jsonschema:"keeps it apart, such as the name of a project; at most 80 characters"`
	Supersedes *[]string `json:"supersedes,omitempty" jsonschema:"ids of memories that are no longer true; recall leaves them out from now on"`
}

var (
	ErrSource     = errors.New("source must be a string of 1 to 80 characters")
	ErrOccurredAt = errors.New("occurredAt must be a date, or a date and time as RFC 3339 has it, of a year from 0001 to 9999")
	ErrTags       = errors.New("tags must be an array of 1 to 16 strings of 1 to 80 characters")
	ErrNamespace  = errors.New("namespace must be a string of 1 to 80 characters")
	ErrNamespaces = errors.New("namespaces must be an array of 1 to 16 strings of 1 to 80 characters")
	ErrSupersedes = errors.New("supersedes must be an array of 1 to 16 ids")
	// ErrDiffers: a member and the metadata say different things.
	ErrDiffers = errors.New("the metadata has another value")
	// ErrOutside: the credential is limited to namespaces that do not include this one.
	ErrOutside = errors.New("the credential is limited to other namespaces")
	// ErrNamespaceNeeded: the credential is limited to several namespaces.
	ErrNamespaceNeeded = errors.New("namespace is required: the credential is limited to several")
)

// maxSuperseded is how many memories one supersedes at most.
const maxSuperseded = 16

// isName reports whether a text may be a source, a tag or a namespace.
func isName(text string) bool {
	n := Length(text)
	return n >= 1 && n <= memories.MaxName
}

// check returns an error for a member that is not well-formed.
func (m Members) check() error {
	if m.Source != nil && !isName(*m.Source) {
		return ErrSource
	}
	if m.OccurredAt != nil {
		if _, ok := rfc3339.From(*m.OccurredAt); !ok {
			return ErrOccurredAt
		}
	}
	if m.Tags != nil && (len(*m.Tags) < 1 || len(*m.Tags) > 16 || !all(*m.Tags, isName)) {
		return ErrTags
	}
	if m.Namespace != nil && !isName(*m.Namespace) {
		return ErrNamespace
	}
	if m.Supersedes != nil && (len(*m.Supersedes) < 1 || len(*m.Supersedes) > maxSuperseded) {
		return ErrSupersedes
	}
	return nil
}

// Within returns the namespace that a credential may use: the named one, or, where none is
// named, the only one that it is limited to.
func Within(limit []string, named string) (string, error) {
	switch {
	case limit == nil || slices.Contains(limit, named):
		return named, nil
	case named == "" && len(limit) == 1:
		return limit[0], nil
	case named == "" && len(limit) > 1:
		return "", ErrNamespaceNeeded
	}
	return "", ErrOutside
}

// Namespaces returns the namespaces that a new credential is limited to, each once.
func Namespaces(asked []string) (limit []string, err error) {
	if len(asked) < 1 || len(asked) > 16 || !all(asked, isName) {
		return nil, ErrNamespaces
	}
	for _, name := range asked {
		if !slices.Contains(limit, name) {
			limit = append(limit, name)
		}
	}
	return limit, nil
}

// CheckNamespace returns an error for a text that can't be a namespace.
func CheckNamespace(text string) error {
	if !isName(text) {
		return ErrNamespace
	}
	return nil
}

func all(texts []string, is func(string) bool) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !is(text) })
}

// complete merges the draft's members into its metadata, puts it into a namespace that the
// credential is limited to, and finds what it supersedes.
func (s *Service) complete(ctx context.Context, d *Draft) ([]command.Superseded, error) {
	m := d.Members
	if err := m.check(); err != nil {
		return nil, err
	}
	said := memories.NamespaceOf(d.Metadata)
	if m.Namespace != nil {
		said = *m.Namespace // if the metadata has another, merging it is refused
	}
	within, err := Within(d.Namespaces, said)
	if err != nil {
		return nil, err
	}
	if said == "" && within != "" {
		m.Namespace = &within
	}
	superseded, err := s.superseded(ctx, d, m.Supersedes)
	if err == nil {
		d.Metadata, err = m.merge(d.Metadata, superseded)
	}
	return superseded, err
}

// superseded finds the memories with these ids. Whether they can still be superseded is up
// to the decision.
func (s *Service) superseded(ctx context.Context, d *Draft, ids *[]string) (found []command.Superseded, err error) {
	if ids == nil {
		return nil, nil
	}
	reader := Reader{Owner: d.Owner, Namespaces: d.Namespaces}
	if reader.Head, err = s.Fence.WaitOwner(ctx, d.Owner); err != nil {
		return nil, err
	}
	for _, id := range *ids {
		row, err := s.find(ctx, reader, id)
		if err == nil {
			err = s.intact(ctx, reader, row)
		}
		if err != nil {
			return nil, fmt.Errorf("supersedes: %w", err)
		}
		one := command.Superseded{Leaf: row.LeafIndex, Hash: row.LeafHash}
		if !slices.Contains(found, one) {
			found = append(found, one)
		}
	}
	return found, nil
}

// merge returns the metadata with the members. Only a source may replace another value.
func (m Members) merge(metadata canonical.Object, superseded []command.Superseded) (canonical.Object, error) {
	if m == (Members{}) {
		return metadata, nil
	}
	members, err := metadata.Members()
	if err != nil {
		return canonical.Object{}, err
	}
	set := func(name string, value any, replaces bool) {
		text, failed := json.Marshal(value)
		if failed != nil {
			err = fmt.Errorf("%w: %w", canonical.ErrSyntax, failed)
			return
		}
		if was, has := members[name]; has && !replaces && !bytes.Equal(was, text) {
			err = fmt.Errorf("%s: %w", name, ErrDiffers)
			return
		}
		members[name] = jsontext.Value(text)
	}
	if m.Source != nil {
		set("source", *m.Source, true)
	}
	if m.OccurredAt != nil {
		set("occurredAt", *m.OccurredAt, false)
	}
	if m.Tags != nil {
		set("tags", *m.Tags, false)
	}
	if m.Namespace != nil {
		set("namespace", *m.Namespace, false)
	}
	if m.Supersedes != nil {
		var hashes []events.Hash
		for _, one := range superseded {
			if !slices.Contains(hashes, one.Hash) {
				hashes = append(hashes, one.Hash)
			}
		}
		set("supersedes", hashes, false)
	}
	if err != nil {
		return canonical.Object{}, err
	}
	return canonical.FromMembers(members)
}

// Trimmed returns the members with a source without spaces around it.
func (m Members) Trimmed() Members {
	if m.Source != nil {
		m.Source = new(strings.TrimSpace(*m.Source))
	}
	return m
}
