package command

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/events/verify/leaf"
)

// Refusals. Each is returned only for a state that has caught up with the log.
var (
	// ErrCredentialDead: the key or session was revoked or has expired.
	ErrCredentialDead = errors.New("credential is revoked or expired")
	// ErrIdempotencyMismatch: the Idempotency-Key was used with another body.
	ErrIdempotencyMismatch = errors.New("Idempotency-Key was used with another body")
	// ErrIdempotencyErased: the Idempotency-Key was used by a write that was erased since.
	// Its salt is destroyed, so nothing tells whether the bodies are the same.
	ErrIdempotencyErased = errors.New("Idempotency-Key was used by a write that was erased since; use another key")
	// ErrGrantDead: the grant is unknown, spent, revoked or expired.
	ErrGrantDead = errors.New("grant is unknown, spent, revoked or expired")
	// ErrKeyUnknown: the owner has no such key.
	ErrKeyUnknown = errors.New("no such API key")
	// ErrSessionUnknown: the owner has no such live session.
	ErrSessionUnknown = errors.New("no such session")
	// ErrTooManyKeys: the owner has MaxKeys live keys.
	ErrTooManyKeys = errors.New("too many live API keys; revoke one first")
)

const (
	// MaxKeys bounds an owner's API keys that are alive, maybe only by a slow clock.
	MaxKeys = 1000
	// MaxSessions bounds an owner's live sessions of each API. One more ends the oldest.
	MaxSessions = 1000
	// keyUseInterval is the shortest time between two records of a key's use.
	keyUseInterval = time.Minute
)

// Decision is the outcome of a command: events for one message, or none if nothing has to
// change.
type Decision struct {
	Kind   events.SubjectKind
	Events []events.Data
}

// Command is a request to change one owner's log. decide is pure: it reads the state, never
// changes it, and returns the same decision for the same arguments. Only sealed bytes differ
// each time, by their nonces. After Execute, the command's fields hold its answer.
type Command interface {
	decide(s *State, now time.Time) (Decision, error)
}

// CredentialKind is what authorized a request.
type CredentialKind int

// CredentialNone is for commands that no request caused. It is not checked.
const (
	CredentialNone CredentialKind = iota
	CredentialCoreSession
	CredentialExtensionSession
	CredentialKey
)

type Credential struct {
	Kind  CredentialKind
	ID    string // session or key id
	Guest bool   // a key that may not read
	// Limited: a key for some namespaces only.
	Limited bool
}

// check refuses a credential that is not alive in the state. The events of the decision are
// appended with the state's version, so no credential can be revoked unnoticed between the
// check and the append.
func (c Credential) check(s *State, now time.Time) error {
	switch c.Kind {
	case CredentialCoreSession:
		if expires, ok := s.CoreSessions[c.ID]; !ok || !now.Before(expires) {
			return ErrCredentialDead
		}
	case CredentialExtensionSession:
		if expires, ok := s.Sessions[c.ID]; !ok || !now.Before(expires) {
			return ErrCredentialDead
		}
	case CredentialKey:
		if key, ok := s.Keys[c.ID]; !ok || !key.live(now) {
			return ErrCredentialDead
		}
	case CredentialNone:
	}
	return nil
}

// Salt returns which secret salts the leaves that the credential writes. A guest's leaves
// can't be compared with the owner's: otherwise a guest could write guesses and learn which
// of them the owner wrote.
func (c Credential) Salt() events.Salt {
	if c.Guest {
		return events.SaltGuest
	}
	return events.SaltOwner
}

// Scoped returns the hash under which an Idempotency-Key of the credential is kept. A
// credential that may not read everything has keys of its own: otherwise a replay would tell
// it of other writes.
func (c Credential) Scoped(key *events.Hash) *events.Hash {
	if key == nil || !c.Guest && !c.Limited {
		return key
	}
	return new(events.Hash(sha256.Sum256(append([]byte("memory-ledger/guest-key/v1\x00"+c.ID+"\x00"), key[:]...))))
}

// Via returns how a memory written with the credential came in.
func (c Credential) Via() events.Via {
	if c.Kind == CredentialKey {
		return events.Via{Kind: events.ViaKey, ID: c.ID}
	}
	return events.Via{Kind: events.ViaSession, ID: c.ID}
}

// use records the use of an API key if that is due. The message is written anyway, so the
// record is free.
func (c Credential) use(s *State, now time.Time) []events.Data {
	if c.Kind == CredentialKey && keyUseDue(s.Keys[c.ID], now) {
		return []events.Data{&events.ApiKeyUsed{KeyID: c.ID}}
	}
	return nil
}

