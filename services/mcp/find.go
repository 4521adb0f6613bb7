package mcp

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/memory-ledger/ledger/services/memory"
)

// Finder finds memories of an owner by words.
type Finder interface {
	Find(ctx context.Context, reader memory.Reader, ask Ask) (Found, error)
}

// Ask is what to find.
type Ask struct {
	Query  string
	Limit  int    // at least 1
	Cursor string // of an earlier page; empty: the first
	Filter Filter
	// Abandoned, if not nil, reports that the client has hung up.
	Abandoned func() bool
}

// Filter leaves out what does not fit. The zero value lets everything through.
type Filter struct {
	Source   string
	From, To time.Time // created at or after, created before
	Anchored bool      // only what is anchored
}

// Found is a page.
type Found struct {
	Memories []Match
	Next     string // cursor of the next page; empty: there is none
}

// Match is a memory that was found. A score of 0 says that the Finder gives none.
type Match struct {
	memory.View
	Score float64
}

// ErrCursor is what a Finder returns for a cursor that it did not give out.
var ErrCursor = errors.New("cursor is not one that recall gave out")

// Substring is the Finder of the specified search: texts that contain the query, in any
// case, oldest first. Its cursor is the index of the next leaf.
type Substring struct{ Memories *memory.Service }

// Find implements Finder.
func (f Substring) Find(ctx context.Context, reader memory.Reader, ask Ask) (Found, error) {
	var from uint64
	if ask.Cursor != "" {
		var err error
		if from, err = strconv.ParseUint(ask.Cursor, 10, 63); err != nil {
			return Found{}, ErrCursor
		}
	}
	cursor, err := f.Memories.Search(ctx, reader, ask.Query)
	if err != nil {
		return Found{}, err
	}
	cursor.Abandoned = ask.Abandoned
	var found Found
	for cursor.More() && found.Next == "" {
		err := cursor.Next(ctx, func(v *memory.View) error {
			switch {
			case v.LeafIndex < from || !ask.Filter.fits(v):
			case len(found.Memories) < ask.Limit:
				found.Memories = append(found.Memories, Match{View: *v})
			case found.Next == "":
				found.Next = strconv.FormatUint(v.LeafIndex, 10)
				return memory.ErrEnough
			}
			return nil
		})
		if err != nil {
			return Found{}, err
		}
	}
	return found, nil
}

func (f Filter) fits(v *memory.View) bool {
	at := v.CreatedAt.Time()
	return (f.Source == "" || sourceOf(v) == f.Source) && (!f.Anchored || v.Anchored) &&
		!at.Before(f.From) && (f.To.IsZero() || at.Before(f.To))
}

// sourceOf is where a memory says that it came from: the metadata's source, if that is
// a string.
func sourceOf(v *memory.View) string {
	var metadata struct {
		Source any `json:"source"`
	}
	if json.Unmarshal(v.Metadata, &metadata) != nil {
		return ""
	}
	source, _ := metadata.Source.(string)
	return strings.TrimSpace(source)
}
