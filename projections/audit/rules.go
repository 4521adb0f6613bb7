package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/readmodel/apikeys"
	"github.com/memory-ledger/ledger/projections/readmodel/grants"
)

// session, apiKey and grant describe a credential according to the log: the values that
// its row in the read model must hold, and the values that the rules need.
type session struct {
	audience        string
	owner           *owner
	tokenHash       *events.Hash
	issued, expires time.Time
	revoked         *time.Time
	seq             uint64
}

type imported struct {
	owner *owner
	root  events.Hash
	size  uint64
	ended *time.Time
}

type apiKey struct {
	prefix, label, scopes  string
	owner                  *owner
	hash                   events.Hash
	created                time.Time
	expires, used, revoked *time.Time
	createdBy              *events.Via
	namespaces, app        *string
	seq                    uint64
}

type grant struct {
	id              string
	by              *events.Via
	kind            events.GrantKind
	owner           *owner
	tokenHash       events.Hash
	minted, expires time.Time
	maxUses, used   int
	revoked         *time.Time
	namespace       []byte
	seq             uint64
}

func (g *grant) live(now time.Time) bool {
	return g.revoked == nil && g.used < g.maxUses && now.Before(g.expires)
}

// keyUseInterval is the minimum time between two recorded uses of a key.
const keyUseInterval = time.Minute

func leafKey(owner events.Owner, leaf uint64) string {
	return rowKey(string(owner), strconv.FormatUint(leaf, 10))
}

// retracted checks a retraction, or that a memory was forgotten.
func (f *fold) retracted(c *current, data *events.MemoryRetracted, forgotten bool) {
	if leaves := uint64(len(c.owner.leaves)); data.LeafIndex >= leaves || data.Leaves != leaves {
		f.wrong(c, CheckKey, "retracts leaf %d of %d, the log has %d", data.LeafIndex, data.Leaves, leaves)
	}
	key := rowKey(leafKey(c.owner.name, data.LeafIndex), strconv.FormatBool(forgotten)[:1])
	if f.retractions[key] != nil {
		f.wrong(c, CheckUnique, "leaf %d was retracted already, or forgotten", data.LeafIndex)
		return
	}
	f.retractions[key] = rowOf(c.owner, c.seq)
}

// corrected checks what a memory supersedes.
func (f *fold) corrected(c *current, data *events.MemoryWritten) {
	for i, leaf := range data.Supersedes {
		key := rowKey(string(c.owner.name), strconv.FormatUint(leaf, 10), strconv.FormatUint(data.LeafIndex, 10))
		if leaf >= data.LeafIndex || f.corrections[key] != nil {
			f.wrongLeaf(c, data, "supersedes leaf %d, which is not an earlier one or is named twice", leaf)
			continue
		}
		f.corrections[key] = rowOf(c.owner, i)
	}
}

// forgotten checks that the keystore no longer has the key of a memory that was forgotten.
func (f *fold) forgotten(ctx context.Context, c *current, leaf uint64) error {
	f.explained(c.owner.name, leaf)
	key, _, err := f.keyOf(ctx, c.owner.name)
	if key != nil && key.Erasures() <= c.owner.erased && !key.Destroyed(leaf) {
		f.wrong(c, CheckKey, "the keystore has the key of leaf %d, which was forgotten; a core service destroys it within a minute, or at its next start if the keystore was restored", leaf)
	}
	return err
}

// keyOf returns an owner's key. If there is none, or none that opens, it returns nil and why.
func (f *fold) keyOf(ctx context.Context, owner events.Owner) (key Key, lacks unread, err error) {
	if f.cfg.Keys == nil {
		return nil, unread{why: cmp.Or(f.cfg.WhyNoKeys, "no data keys")}, nil
	}
	key, err = f.cfg.Keys(ctx, owner)
	var unopened *Unopened
	switch {
	case errors.Is(err, ErrNoKey):
		return nil, unread{why: "the owner's data key is gone"}, nil
	case errors.As(err, &unopened):
		return nil, unread{unopened.Why, !unopened.Optional}, nil
	case err != nil:
		return nil, unread{}, fmt.Errorf("data key of %s: %w", owner, err)
	}
	return key, unread{}, nil
}