func keyUseDue(k Key, now time.Time) bool { return now.Sub(k.LastUsed) >= keyUseInterval }

// SignIn issues a session, and registers the owner at the first one. A client that lost its
// token can't sign out, so a sign-in above the limit is not refused: it ends the session
// that would expire first.
//
// Erasures is how often the owner had erased everything when EnsureDataKey ran. A later
// erasure has destroyed that key, and the session would write with it. Such a sign-in is
// refused with ErrErased; start over.
type SignIn struct {
	UserID    string // for a new owner
	SessionID string
	Audience  events.Audience
	TokenHash *events.Hash // extension sessions
	ExpiresAt events.Timestamp
	Erasures  int
}

func (c *SignIn) decide(s *State, now time.Time) (Decision, error) {
	if c.Erasures != s.Erased.Times {
		return Decision{}, ErrErased
	}
	d := Decision{Kind: events.KindSession}
	if id, full := surplus(s.sessionsOf(c.Audience), now); full {
		d.Events = append(d.Events, &events.SessionRevoked{SessionID: id})
	}
	if s.UserID == "" {
		d.Events = append(d.Events, &events.OwnerRegistered{UserID: c.UserID})
	}
	d.Events = append(d.Events, &events.SessionIssued{
		SessionID: c.SessionID, Audience: c.Audience, TokenHash: c.TokenHash, ExpiresAt: c.ExpiresAt,
	})
	return d, nil
}

// surplus returns the live session to end to make room for another one, if there is no room:
// the one that expires first.
func surplus(sessions map[string]time.Time, now time.Time) (id string, full bool) {
	live := slices.DeleteFunc(slices.Collect(maps.Keys(sessions)), func(id string) bool { return !now.Before(sessions[id]) })
	if len(live) < MaxSessions {
		return "", false
	}
	return slices.MinFunc(live, func(a, b string) int {
		return cmp.Or(sessions[a].Compare(sessions[b]), cmp.Compare(a, b))
	}), true
}

type SignOut struct{ SessionID string }

func (c *SignOut) decide(s *State, now time.Time) (Decision, error) {
	if expires, ok := s.Sessions[c.SessionID]; !ok || !now.Before(expires) {
		return Decision{}, ErrCredentialDead
	}
	return Decision{events.KindSession, []events.Data{&events.SessionRevoked{SessionID: c.SessionID}}}, nil
}

type WriteMemory struct {
	MemoryID string
	LeafHash events.Hash
	Metadata canonical.Object
	// Seal seals the content for a leaf, whose index only the decision knows, and returns the
	// version of the sealing. SealedBytes is how long the result is.
	Seal           func(leaf uint64) (sealed []byte, sealing int)
	SealedBytes    int
	IdempotencyKey *events.Hash // SHA-256 of the header's value
	Credential     Credential
	// KeyErasures is how often the owner had erased everything when the data key was made
	// that the memory is sealed with. A later erasure has destroyed that key, and the memory
	// is refused with ErrKeyErased.
	KeyErasures int
	// BytesPerDay bounds the bytes that the owner writes on a UTC day; 0: no limit.
	BytesPerDay int64
	Supersedes  []Superseded // the memories that this one corrects, each once
	alike       []Superseded // all leaves with the hashes of what the command corrects
	first       *Written     // the earlier write with the Idempotency-Key; nil: there is none

	// Written is the answer.
	Written Written
	// Replayed says that the answer is from an earlier request.
	Replayed bool
}

func (c *WriteMemory) decide(s *State, now time.Time) (Decision, error) {
	if err := c.Credential.check(s, now); err != nil {
		return Decision{}, err
	}
	if replayed, err := c.replay(s); replayed || err != nil {
		return Decision{}, err
	}
	written, err := s.write(now, c.Credential.Via(), c.Credential.Salt(), c)
	if err != nil {
		return Decision{}, err
	}
	return Decision{events.KindMemory, append(written, c.Credential.use(s, now)...)}, nil
}

