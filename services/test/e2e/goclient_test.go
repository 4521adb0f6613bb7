package e2e_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/infra/testkit"
	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

func newKeyWallet(t *testing.T) memoryledger.KeyWallet {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	noErr(t, err)
	return memoryledger.KeyWallet(key)
}

// newGoClient returns a client of a fresh owner. It also checks every answer against the
// core API's document, unless options name another HTTP client.
func newGoClient(t *testing.T, s *stacktest.Stack, options ...memoryledger.Option) *memoryledger.Client {
	t.Helper()
	core := s.Core[0]
	options = append([]memoryledger.Option{
		memoryledger.WithHTTPClient(core.HTTP), memoryledger.WithRetries(3, 20*time.Millisecond),
	}, options...)
	c := memoryledger.New(core.URL, options...)
	noErr(t, errorOf(c.SignIn(t.Context(), newKeyWallet(t))))
	return c
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// all reads an iterator to its end or its error.
func all[T any](items iter.Seq2[T, error]) (got []T, err error) {
	for item, err := range items {
		if err != nil {
			return got, err
		}
		got = append(got, item)
	}
	return got, nil
}

func memoryIDs(memories []memoryledger.Memory) (ids []string) {
	for _, m := range memories {
		ids = append(ids, m.ID)
	}
	return ids
}

func TestGoClientMemories(t *testing.T) {
	s := shared(t)
	ctx, c := t.Context(), newGoClient(t, s)
	var ids []string
	for n := range 5 {
		w := must(c.Write(ctx, fmt.Sprintf("memory %d ☂ \U0001f600", n), memoryledger.Metadata{"n": n, "deep": []any{map[string]any{"z": 1e21, "a": "é"}}}))
		if w.LeafIndex != uint64(n) {
			t.Errorf("leaf %d, want %d", w.LeafIndex, n)
		}
		ids = append(ids, w.ID)
	}
	batch := []memoryledger.NewMemory{{Content: "of a batch"}, {Content: "of a batch, too", Metadata: memoryledger.Metadata{"source": "diary"}}}
	first := must(c.WriteBatch(ctx, batch, memoryledger.IdempotencyKey("batch")))
	if again := must(c.WriteBatch(ctx, batch, memoryledger.IdempotencyKey("batch"))); !slices.Equal(first, again) {
		t.Errorf("%v, again %v", first, again)
	}
	if _, err := c.WriteBatch(ctx, batch[:1], memoryledger.IdempotencyKey("batch")); !errors.Is(err, memoryledger.ErrKeyReused) {
		t.Errorf("the same key for another batch: %v", err)
	}
	ids = append(ids, first[0].ID, first[1].ID)
	listed := func(want []string) {
		t.Helper()
		for _, o := range []memoryledger.ListOptions{{}, {PageSize: 1}, {PageSize: 2}, {Order: memoryledger.Newest}, {Order: memoryledger.Newest, PageSize: 3}} {
			got, err := all(c.List(ctx, o))
			order := slices.Clone(want)
			if o.Order == memoryledger.Newest {
				slices.Reverse(order)
			}
			if err != nil || !slices.Equal(memoryIDs(got), order) {
				t.Errorf("%+v: %v, %v, want %v", o, memoryIDs(got), err, order)
			}
		}
	}
	listed(ids)
	for range c.List(ctx, memoryledger.ListOptions{PageSize: 1}) {
		break // the reader stops early
	}
	m := must(c.Get(ctx, ids[3]))
	if m.Content != "memory 3 ☂ \U0001f600" || m.Metadata["n"] != 3.0 || m.Via.Kind != "session" {
		t.Errorf("%+v", m)
	}
	for n, id := range ids {
		r, p := must(c.Receipt(ctx, id)), must(c.Proof(ctx, id))
		if r.LeafIndex != uint64(n) || p.Proof.Leaf != r.LeafHash || p.TreeSize != 7 {
			t.Errorf("%+v, %+v", r, p)
		}
	}
	if head := must(c.Head(ctx)); head.TreeSize != 7 {
		t.Errorf("%+v", head)
	}
	if p := must(c.Consistency(ctx, 3, 7)); len(p.Proof) == 0 {
		t.Errorf("%+v", p)
	}
	if _, err := c.Get(ctx, "nothing"); !errors.Is(err, memoryledger.ErrNotFound) {
		t.Error(err)
	}
	if _, err := c.Write(ctx, "x", memoryledger.Metadata{"a": "\xff"}); err == nil {
		t.Error("metadata that is not UTF-8 is sent")
	}
	if empty, err := all(newGoClient(t, s).List(ctx, memoryledger.ListOptions{})); err != nil || len(empty) != 0 {
		t.Errorf("%v, %v", empty, err)
	}
	noErr(t, c.Retract(ctx, ids[0])) // a page of one leaf is then empty
	for m, err := range c.List(ctx, memoryledger.ListOptions{PageSize: 1}) {
		noErr(t, err)
		if m.ID == ids[1] { // what is retracted while it is listed is no lie
			noErr(t, errors.Join(c.Retract(ctx, ids[3]), c.Retract(ctx, ids[6])))
		}
	}
	for range 2 {
		noErr(t, c.Forget(ctx, ids[6]))
	}
	listed([]string{ids[1], ids[2], ids[4], ids[5]})
	if _, err := c.Get(ctx, ids[3]); !errors.Is(err, memoryledger.ErrGone) {
		t.Error(err)
	}
}

// TestGoClientProvesWhileOthersWrite: a log that grows between two answers is no lie.
func TestGoClientProvesWhileOthersWrite(t *testing.T) {
	s := shared(t)
	ctx, stop := context.WithCancel(t.Context())
	c := newGoClient(t, s)
	id := must(c.Write(ctx, "proven again and again", nil)).ID
	key := must(c.CreateKey(ctx, memoryledger.NewKey{Label: "writes"}))
	var writing sync.WaitGroup
	writing.Go(func() {
		other := memoryledger.New(s.Core[0].URL, memoryledger.WithAPIKey(key.Secret))
		for n := 0; ctx.Err() == nil; n++ {
			if _, err := other.Write(ctx, fmt.Sprint("write ", n), nil); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	defer writing.Wait()
	defer stop()
	// Until the log has grown often enough between two proofs.
	for sizes := map[uint64]bool{}; len(sizes) < 16; {
		p, err := c.Proof(ctx, id)
		noErr(t, err)
		sizes[p.TreeSize] = true
	}
}

func TestGoClientSearch(t *testing.T) {
	s := shared(t)
	ctx, c := t.Context(), newGoClient(t, s)
	var ids []string
	for n, text := range []string{"The cat sleeps", "A Cat wakes", "A dog barks", "Many cats"} {
		ids = append(ids, must(c.Write(ctx, text, memoryledger.Metadata{"source": []string{"diary", "chat"}[n%2]})).ID)
	}
	search := func(query string, o memoryledger.SearchOptions, want ...string) []memoryledger.FoundMemory {
		t.Helper()
		found, err := all(c.Search(ctx, query, o))
		var got []string
		for _, m := range found {
			got = append(got, m.ID)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %+v: %v, %v, want %v", query, o, got, err, want)
		}
		return found
	}
	no := false
	search("CAT", memoryledger.SearchOptions{PageSize: 1}, ids[0], ids[1], ids[3])
	search("cat", memoryledger.SearchOptions{Order: memoryledger.Newest}, ids[3], ids[1], ids[0])
	search("cat", memoryledger.SearchOptions{Filter: memoryledger.Filter{Source: "chat"}}, ids[1], ids[3])
	search("", memoryledger.SearchOptions{Filter: memoryledger.Filter{
		Metadata: memoryledger.Metadata{"source": "diary"}, Via: &memoryledger.Via{Kind: "session"}, Anchored: &no,
		From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour),
	}}, ids[0], ids[2])
	found := search("what did the dogs do?", memoryledger.SearchOptions{Mode: memoryledger.Ranked}, ids[2])
	if len(found) == 1 && found[0].Score <= 0 {
		t.Errorf("score %v", found[0].Score)
	}
	if _, err := all(c.Search(ctx, "x", memoryledger.SearchOptions{Mode: "other"})); !errors.Is(err, memoryledger.ErrInvalid) {
		t.Error(err)
	}
}

func TestGoClientKeysAndGrants(t *testing.T) {
	s := shared(t)
	ctx := t.Context()
	// The client calls both APIs, so its answers are not checked against one document.
	c := newGoClient(t, s, memoryledger.WithExtensionURL(s.Extension[0].URL), memoryledger.WithHTTPClient(http.DefaultClient))
	key := must(c.CreateKey(ctx, memoryledger.NewKey{Label: "a program"}))
	program := memoryledger.New(s.Core[0].URL, memoryledger.WithAPIKey(key.Secret))
	must(program.Write(ctx, "by key", nil))
	if program.Owner() != "" {
		t.Errorf("the owner is known before the first head: %s", program.Owner())
	}
	must(program.Head(ctx))
	if program.Owner() != c.Owner() {
		t.Errorf("owner %s", program.Owner())
	}
	if _, err := program.Keys(ctx); !errors.Is(err, memoryledger.ErrForbidden) {
		t.Error(err)
	}
	if _, err := program.SignIn(ctx, newKeyWallet(t)); err == nil {
		t.Error("another owner signs in")
	}
	noErr(t, c.RevokeKey(ctx, key.ID))
	if keys := must(c.Keys(ctx)); len(keys) != 1 || keys[0].RevokedAt == nil || keys[0].Label != "a program" {
		t.Errorf("%+v", keys)
	}
	if _, err := program.Head(ctx); !errors.Is(err, memoryledger.ErrUnauthorized) {
		t.Error(err)
	}

	another := memoryledger.New(s.Core[0].URL)
	wallet := newKeyWallet(t)
	for range 3 {
		must(another.SignIn(ctx, wallet))
	}
	if live := must(another.Sessions(ctx)); len(live) != 3 || !live[2].Current || live[0].API != "core" {
		t.Errorf("%+v", live)
	} else if err := another.EndSession(ctx, live[0].ID); err != nil {
		t.Error(err)
	}
	if n := must(another.EndOtherSessions(ctx)); n != 1 {
		t.Errorf("%d other sessions", n)
	}
	must(another.Write(ctx, "erased", nil))
	if n := must(another.Erase(ctx, wallet)); n != 1 {
		t.Errorf("%d leaves erased", n)
	}
	if _, err := another.Head(ctx); !errors.Is(err, memoryledger.ErrUnauthorized) {
		t.Error(err)
	}

	end := time.Now().Add(time.Hour).Truncate(time.Second)
	limited := must(c.CreateKey(ctx, memoryledger.NewKey{Label: "reader", Scopes: []memoryledger.Scope{memoryledger.ScopeRead}, ExpiresAt: end}))
	if !slices.Equal(limited.Scopes, []memoryledger.Scope{memoryledger.ScopeRead}) || limited.ExpiresAt == nil || !limited.ExpiresAt.Equal(end) {
		t.Errorf("%+v", limited)
	}
	if _, err := memoryledger.New(s.Core[0].URL, memoryledger.WithAPIKey(limited.Secret)).Write(ctx, "x", nil); !errors.Is(err, memoryledger.ErrForbidden) {
		t.Error(err)
	}

	drop := must(c.MintDrop(ctx, memoryledger.DropOptions{MaxWrites: 2}))
	left := memoryledger.LeftMemory{Content: "from a friend", Source: "friend"}
	first := must(program.Leave(ctx, drop.URL, left, memoryledger.IdempotencyKey("once")))
	if again := must(program.Leave(ctx, drop.URL, left, memoryledger.IdempotencyKey("once"))); *again != *first {
		t.Errorf("%+v, again %+v", first, again)
	}
	if status := must(c.DropStatus(ctx, drop.ID)); status.RemainingWrites != 1 {
		t.Errorf("%+v", status)
	}
	if m := must(c.Get(ctx, first.MemoryID)); m.Via.Kind != "drop" || m.Metadata["source"] != "friend" {
		t.Errorf("%+v", m)
	}
	if live := must(c.RevokeDrop(ctx, drop.ID)); !live {
		t.Error("the drop was not live")
	}
	if _, err := c.Leave(ctx, drop.URL, left); !errors.Is(err, memoryledger.ErrNotFound) || strings.Contains(err.Error(), "svc_") {
		t.Error(err)
	}
	opened := must(c.MintCase(ctx, memoryledger.CaseOptions{MaxReads: 1, Minutes: 5}))
	if text := must(program.OpenCase(ctx, opened.URL)); !strings.Contains(text, "from a friend") {
		t.Error(text)
	}
	if _, err := program.OpenCase(ctx, opened.URL); !errors.Is(err, memoryledger.ErrNotFound) {
		t.Error(err)
	}
	if status := must(c.CaseStatus(ctx, opened.ID)); status.ReadCount != 1 {
		t.Errorf("%+v", status)
	}
	if _, err := program.MintCase(ctx, memoryledger.CaseOptions{}); err == nil {
		t.Error("a grant without the extension's URL")
	}
}

func TestGoClientExport(t *testing.T) {
	s := shared(t)
	ctx, c := t.Context(), newGoClient(t, s)
	if leaves, err := all(c.Export(ctx, memoryledger.ExportOptions{})); err != nil || len(leaves) != 0 {
		t.Errorf("an empty log: %v, %v", leaves, err)
	}
	var ids []string
	for n := range 3 {
		batch := make([]memoryledger.NewMemory, 100)
		for i := range batch {
			batch[i].Content = fmt.Sprint("memory ", n, i, " \u0000 ☂")
		}
		for _, w := range must(c.WriteBatch(ctx, batch)) {
			ids = append(ids, w.ID)
		}
	}
	noErr(t, c.Retract(ctx, ids[7]))
	var file bytes.Buffer
	leaves, err := all(c.Export(ctx, memoryledger.ExportOptions{CopyTo: &file}))
	if err != nil || len(leaves) != 300 || leaves[7].Entry != nil || leaves[8].Entry == nil || leaves[8].ID != ids[8] {
		t.Fatalf("%d leaves, %v", len(leaves), err)
	}
	if _, opened := verifyExport(t, file.Bytes()); opened != 299 {
		t.Errorf("%d opened", opened)
	}
	for range c.Export(ctx, memoryledger.ExportOptions{}) {
		break // the reader stops early
	}
}

func TestGoClientAnchored(t *testing.T) {
	t.Parallel()
	s, chain := anchoredStack(t, 100*time.Millisecond)
	ctx, c := t.Context(), newGoClient(t, s, memoryledger.WithRPC(chain.URL()), memoryledger.WithHTTPClient(http.DefaultClient)) // also for the node
	anchored := func(id string) (r *memoryledger.Receipt) {
		t.Helper()
		testkit.Await(t, "it is anchored", func() bool {
			r = must(c.Receipt(ctx, id))
			return r.Anchor != nil
		})
		return r
	}
	first := must(c.Write(ctx, "to be anchored", nil))
	old := anchored(first.ID)
	must(c.Write(ctx, "later", nil))
	anchored(must(c.Write(ctx, "last", nil)).ID)
	now := must(c.Receipt(ctx, first.ID))
	if now.Anchor.CommittedSize != 3 {
		t.Errorf("%+v", now.Anchor)
	}
	held, err := old.VerifyOnchain(ctx, chain.URL())
	if err != nil || held.Size != 3 {
		t.Fatalf("%+v, %v", held, err)
	}
	must(all(c.Export(ctx, memoryledger.ExportOptions{})))
	by := memoryledger.Issuer{ProgramID: now.Anchor.ProgramID, Authority: held.Authority}
	if err := now.VerifyIssuer(by); err != nil {
		t.Error(err)
	}
	// A receipt as it was saved before its anchor, completed by the service and by the chain.
	early := *old
	early.Anchor, early.Consistency = nil, []memoryledger.Hash{}
	if done := must(c.CompleteReceipt(ctx, &early)); done.Anchor == nil || done.LeafHash != early.LeafHash {
		t.Errorf("%+v", done)
	}
	if done := must(early.CompleteOnchain(ctx, chain.URL(), by)); *done.Anchor != *old.Anchor && done.Anchor.CommittedSize != old.TreeSize {
		t.Errorf("%+v, want %+v", done.Anchor, old.Anchor)
	}
	now.Anchor.Slot++
	if _, err := now.VerifyOnchain(ctx, chain.URL()); !errors.Is(err, memoryledger.ErrChain) {
		t.Error(err)
	}
	strict := newGoClient(t, s, memoryledger.WithIssuer(memoryledger.Issuer{ProgramID: by.ProgramID, Authority: c.Owner()}))
	written := must(strict.Write(ctx, "by another authority", nil))
	for {
		r, err := strict.Receipt(ctx, written.ID)
		if err == nil && r.Anchor == nil {
			continue // not anchored yet
		}
		if !errors.Is(err, memoryledger.ErrChain) {
			t.Error(err)
		}
		break
	}
}

// verifyExport checks an export, and counts the leaves with an entry.
func verifyExport(t *testing.T, text []byte) (h verify.ExportHeader, opened uint64) {
	t.Helper()
	export, err := verify.ReadExport(bytes.NewReader(text))
	noErr(t, err)
	for m, err := range export.Memories() {
		noErr(t, err)
		if m.Entry != nil {
			opened++
		}
	}
	return export.Header, opened
}