// importStarted checks that no other import is running.
func (f *fold) importStarted(c *current, data *events.ImportStarted) {
	if leaves := uint64(len(c.owner.leaves)); c.owner.importing != nil || data.Leaves != leaves {
		f.wrong(c, CheckKey, "an import starts at leaf %d of %d, or during another one", data.Leaves, leaves)
	}
	c.owner.importing = &imported{owner: c.owner, root: data.Root, size: data.Size}
	f.imports[rowKey(string(c.owner.name), strconv.FormatUint(c.seq, 10))] = c.owner.importing
}

// importFinished checks that an import that is complete gave the root of its export.
func (f *fold) importFinished(c *current, data *events.ImportFinished) {
	i, leaves, complete := c.owner.importing, uint64(len(c.owner.leaves)), data.Reason == events.ImportComplete
	switch {
	case i == nil:
		f.wrong(c, CheckKey, "an import ends that did not start")
		return
	case data.Leaves != leaves || data.Root != i.root || complete && leaves != i.size:
		f.wrong(c, CheckKey, "an import of %d leaves ends with %d, the log has %d", i.size, data.Leaves, leaves)
	case complete:
		if root := c.owner.root(leaves); root != i.root {
			f.wrong(c, CheckLeaf, "the log has the root %s after the import of %s", root, i.root)
		}
	}
	i.ended, c.owner.importing = c.now(), nil
}

// explained notes that the log says why the key of a leaf is destroyed.
func (f *fold) explained(owner events.Owner, leaf uint64) {
	key := leafKey(owner, leaf)
	if _, destroyed := f.destroyed[key]; destroyed {
		delete(f.destroyed, key)
		f.report.unread[unread{why: "its owner had it forgotten"}]++
	}
}

// erased counts an erasure, which explains why the keystore has only a later key.
func (f *fold) erased(o *owner) {
	o.erased++
	delete(f.destroyed, erasedKey(o.name, o.erased))
}

func erasedKey(owner events.Owner, erasures int) string {
	return rowKey(string(owner), "erasure", strconv.Itoa(erasures))
}

// unexplained reports the leaves and owners whose keys are destroyed and that the log does
// not call forgotten or erased, not even in messages that came since the audit began.
func (a *auditor) unexplained(ctx context.Context) error {
	f := a.fold
	if len(f.destroyed) == 0 {
		return nil
	}
	if err := a.readOn(ctx, "", func(e *events.Event) {
		switch data := e.Data.(type) {
		case *events.MemoryForgotten:
			f.explained(e.Owner, data.LeafIndex)
		case *events.OwnerErased:
			if o := f.owners[e.Owner]; o != nil {
				f.erased(o)
			}
		}
	}); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(f.destroyed)) {
		a.report.add(f.destroyed[key])
	}
	return nil
}

// ownerErased checks an erasure, and checks that the keystore no longer has the erased
// key.
func (f *fold) ownerErased(ctx context.Context, c *current, data *events.OwnerErased) error {
	if leaves := uint64(len(c.owner.leaves)); data.Leaves != leaves {
		f.wrong(c, CheckKey, "erases %d leaves, the log has %d", data.Leaves, leaves)
	}
	f.erased(c.owner)
	f.erasures[rowKey(string(c.owner.name), strconv.FormatUint(c.seq, 10))] = rowOf(c.owner, data.Leaves)
	key, _, err := f.keyOf(ctx, c.owner.name)
	if key != nil && key.Erasures() < c.owner.erased {
		f.wrong(c, CheckKey, "the keystore has a data key from before erasure %d; `ledger forget` destroys it", c.owner.erased)
	}
	return err
}

