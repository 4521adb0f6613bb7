package memories

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Filter selects memories. The zero Filter selects all.
type Filter struct {
	From, To time.Time // bounds of the time of writing, To exclusive; zero: no bound
	Anchored *bool
	Via      string // "kind:id" or "kind"; empty: any
	Metadata []Member
}

// Member is a member of the metadata object: its name, and its value in canonical form.
type Member struct {
	Name  string
	Value []byte
}

// MemberOf returns a member whose value is a string.
func MemberOf(name, value string) (Member, error) {
	quoted, err := canonical.AppendString(nil, value)
	return Member{name, quoted}, err
}

// All reports whether the filter selects all memories.
func (f Filter) All() bool {
	return f.From.IsZero() && f.To.IsZero() && f.Anchored == nil && f.Via == "" && len(f.Metadata) == 0
}

// Matching returns the indexes of the owner's leaves below size that match a filter, in
// ascending order.
func Matching(ctx context.Context, q schema.Querier, owner events.Owner, size uint64, f Filter) ([]uint64, error) {
	query, args := f.query(owner, size)
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("filter memories: %w", err)
	}
	var (
		leaves   []uint64
		leaf     uint64
		metadata []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&leaf, &metadata}, func() error {
		if f.has(metadata) {
			leaves = append(leaves, leaf)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("filter memories: %w", err)
	}
	return leaves, nil
}

func (f Filter) query(owner events.Owner, size uint64) (query string, args []any) {
	var b strings.Builder
	args = []any{string(owner), size}
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	b.WriteString(`SELECT m.leaf_index, `)
	if len(f.Metadata) > 0 {
		b.WriteString(`m.metadata`)
	} else {
		b.WriteString(`''`)
	}
	b.WriteString(` FROM memories m WHERE m.owner = $1 AND m.leaf_index < $2`)
	if !f.From.IsZero() {
		b.WriteString(` AND m.created_at >= ` + arg(f.From))
	}
	if !f.To.IsZero() {
		b.WriteString(` AND m.created_at < ` + arg(f.To))
	}
	if f.Anchored != nil {
		// The largest confirmed batch covers all leaves below its size.
		compare := ` >= `
		if *f.Anchored {
			compare = ` < `
		}
		b.WriteString(` AND m.leaf_index` + compare +
			`coalesce((SELECT max(size) FROM batches b WHERE b.owner = $1 AND b.state = 'confirmed'), 0)`)
	}
	if f.Via != "" {
		whole := arg(strings.ReplaceAll(f.Via, "\x00", "\x01")) // no id has either, and PostgreSQL takes no NUL
		b.WriteString(` AND (m.via = ` + whole + ` OR starts_with(m.via, ` + whole + ` || ':'))`)
	}
	for _, m := range f.Metadata {
		// This drops most rows: they do not contain the member's text. A remaining row
		// can contain the text elsewhere, in a nested object, so Matching checks it again.
		b.WriteString(` AND strpos(m.metadata, ` + arg(m.text()) + `) > 0`)
	}
	b.WriteString(` ORDER BY m.leaf_index`)
	return b.String(), args
}

// text returns the member as it is written in canonical metadata.
func (m Member) text() string {
	name, err := canonical.AppendString(nil, m.Name)
	if err != nil {
		return "\x01" // invalid name; matches nothing, because JSON escapes control characters
	}
	return string(name) + ":" + string(m.Value)
}

// has reports whether metadata in canonical form has all members.
func (f Filter) has(metadata []byte) bool {
	if len(f.Metadata) == 0 {
		return true
	}
	members, err := MembersOf(canonical.Trusted(metadata))
	if err != nil {
		return false // not metadata that the service accepts
	}
	for _, wanted := range f.Metadata {
		if !slices.ContainsFunc(members, func(m Member) bool { return m.Name == wanted.Name && bytes.Equal(m.Value, wanted.Value) }) {
			return false
		}
	}
	return true
}

// MembersOf returns the members of a metadata object.
func MembersOf(metadata canonical.Object) (members []Member, err error) {
	decoder := jsontext.NewDecoder(strings.NewReader(metadata.String()))
	if _, err := decoder.ReadToken(); err != nil {
		return nil, fmt.Errorf("members of metadata: %w", err)
	}
	for decoder.PeekKind() != '}' {
		name, err := decoder.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("members of metadata: %w", err)
		}
		m := Member{Name: name.String()}
		value, err := decoder.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("members of metadata: %w", err)
		}
		m.Value = bytes.Clone(value)
		members = append(members, m)
	}
	return members, nil
}
