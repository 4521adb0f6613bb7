package memories

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/rfc3339"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/projections/schema"
)

// MaxName is how many characters a source, a tag and a namespace have at most.
const MaxName = 80

// Filter selects memories. The zero Filter selects all.
type Filter struct {
	From, To time.Time // bounds of the time of writing, To exclusive; zero: no bound
	// OccurredFrom and OccurredTo bound the time at which it happened; see [Moment].
	OccurredFrom, OccurredTo time.Time
	Anchored                 *bool
	Via                      string   // "kind:id" or "kind"; empty: any
	Metadata                 []Member // all of them
	Namespaces               []string // one of them; nil: any, or none
}

// Member is a member of the metadata object: its name, and its value in canonical form.
type Member struct {
	Name  string
	Value []byte
	// Whole and Element say what a filter's value matches: an equal value, an element of a
	// list, or both.
	Whole, Element bool
}

// Has adds that a memory's metadata has a text. nil adds nothing.
func (f *Filter) Has(name string, text *string) error {
	if text == nil {
		return nil
	}
	quoted, err := canonical.AppendString(nil, *text)
	f.Metadata = append(f.Metadata, Member{Name: name, Value: quoted, Whole: true})
	return err
}

// HasTags adds that a memory has all of these tags.
func (f *Filter) HasTags(tags []string) error {
	for _, tag := range tags {
		quoted, err := canonical.AppendString(nil, tag)
		if err != nil {
			return err
		}
		f.Metadata = append(f.Metadata, Member{Name: "tags", Value: quoted, Element: true})
	}
	return nil
}

// HasMembers adds that a memory's metadata has the members of a JSON object, each with an
// equal value or a list that has it.
func (f *Filter) HasMembers(raw []byte) error {
	object, err := canonical.Admit(raw)
	if err != nil {
		return err
	}
	members, err := object.Members()
	for name, value := range members {
		f.Metadata = append(f.Metadata, Member{Name: name, Value: value, Whole: true, Element: true})
	}
	return err
}

func (f Filter) All() bool {
	return f.From.IsZero() && f.To.IsZero() && f.OccurredFrom.IsZero() && f.OccurredTo.IsZero() && f.Anchored == nil && f.Via == "" &&
		len(f.Metadata) == 0 && f.Namespaces == nil
}