func (f *fold) sessionIssued(c *current, data *events.SessionIssued) {
	if _, again := f.sessions[data.SessionID]; again {
		f.wrong(c, CheckUnique, "session id %s was used already", data.SessionID)
		return
	}
	f.sessions[data.SessionID] = &session{audience: string(data.Audience), owner: c.owner,
		tokenHash: data.TokenHash, issued: *c.now(), expires: data.ExpiresAt.Time(), seq: c.seq}
}

func (f *fold) sessionRevoked(c *current, data *events.SessionRevoked) {
	s := f.sessions[data.SessionID]
	if s == nil || s.owner != c.owner || s.revoked != nil {
		f.wrong(c, CheckKey, "revokes session %s, which the owner has not or which is revoked", data.SessionID)
	}
	if s != nil && s.revoked == nil {
		s.revoked = c.now()
	}
}

func (f *fold) keyCreated(c *current, data *events.ApiKeyCreated) {
	if _, again := f.keys[data.KeyID]; again {
		f.wrong(c, CheckUnique, "API key id %s was used already", data.KeyID)
		return
	}
	f.keys[data.KeyID] = &apiKey{prefix: data.Prefix, label: data.Label, owner: c.owner,
		hash: data.KeyHash, scopes: events.JoinScopes(data.Scopes), created: *c.now(), expires: column.TimeArg(data.ExpiresAt), createdBy: data.CreatedBy, namespaces: apikeys.NamespacesArg(data.Namespaces), app: apikeys.AppArg(data.App), seq: c.seq}
}

func (f *fold) keyUsed(c *current, data *events.ApiKeyUsed) {
	k, now := f.keys[data.KeyID], c.now()
	if k == nil || k.owner != c.owner || k.revoked != nil {
		f.wrong(c, CheckKey, "API key %s was used, which the owner has not or which is revoked", data.KeyID)
	}
	if k == nil {
		return
	}
	if k.expires != nil && !now.Before(*k.expires) {
		f.wrong(c, CheckKey, "API key %s was used after it expired", data.KeyID)
	}
	if k.used != nil && now.Sub(*k.used) < keyUseInterval {
		f.wrong(c, CheckKey, "use of API key %s recorded twice within a minute", data.KeyID)
	}
	if k.used == nil || now.After(*k.used) {
		k.used = now
	}
}

// guestWrote checks that a key that may not read wrote the memory.
func (f *fold) guestWrote(c *current, data *events.MemoryWritten) {
	if data.Via == nil || data.Via.Kind != events.ViaKey {
		f.wrong(c, CheckLeaf, "leaf %d has a guest's salt, and no API key wrote it", data.LeafIndex)
	} else if k := f.keys[data.Via.ID]; k != nil && slices.Contains(events.SplitScopes(k.scopes), events.ScopeRead) {
		f.wrong(c, CheckLeaf, "leaf %d has a guest's salt, and API key %s may read", data.LeafIndex, data.Via.ID)
	}
}

func (f *fold) keyRevoked(c *current, data *events.ApiKeyRevoked) {
	k := f.keys[data.KeyID]
	if k == nil || k.owner != c.owner || k.revoked != nil {
		f.wrong(c, CheckKey, "revokes API key %s, which the owner has not or which is revoked", data.KeyID)
	}
	if k != nil && k.revoked == nil {
		k.revoked = c.now()
	}
}

func (f *fold) minted(c *current, data *events.GrantMinted) {
	if _, again := f.grants[data.GrantID]; again {
		f.wrong(c, CheckUnique, "grant id %s was used already", data.GrantID)
		return
	}
	now := *c.now()
	if other := c.owner.active[data.Kind]; other != nil && other.live(now) {
		f.wrong(c, CheckGrant, "%s %s minted while %s is active", data.Kind, data.GrantID, other.id)
	}
	if data.MaxUses < 1 {
		f.wrong(c, CheckGrant, "grant %s allows %d uses", data.GrantID, data.MaxUses)
	}
	g := &grant{id: data.GrantID, kind: data.Kind, owner: c.owner, tokenHash: data.TokenHash, minted: now,
		expires: data.ExpiresAt.Time(), maxUses: data.MaxUses, by: data.By, namespace: grants.NamespaceArg(data.Namespace), seq: c.seq}
	if k := f.minter(g); k != nil && (k.revoked != nil || k.expires != nil && g.expires.After(*k.expires)) {
		f.wrong(c, CheckGrant, "grant %s was minted by API key %s, which was revoked or expires earlier", data.GrantID, data.By.ID)
	}
	f.grants[data.GrantID] = g
	if c.owner.active == nil {
		c.owner.active = map[events.GrantKind]*grant{}
	}
	c.owner.active[data.Kind] = g
}