// write makes the events of memories, which become the owner's next leaves.
func (s *State) write(now time.Time, via events.Via, salt events.Salt, memories ...*WriteMemory) (written []events.Data, err error) {
	for _, m := range memories {
		if err := cmp.Or(m.checkKey(s), m.checkSuperseded(s)); err != nil {
			return nil, err
		}
	}
	if err := s.admit(now, memories...); err != nil {
		return nil, err
	}
	all := 0 // superseded leaves
	for i, m := range memories {
		supersedes := m.supersedes(s.Leaves, memories[:i])
		if all += len(supersedes); all > MaxSuperseded {
			return nil, ErrTooManySuperseded
		}
		index := s.Leaves + uint64(i)
		sealed, sealing := m.Seal(index)
		m.Written = Written{MemoryID: m.MemoryID, LeafIndex: index, LeafHash: m.LeafHash, CreatedAt: events.At(now)}
		written = append(written, &events.MemoryWritten{
			MemoryID: m.MemoryID, LeafIndex: index, LeafHash: m.LeafHash, LeafVersion: leaf.Version,
			Metadata: jsontext.Value(m.Metadata.String()), Sealed: sealed, IdempotencyKeyHash: m.IdempotencyKey, Via: &via, Salt: salt, Sealing: sealing,
			Supersedes: supersedes,
		})
	}
	return written, nil
}

// replay answers a repeated write with the first answer, and reports whether there was one.
func (c *WriteMemory) replay(s *State) (bool, error) {
	if c.first == nil {
		return false, nil
	}
	if err := c.first.isOf(c, s); err != nil {
		return false, err
	}
	c.Written, c.Replayed = *c.first, true
	c.Written.Seq = 0
	return true, nil
}

// isOf refuses a write that is not the repetition of the one that got the answer. The leaf
// hash depends on owner, data key, text, metadata, and for guests on the key, so it tells
// whether the bodies are the same. A member of the body that is not in the leaf must be compared, too.
func (w Written) isOf(c *WriteMemory, s *State) error {
	switch {
	case w.LeafIndex < s.Erased.Leaves:
		return ErrIdempotencyErased
	case c.checkKey(s) != nil: // the hashes depend on the key
		return ErrKeyErased
	case w.LeafHash != c.LeafHash:
		return ErrIdempotencyMismatch
	}
	return nil
}

// checkKey refuses a memory sealed with a key that an erasure has destroyed: a replica may
// still have it in memory, or be told of it by a node that is behind.
func (c *WriteMemory) checkKey(s *State) error {
	if c.KeyErasures < s.Erased.Times {
		return ErrKeyErased
	}
	return nil
}

// MintGrant issues a grant and revokes the owner's other live grants of the same kind. A
// grant minted by a key never outlives the key: a longer life is cut to the key's.
type MintGrant struct {
	GrantID    string
	Kind       events.GrantKind
	TokenHash  events.Hash
	ExpiresAt  events.Timestamp // the answer is in it too: it may be cut
	MaxUses    int
	Namespace  string // empty: no limit
	Credential Credential

	// RevokedPrevious is the answer: how many live grants were revoked.
	RevokedPrevious int
}

func (c *MintGrant) decide(s *State, now time.Time) (Decision, error) {
	if err := c.Credential.check(s, now); err != nil {
		return Decision{}, err
	}
	var superseded []events.Data
	c.RevokedPrevious = 0
	for _, id := range slices.Sorted(maps.Keys(s.Grants)) {
		if g := s.Grants[id]; g.Kind == c.Kind && !g.over(now) {
			superseded = append(superseded, &events.GrantRevoked{GrantID: id, Kind: g.Kind, Reason: events.Superseded})
			if g.live(now) {
				c.RevokedPrevious++
			}
		}
	}
	if c.Credential.Kind == CredentialKey {
		if end := s.Keys[c.Credential.ID].Expires; !end.IsZero() && end.Before(c.ExpiresAt.Time()) {
			c.ExpiresAt = events.At(end)
		}
	}
	return Decision{events.KindGrant, append(superseded, &events.GrantMinted{
		GrantID: c.GrantID, Kind: c.Kind, TokenHash: c.TokenHash, ExpiresAt: c.ExpiresAt, MaxUses: c.MaxUses, By: new(c.Credential.Via()),
		Namespace: c.Namespace,
	})}, nil
}

// RevokeGrant ends a grant, also one that has expired here and may be alive for a replica
// whose clock is behind. It is no error if the grant has already ended.
type RevokeGrant struct {
	GrantID    string
	Kind       events.GrantKind // the kind that it must have
	Credential Credential

	// Revoked is the answer: whether this command ended a grant that was alive here.
	Revoked bool
}

func (c *RevokeGrant) decide(s *State, now time.Time) (Decision, error) {
	if err := c.Credential.check(s, now); err != nil {
		return Decision{}, err
	}
	grant, ok := s.Grants[c.GrantID]
	c.Revoked = ok && grant.Kind == c.Kind && grant.live(now)
	if !ok || grant.Kind != c.Kind {
		return Decision{}, nil
	}
	return Decision{events.KindGrant, []events.Data{
		&events.GrantRevoked{GrantID: c.GrantID, Kind: c.Kind, Reason: events.RevokedByOwner},
	}}, nil
}