// Matching returns the indexes of the owner's leaves from one to another, exclusive, that
// match a filter, in ascending order.
func Matching(ctx context.Context, q schema.Querier, owner events.Owner, from, to uint64, f Filter) ([]uint64, error) {
	var leaves []uint64
	err := f.each(ctx, q, owner, from, to, func(leaf uint64, created time.Time, metadata []byte) {
		if f.has(metadata) && f.happened(created, metadata) {
			leaves = append(leaves, leaf)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("filter memories: %w", err)
	}
	return leaves, nil
}

// each calls found for each row of the filter's query.
func (f Filter) each(ctx context.Context, q schema.Querier, owner events.Owner, from, to uint64, found func(leaf uint64, created time.Time, metadata []byte)) error {
	query, args := f.query(owner, from, to)
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	var (
		leaf     uint64
		created  pgtype.Timestamptz // as in scan: altered bytes must not fail the other rows
		metadata []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&leaf, &created, &metadata}, func() error {
		found(leaf, createdAt(created).Time(), metadata)
		return nil
	})
	return err
}

// saysOccurred is true for a row that may say when the memory occurred.
const saysOccurred = `strpos(m.metadata, '"occurredAt":"') > 0`

func (f Filter) query(owner events.Owner, from, to uint64) (query string, args []any) {
	var b strings.Builder
	args = []any{string(owner), from, to}
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	b.WriteString(`SELECT m.leaf_index, ` + writtenFirst + `, `)
	if len(f.Metadata) > 0 || f.Namespaces != nil {
		b.WriteString(`m.metadata`)
	} else {
		b.WriteString(`CASE WHEN ` + saysOccurred + ` THEN m.metadata END`)
	}
	b.WriteString(` FROM memories m WHERE m.owner = $1 AND m.leaf_index >= $2 AND m.leaf_index < $3`)
	if !f.From.IsZero() {
		b.WriteString(` AND ` + writtenFirst + ` >= ` + arg(f.From))
	}
	if !f.To.IsZero() {
		b.WriteString(` AND ` + writtenFirst + ` < ` + arg(f.To))
	}
	if f.Anchored != nil {
		compare := ` >= `
		if *f.Anchored {
			compare = ` < `
		}
		// The largest confirmed batch covers all leaves below its size.
		b.WriteString(` AND m.leaf_index` + compare +
			`coalesce((SELECT max(size) FROM batches b WHERE b.owner = $1 AND b.state = 'confirmed'), 0)`)
	}
	if f.Via != "" {
		whole := arg(strings.ReplaceAll(f.Via, "\x00", "\x01")) // no id has either, and PostgreSQL takes no NUL
		b.WriteString(` AND (` + cameInFirst + ` = ` + whole + ` OR starts_with(` + cameInFirst + `, ` + whole + ` || ':'))`)
	}
	// These drop most rows: they do not contain the texts. A remaining row can contain them
	// elsewhere, in a nested object, so Matching checks it again.
	for _, m := range f.Metadata {
		b.WriteString(` AND strpos(m.metadata, ` + arg(m.start()) + `) > 0 AND strpos(m.metadata, ` + arg(string(m.Value)) + `) > 0`)
	}
	if f.Namespaces != nil {
		b.WriteString(` AND strpos(m.metadata, '"namespace":"') > 0`)
	}
	b.WriteString(` ORDER BY m.leaf_index`)
	return b.String(), args
}

// start returns how the member begins in canonical metadata.
func (m Member) start() string {
	name, err := canonical.AppendString(nil, m.Name)
	if err != nil {
		return "\x01" // invalid name; matches nothing, because JSON escapes control characters
	}
	return string(name) + ":"
}

// has reports whether metadata in canonical form has all members, and is in one of the
// namespaces.
func (f Filter) has(metadata []byte) bool {
	if f.Namespaces != nil && !slices.Contains(f.Namespaces, NamespaceOf(canonical.Trusted(metadata))) {
		return false
	}
	if len(f.Metadata) == 0 {
		return true
	}
	members, err := canonical.Trusted(metadata).Members()
	if err != nil {
		return false // not metadata that the service accepts
	}
	for _, wanted := range f.Metadata {
		if value, has := members[wanted.Name]; !has || !wanted.matches(value) {
			return false
		}
	}
	return true
}

func (m Member) matches(value []byte) bool {
	if m.Whole && bytes.Equal(m.Value, value) {
		return true
	}
	var elements []jsontext.Value
	if !m.Element || len(value) == 0 || value[0] != '[' || json.Unmarshal(value, &elements) != nil {
		return false
	}
	return slices.ContainsFunc(elements, func(element jsontext.Value) bool { return bytes.Equal(m.Value, element) })
}

// happened reports whether the memory occurred within the bounds.
func (f Filter) happened(created time.Time, metadata []byte) bool {
	if f.OccurredFrom.IsZero() && f.OccurredTo.IsZero() {
		return true
	}
	at := Moment(created, metadata)
	return !at.Before(f.OccurredFrom) && (f.OccurredTo.IsZero() || at.Before(f.OccurredTo))
}

// Moment returns when a memory occurred: at the time that its metadata says (a date is its
// midnight in UTC), or else when it was written.
func Moment(created time.Time, metadata []byte) time.Time {
	if bytes.Contains(metadata, []byte(`"occurredAt":"`)) {
		if text, ok := textIn(metadata, "occurredAt"); ok {
			if at, ok := rfc3339.From(text); ok {
				return at
			}
		}
	}
	return created
}

// Moments returns when each of the owner's leaves below size occurred.
func Moments(ctx context.Context, q schema.Querier, owner events.Owner, size uint64) ([]time.Time, error) {
	all := make([]time.Time, size)
	err := Filter{}.each(ctx, q, owner, 0, size, func(leaf uint64, created time.Time, metadata []byte) {
		if leaf < size {
			all[leaf] = Moment(created, metadata)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("when memories occurred: %w", err)
	}
	return all, nil
}

// NamespaceOf returns the namespace that metadata names, empty if it names none.
func NamespaceOf(metadata canonical.Object) string {
	if !strings.Contains(metadata.String(), `"namespace":"`) {
		return ""
	}
	text, ok := textIn([]byte(metadata.String()), "namespace")
	if n := utf8.RuneCountInString(text); !ok || n < 1 || n > MaxName {
		return ""
	}
	return text
}

// textIn returns a member of an object whose value is a string.
func textIn(object []byte, name string) (string, bool) {
	members, err := canonical.Trusted(object).Members()
	if err != nil || members[name].Kind() != '"' {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, members[name])
	return string(text), err == nil
}
