package audit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/events/verify/leaf"
	"github.com/memory-ledger/ledger/projections/tree"
)

// fold is the state that the log describes, as far as the log was read.
type fold struct {
	*auditor
	owners      map[events.Owner]*owner
	sessions    map[string]*session
	corrections map[string]wantRow   // by owner, superseded and superseding leaf
	retractions map[string]wantRow   // by owner, leaf index, and whether it was forgotten
	destroyed   map[string]Finding   // by leafKey or erasedKey: a key is destroyed, and no event says why
	erasures    map[string]wantRow   // by owner and sequence
	imports     map[string]*imported // by owner and sequence
	keys        map[string]*apiKey
	grants      map[string]*grant
	batches     map[string]*batch
	attempts    map[string]bool // submitted, by batch and signature
	movements   map[string]*movement
	ids         uniques
	memories    *memoryRows // nil without a database
	last        uint64      // sequence of the newest message
	stored      time.Time   // when the log stored it
}

func newFold(a *auditor) *fold {
	return &fold{
		auditor: a, owners: map[events.Owner]*owner{}, sessions: map[string]*session{}, corrections: map[string]wantRow{}, retractions: map[string]wantRow{}, destroyed: map[string]Finding{}, erasures: map[string]wantRow{}, imports: map[string]*imported{}, keys: map[string]*apiKey{},
		grants: map[string]*grant{}, batches: map[string]*batch{}, attempts: map[string]bool{},
		movements: map[string]*movement{},
	}
}

type owner struct {
	name                    events.Owner
	userID                  *string // nil before the first sign-in
	versions, chainVersions int     // last version, as counted; counting continues after a gap
	messages                uint64  // of the ledger family
	erased                  int     // number of erasures
	named                   *uint64 // sequence of the newest ledger message, nil if it holds a leaf
	chainVersion            int     // the highest, as in the read model
	chainLastSeq            uint64

	leaves    []events.Hash
	rooted    verify.Tree // of the first leaves; see root
	active    map[events.GrantKind]*grant
	importing *imported // nil: none is running

	committed []*batch // largest confirmed batch; several only if that size was confirmed again
}

func (f *fold) owner(name events.Owner) *owner {
	o := f.owners[name]
	if o == nil {
		o = &owner{name: name, rooted: verify.NewTree()}
		f.owners[name] = o
	}
	return o
}

func (o *owner) skip(family events.Family, seq uint64) {
	if family == events.FamilyChain {
		o.chainVersions, o.chainLastSeq = o.chainVersions+1, seq
		return
	}
	o.versions, o.messages, o.named = o.versions+1, o.messages+1, &seq
}

// root computes the root of the first leaves. It mostly continues where it was: an owner's
// batches grow.
func (o *owner) root(size uint64) events.Hash {
	if size < o.rooted.Size() {
		o.rooted = verify.NewTree()
	}
	o.rooted.Append(o.leaves[o.rooted.Size():size]...)
	return o.rooted.Root()
}

// current is the event that is being folded.
type current struct {
	owner    *owner
	seq      uint64
	position int
	event    *events.Event
	ordinals map[string]int // counts alike stake movements in this message; nil if there are none
	// withMemory reports that the message holds a memory.
	withMemory bool
}

// now is when the event happened.
func (c *current) now() *time.Time {
	return new(c.event.Time.Time())
}

func (f *fold) wrong(c *current, check Check, format string, args ...any) {
	f.report.wrong(check, c.owner.name, c.seq, format, args...)
}

func (f *fold) wrongLeaf(c *current, data *events.MemoryWritten, format string, args ...any) {
	f.report.add(Finding{Check: CheckLeaf, Owner: c.owner.name, Seq: c.seq, LeafIndex: new(data.LeafIndex), Detail: fmt.Sprintf(format, args...)})
}

// errNoRule means that the audit has no rule for an event type of the catalogue.
var errNoRule = errors.New("the audit has no rule for an event type")