// minter returns the API key that minted a grant, or nil if another credential did.
func (f *fold) minter(g *grant) *apiKey {
	if g.by == nil || g.by.Kind != events.ViaKey {
		return nil
	}
	return f.keys[g.by.ID]
}

func (f *fold) consumed(c *current, data *events.GrantConsumed) {
	g := f.grants[data.GrantID]
	if g == nil || g.owner != c.owner || g.kind != data.Kind {
		f.wrong(c, CheckGrant, "%s %s was used, which the owner never minted", data.Kind, data.GrantID)
		if g == nil {
			return
		}
	}
	now := *c.now()
	switch {
	case g.revoked != nil:
		f.wrong(c, CheckGrant, "%s %s was used after it was revoked", g.kind, g.id)
	case !now.Before(g.expires):
		f.wrong(c, CheckGrant, "%s %s was used after it expired", g.kind, g.id)
	}
	if k := f.minter(g); k != nil && k.revoked != nil {
		f.wrong(c, CheckGrant, "%s %s was used after API key %s, which minted it, was revoked", g.kind, g.id, g.by.ID)
	}
	if g.used >= g.maxUses {
		f.wrong(c, CheckGrant, "%s %s allows %d uses and was used again", g.kind, g.id, g.maxUses)
	} else if data.Use != g.used+1 || data.Remaining != g.maxUses-data.Use {
		f.wrong(c, CheckGrant, "%s %s: use %d with %d left, after %d of %d uses", g.kind, g.id, data.Use, data.Remaining, g.used, g.maxUses)
	}
	g.used = max(g.used, data.Use)
	if g.kind == events.GrantDrop && !c.withMemory {
		f.wrong(c, CheckGrant, "drop %s was used without a memory", g.id)
	}
}

func (f *fold) revoked(c *current, data *events.GrantRevoked) {
	g := f.grants[data.GrantID]
	if g == nil || g.owner != c.owner || g.kind != data.Kind || g.revoked != nil {
		f.wrong(c, CheckGrant, "revokes %s %s, which the owner has not or which is revoked", data.Kind, data.GrantID)
	}
	if g != nil && g.revoked == nil {
		g.revoked = c.now()
	}
}

type movement struct {
	owner        *owner
	mint, amount string
	position     int
	slot, seq    uint64
	at           time.Time
}

// moved folds a transfer. A transfer that was recorded twice counts once: one message
// holds all transfers of a transaction, so the same place in the message means the same
// transfer.
func (f *fold) moved(c *current, data events.StakeDeposited, direction string) {
	alike := data.Signature + " " + data.Vault + " " + direction
	key := rowKey(data.Signature, data.Vault, direction, strconv.Itoa(c.ordinals[alike]))
	m := &movement{owner: c.owner, mint: data.Mint, amount: data.Amount, position: c.position, slot: data.Slot, seq: c.seq, at: data.BlockTime.Time()}
	if c.ordinals == nil {
		c.ordinals = map[string]int{}
	}
	c.ordinals[alike]++
	if units, err := strconv.ParseUint(data.Amount, 10, 64); err != nil || fmt.Sprint(units) != data.Amount {
		f.wrong(c, CheckDecode, "amount %q is not a number of base units", data.Amount)
	}
	if first := f.movements[key]; first == nil {
		f.movements[key] = m
	} else if first.amount != m.amount || first.mint != m.mint || first.owner != m.owner {
		f.wrong(c, CheckUnique, "transfer %s was recorded otherwise at sequence %d", key, first.seq)
	}
}
