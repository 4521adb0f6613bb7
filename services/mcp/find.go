package mcp

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/quota"
)

// Finder finds memories of an owner. It is [memory.Service].
type Finder interface {
	Select(ctx context.Context, r memory.Reader, sel memory.Selection, gone func() bool) (*memory.Picked, error)
}

// find returns a page of memories, and the selection that it comes from.
func (s *Server) find(ctx context.Context, c call, sel memory.Selection) (found []memory.View, picked *memory.Picked, err error) {
	if err := s.Quotas.Take(quota.Searches, c.Owner, 1); err != nil {
		return nil, nil, err
	}
	return s.read(ctx, c, sel)
}

// read is find for a search that the caller did not ask for.
func (s *Server) read(ctx context.Context, c call, sel memory.Selection) (found []memory.View, picked *memory.Picked, err error) {
	if picked, err = s.Finder.Select(ctx, c.reader(), sel, c.gone); err != nil {
		return nil, nil, err
	}
	for picked.More() {
		if err := picked.Next(ctx, func(v *memory.View) error {
			found = append(found, *v)
			return nil
		}); err != nil {
			return nil, nil, err
		}
	}
	return found, picked, nil
}

// sourceOf returns the source in a memory's metadata, if it is a string.
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

// viaOf returns in one word how a memory was written.
func viaOf(v *memory.View) string {
	if v.Via == nil {
		return ""
	}
	return string(v.Via.Kind)
}

// writer describes the writer of a memory, for a model.
func writer(via string) string {
	switch events.ViaKind(via) {
	case events.ViaDrop:
		return ", left by the holder of a one-time link and perhaps not by the owner"
	case events.ViaKey:
		return ", written with an API key of the owner"
	case events.ViaSession:
		return ", written in a session of the owner"
	}
	return ""
}

// shortID is the id that recall shows: a letter and the memory's place in the log.
func shortID(v *memory.View) string { return "m" + strconv.FormatUint(v.LeafIndex, 10) }

// idOf returns the id of a memory by its short id. Any other text, and that of a memory that
// is not there, stays as it is.
func (s *Server) idOf(ctx context.Context, c call, id string) (string, error) {
	place, short := strings.CutPrefix(id, "m")
	leaf, err := strconv.ParseUint(place, 10, 32)
	if !short || err != nil || c.Require(events.ScopeRead) != nil {
		return id, nil
	}
	found, _, err := s.read(ctx, c, memory.Selection{Order: memory.Oldest, From: leaf, To: leaf + 1, Every: true, Damaged: true})
	if err != nil || len(found) == 0 {
		return id, err
	}
	return found[0].ID, nil
}

// dayOf returns the day when a memory occurred.
func dayOf(v *memory.View) string {
	return memories.Moment(v.CreatedAt.Time(), v.Metadata).UTC().Format(time.DateOnly)
}