func (f *fold) event(ctx context.Context, c *current) error {
	switch data := c.event.Data.(type) {
	case *events.OwnerRegistered:
		if c.owner.userID != nil {
			f.wrong(c, CheckKey, "owner registered again")
			return nil
		}
		c.owner.userID = &data.UserID
	case *events.MemoryWritten:
		return f.memory(ctx, c, data)
	case *events.MemoryRetracted:
		f.retracted(c, data, false)
	case *events.MemoryForgotten:
		forgotten := events.MemoryRetracted(*data)
		f.retracted(c, &forgotten, true)
		return f.forgotten(ctx, c, data.LeafIndex)
	case *events.OwnerErased:
		return f.ownerErased(ctx, c, data)
	case *events.ImportStarted:
		f.importStarted(c, data)
	case *events.ImportFinished:
		f.importFinished(c, data)
	case *events.SessionIssued:
		f.sessionIssued(c, data)
	case *events.SessionRevoked:
		f.sessionRevoked(c, data)
	case *events.ApiKeyCreated:
		f.keyCreated(c, data)
	case *events.ApiKeyUsed:
		f.keyUsed(c, data)
	case *events.ApiKeyRevoked:
		f.keyRevoked(c, data)
	case *events.GrantMinted:
		f.minted(c, data)
	case *events.GrantConsumed:
		f.consumed(c, data)
	case *events.GrantRevoked:
		f.revoked(c, data)
	case *events.BatchCut:
		f.cut(c, data)
	case *events.BatchSubmitted:
		f.submitted(c, data)
	case *events.BatchConfirmed:
		f.confirmed(c, data)
	case *events.BatchFailed:
		f.failed(c, data)
	case *events.StakeDeposited:
		f.moved(c, *data, "deposit")
	case *events.StakeWithdrawn:
		f.moved(c, events.StakeDeposited(*data), "withdrawal")
	default:
		return fmt.Errorf("%w: %s", errNoRule, c.event.Type())
	}
	return nil
}

// memory checks a leaf and adds it to the owner's tree.
func (f *fold) memory(ctx context.Context, c *current, data *events.MemoryWritten) error {
	o := c.owner
	f.report.summary.Leaves++
	if want := uint64(len(o.leaves)); data.LeafIndex != want {
		f.wrongLeaf(c, data, "leaf index %d where %d should be", data.LeafIndex, want)
	}
	f.ids.add(idMemory, c.seq, data.MemoryID)
	if data.IdempotencyKeyHash != nil {
		f.ids.add(idIdempotency, c.seq, string(o.name), string(data.IdempotencyKeyHash[:]))
	}
	f.corrected(c, data)
	if data.Salt == events.SaltGuest {
		f.guestWrote(c, data)
	}
	if (data.Imported != nil) != (o.importing != nil) {
		f.wrong(c, CheckLeaf, "leaf %d was imported without an import, or written during one", data.LeafIndex)
	}
	if err := f.recompute(ctx, c, data); err != nil {
		return err
	}
	o.leaves = append(o.leaves, data.LeafHash)
	if f.memories == nil {
		return nil
	}
	return f.memories.compare(memoryOf(c.event, data, c.seq))
}

// recompute opens the content and computes the leaf hash again. Without a key, it counts
// the leaf under the reason why the key is missing.
func (f *fold) recompute(ctx context.Context, c *current, data *events.MemoryWritten) error {
	key, lacks, err := f.keyOf(ctx, c.owner.name)
	if err != nil {
		return err
	}
	if key == nil {
		f.report.unread[lacks]++
		return nil
	}
	if c.owner.erased < key.Erasures() {
		f.report.unread[unread{why: "its owner had it erased"}]++
		f.destroyed[erasedKey(c.owner.name, key.Erasures())] = Finding{Check: CheckKey, Owner: c.owner.name,
			Detail: fmt.Sprintf("the keystore has a data key from after erasure %d, which the log does not have", key.Erasures())}
		return nil
	}
	if data.Sealing == events.SealedByLeaf && key.Destroyed(data.LeafIndex) {
		f.destroyed[leafKey(c.owner.name, data.LeafIndex)] = Finding{Check: CheckLeaf, Owner: c.owner.name, Seq: c.seq, LeafIndex: new(data.LeafIndex),
			Detail: "the key of the memory is destroyed, and the log does not call it forgotten"}
		return nil
	}
	if data.Salt == events.SaltNone {
		f.report.unread[unread{why: "it was imported without an entry"}]++
		return nil
	}
	f.report.summary.LeavesRecomputed++
	if why := f.leafDiffers(key, c.owner.name, data); why != "" {
		f.wrongLeaf(c, data, "%s", why)
	}
	return nil
}