// ConsumeCase spends one read of an agent case.
type ConsumeCase struct{ GrantID string }

func (c *ConsumeCase) decide(s *State, now time.Time) (Decision, error) {
	consumed, err := consume(s, c.GrantID, events.GrantCase, now)
	if err != nil {
		return Decision{}, err
	}
	return Decision{events.KindGrant, []events.Data{consumed}}, nil
}

// ConsumeDrop spends one write of a memory drop and writes the memory, in one message. A
// repeated request spends nothing, and is answered even if the drop has ended: the first
// attempt may have spent its last write.
type ConsumeDrop struct {
	GrantID string
	Memory  WriteMemory
}

func (c *ConsumeDrop) decide(s *State, now time.Time) (Decision, error) {
	replayed, err := c.Memory.replay(s)
	if errors.Is(err, ErrIdempotencyErased) {
		return Decision{}, ErrGrantDead // the erasure ended the drop, too
	}
	if replayed || err != nil {
		return Decision{}, err
	}
	consumed, err := consume(s, c.GrantID, events.GrantDrop, now)
	if err != nil {
		return Decision{}, err
	}
	written, err := s.write(now, events.Via{Kind: events.ViaDrop, ID: c.GrantID}, events.SaltOwner, &c.Memory)
	if err != nil {
		return Decision{}, err // the use is not spent
	}
	return Decision{events.KindMemory, append([]events.Data{consumed}, written...)}, nil
}

func consume(s *State, id string, kind events.GrantKind, now time.Time) (*events.GrantConsumed, error) {
	grant, ok := s.Grants[id]
	if !ok || grant.Kind != kind || !grant.live(now) {
		return nil, ErrGrantDead
	}
	return &events.GrantConsumed{
		GrantID: id, Kind: kind, Use: grant.Used + 1, Remaining: grant.MaxUses - grant.Used - 1,
	}, nil
}

type CreateKey struct {
	KeyID      string
	KeyHash    events.Hash
	Prefix     string
	Label      string
	Scopes     []events.Scope    // in the order of events.AllScopes
	ExpiresAt  *events.Timestamp // nil: never
	Namespaces []string          // nil: no limit
	App        *events.App       // nil for a key that is made by hand
	Credential Credential

	// CreatedAt is the answer.
	CreatedAt events.Timestamp
}

func (c *CreateKey) decide(s *State, now time.Time) (Decision, error) {
	if err := c.Credential.check(s, now); err != nil {
		return Decision{}, err
	}
	if liveKeys(s, now) >= MaxKeys {
		return Decision{}, ErrTooManyKeys
	}
	c.CreatedAt = events.At(now)
	return Decision{events.KindKey, []events.Data{
		&events.ApiKeyCreated{KeyID: c.KeyID, KeyHash: c.KeyHash, Prefix: c.Prefix, Label: c.Label, Scopes: c.Scopes, ExpiresAt: c.ExpiresAt, CreatedBy: new(c.Credential.Via()), Namespaces: c.Namespaces, App: c.App},
	}}, nil
}

// liveKeys counts the keys that EndAccess ends with one message, so it must have a bound.
func liveKeys(s *State, now time.Time) (n int) {
	for _, k := range s.Keys {
		if !k.over(now) {
			n++
		}
	}
	return n
}

// RevokeKey ends an API key, and the grants that it minted. A key that has expired counts as
// unknown, unless it may be alive for a replica whose clock is behind.
type RevokeKey struct {
	KeyID      string
	Credential Credential
}

func (c *RevokeKey) decide(s *State, now time.Time) (Decision, error) {
	if err := c.Credential.check(s, now); err != nil {
		return Decision{}, err
	}
	if key, ok := s.Keys[c.KeyID]; !ok || key.over(now) {
		return Decision{}, ErrKeyUnknown
	}
	ended := endGrants(s, now, func(by events.Via) bool { return by == events.Via{Kind: events.ViaKey, ID: c.KeyID} })
	return Decision{events.KindKey, append(ended, &events.ApiKeyRevoked{KeyID: c.KeyID})}, nil
}

// UseKey records that a key was used, at most once a minute.
type UseKey struct{ KeyID string }

func (c *UseKey) decide(s *State, now time.Time) (Decision, error) {
	key, ok := s.Keys[c.KeyID]
	if !ok || !key.live(now) || !keyUseDue(key, now) {
		return Decision{}, nil
	}
	return Decision{events.KindKey, []events.Data{&events.ApiKeyUsed{KeyID: c.KeyID}}}, nil
}