func (f *fold) leafDiffers(key Key, owner events.Owner, data *events.MemoryWritten) string {
	if data.LeafVersion != leaf.Version {
		return fmt.Sprintf("leaf version %d is unknown", data.LeafVersion)
	}
	body, err := key.Open(data.Sealing, data.LeafIndex, data.MemoryID, data.Sealed)
	if err != nil {
		return "the sealed content does not open: it was altered, or belongs to another memory"
	}
	metadata, err := canonical.Canonicalize(data.Metadata)
	if err != nil || metadata.String() != string(data.Metadata) {
		return "the metadata is not in canonical form"
	}
	salt, content := data.Salt.Split(body)
	l := leaf.Leaf{Memory: leaf.Memory{Content: content, Metadata: metadata, Owner: owner}, Salt: salt}
	if salt == "" {
		secret, err := key.LeafSecret(data.Salt, data.Via)
		if err != nil {
			return err.Error()
		}
		if l, err = leaf.New(secret, l.Memory); err != nil {
			return err.Error()
		}
	}
	hash, err := l.Hash()
	if err != nil {
		return err.Error()
	}
	if hash != data.LeafHash {
		return fmt.Sprintf("leaf hash is %s, its content gives %s", data.LeafHash, hash)
	}
	return ""
}

// tiles returns the rows of all full tiles. The root of a full tile is a hash of the level
// above it.
func (f *fold) tiles() map[string]wantRow {
	rows := map[string]wantRow{}
	for _, o := range f.owners {
		hashes := o.leaves
		for level := 0; len(hashes) >= tree.TileWidth; level++ {
			var roots []events.Hash
			for full := range slices.Chunk(hashes[:len(hashes)/tree.TileWidth*tree.TileWidth], tree.TileWidth) {
				root, sum := tree.RootOf(full), sha256.Sum256(tree.Pack(full))
				rows[rowKey(string(o.name), fmt.Sprint(level), fmt.Sprint(len(roots)))] = rowOf(o, root, sum[:])
				roots = append(roots, root)
			}
			hashes = roots
		}
	}
	return rows
}

// idKind is a kind of id. Ids must be unique within their kind.
type idKind byte

const (
	idCommand idKind = iota
	idEvent
	idMemory
	idIdempotency
)

var idNames = map[idKind]string{
	idCommand: "command id", idEvent: "event id", idMemory: "memory id", idIdempotency: "idempotency key",
}

type use struct {
	digest [16]byte // the first half of the SHA-256 of the kind and the id
	kind   idKind
	seq    uint64
}

// uniques finds ids that were used twice. It keeps 32 bytes for each use.
type uniques []use

func (u *uniques) add(kind idKind, seq uint64, parts ...string) {
	text := string(byte(kind)) + strings.Join(parts, "\x00")
	sum := sha256.Sum256([]byte(text))
	*u = append(*u, use{[16]byte(sum[:16]), kind, seq})
}

// twice calls yield for every reuse of an id, with the sequences of the first use and of
// the reuse.
func (u uniques) twice(yield func(kind idKind, first, again uint64)) {
	slices.SortFunc(u, func(a, b use) int {
		return cmp.Or(bytes.Compare(a.digest[:], b.digest[:]), cmp.Compare(a.seq, b.seq))
	})
	for i := 1; i < len(u); i++ {
		if u[i].digest != u[i-1].digest {
			continue
		}
		first := i - 1
		for ; i < len(u) && u[i].digest == u[first].digest; i++ {
			yield(u[i].kind, u[first].seq, u[i].seq)
		}
	}
}
