package events

import (
	"encoding/hex"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Type names an event. It is the CloudEvents "type" attribute.
type Type string

// Every type that the log knows. The set is closed: an event of any other
// type does not decode.
const (
	TypeOwnerRegistered Type = "OwnerRegistered"
	TypeSessionIssued   Type = "SessionIssued"
	TypeSessionRevoked  Type = "SessionRevoked"
	TypeMemoryWritten   Type = "MemoryWritten"
	TypeMemoryRetracted Type = "MemoryRetracted"
	TypeMemoryForgotten Type = "MemoryForgotten"
	TypeOwnerErased     Type = "OwnerErased"
	TypeImportStarted   Type = "ImportStarted"
	TypeImportFinished  Type = "ImportFinished"
	TypeGrantMinted     Type = "GrantMinted"
	TypeGrantConsumed   Type = "GrantConsumed"
	TypeGrantRevoked    Type = "GrantRevoked"
	TypeApiKeyCreated   Type = "ApiKeyCreated"
	TypeApiKeyRevoked   Type = "ApiKeyRevoked"
	TypeApiKeyUsed      Type = "ApiKeyUsed"
	TypeBatchCut        Type = "BatchCut"
	TypeBatchSubmitted  Type = "BatchSubmitted"
	TypeBatchConfirmed  Type = "BatchConfirmed"
	TypeBatchFailed     Type = "BatchFailed"
	TypeStakeDeposited  Type = "StakeDeposited"
	TypeStakeWithdrawn  Type = "StakeWithdrawn"
)

// Data is the payload of an event: one of the structs below.
type Data interface {
	// EventType returns the type that this payload belongs to.
	EventType() Type
}

// GrantKind says what a grant allows.
type GrantKind string

// An agent case lets its holder read; a memory drop lets its holder write.
const (
	GrantCase GrantKind = "case"
	GrantDrop GrantKind = "drop"
)

// Audience says which API a session was issued for.
type Audience string

// Core sessions are signed tokens, extension sessions are random ones.
const (
	AudienceCore      Audience = "core"
	AudienceExtension Audience = "extension"
)

// OwnerRegistered: a wallet signed in for the first time.
type OwnerRegistered struct {
	UserID string `json:"userId"` // UUIDv7
}

// SessionIssued: a wallet proved possession of its key and got a session.
type SessionIssued struct {
	SessionID string    `json:"sessionId"` // UUIDv7; the "jti" of a core session
	Audience  Audience  `json:"audience"`
	TokenHash *Hash     `json:"tokenHash,omitzero"` // SHA-256 of an extension token; absent for core
	ExpiresAt Timestamp `json:"expiresAt"`
}

// SessionRevoked: a session was ended. Either its owner ended it, or it was the oldest of
// too many sessions, and the session issued with this event replaced it.
type SessionRevoked struct {
	SessionID string `json:"sessionId"`
}

// MemoryWritten: one leaf was added to the owner's log.
type MemoryWritten struct {
	MemoryID  string `json:"memoryId"` // UUIDv7
	LeafIndex uint64 `json:"leafIndex"`
	LeafHash  Hash   `json:"leafHash"`
	// LeafVersion is the version of the leaf's form; see package leaf.
	LeafVersion int `json:"leafVersion"`
	// Metadata is the RFC 8785 form of the metadata object, as it was hashed.
	Metadata jsontext.Value `json:"metadata"`
	// Sealed is the encrypted content: a 12-byte nonce, then AES-256-GCM
	// ciphertext and tag. Base64 on the wire.
	Sealed []byte `json:"sealed"`
	// IdempotencyKeyHash is SHA-256 of the request's Idempotency-Key.
	IdempotencyKeyHash *Hash `json:"idempotencyKeyHash,omitzero"`
	// Via says how the memory came in. Version 1 did not record it.
	Via *Via `json:"via,omitzero"`
	// Salt says which secret the leaf's salt derives from; see package leaf. Versions 1 and
	// 2 had only the owner's.
	Salt Salt `json:"salt"`
	// Sealing is the version of the sealing: 1 under the owner's data key, as all memories of
	// versions 1 to 3; 2 under a key of the leaf, which can be destroyed alone.
	Sealing int `json:"sealing"`
	// Supersedes holds the indexes of the leaves that this memory corrects: those of the
	// memories that its writer named, and then of all others with the same leaf hashes. All
	// are smaller than LeafIndex. Metadata has the hashes. Versions 1 to 3 had none.
	Supersedes []uint64 `json:"supersedes,omitzero"`
	// Imported says what the memory was where it was exported. Versions 1 to 4 had none.
	Imported *Imported `json:"imported,omitzero"`
}

// Imported is what an export says of a memory beside its leaf.
type Imported struct {
	ID        string    `json:"id"` // of the memory, a UUIDv7
	CreatedAt Timestamp `json:"createdAt"`
	Via       *Via      `json:"via,omitzero"` // absent if the export did not say
}

// Versions of the sealing of a text.
const (
	SealedByOwner = 1 // under the owner's data key
	SealedByLeaf  = 2 // under the leaf's own key
)

// Salt names the secret that a leaf's salt derives from.
type Salt string

const (
	// SaltOwner is the owner's secret: the same memory gives the same leaf.
	SaltOwner Salt = "owner"
	// SaltGuest is the secret of an API key that may not read; Via names the key.
	SaltGuest Salt = "guest"
	// SaltSealed is sealed before the text: the memory was imported, and no secret here gives
	// its salt; see [Salt.Split].
	SaltSealed Salt = "sealed"
	// SaltNone is of an imported leaf without an entry: its text and its salt stayed behind.
	SaltNone Salt = "none"
)

// Via names what something was done with: a session or an API key of its owner, or a
// memory drop, whose holder may be anyone.
type Via struct {
	Kind ViaKind `json:"kind"`
	ID   string  `json:"id"` // of the session, the key or the grant; a UUIDv7
}

// ViaKind is the kind of a [Via].
type ViaKind string

// The kinds of credentials. A drop can only write a memory.
const (
	ViaSession ViaKind = "session"
	ViaKey     ViaKind = "key"
	ViaDrop    ViaKind = "drop"
)

// String returns "kind:id".
func (v Via) String() string { return string(v.Kind) + ":" + v.ID }

// ParseVia is the inverse of String. It returns false if the text is not of that form.
func ParseVia(text string) (Via, bool) {
	kind, id, found := strings.Cut(text, ":")
	return Via{ViaKind(kind), id}, found
}

// MemoryRetracted: an owner took a memory back. Its leaf and its proof stay.
type MemoryRetracted struct {
	MemoryID  string `json:"memoryId"`
	LeafIndex uint64 `json:"leafIndex"`
	// Leaves is how many leaves the owner's log has. The newest message on the memory
	// subject tells the length of the log, whatever it is about.
	Leaves uint64 `json:"leaves"`
}

// MemoryForgotten: an owner had the text of one memory made unreadable for good. The event
// comes first, and then the memory's key is destroyed. Its leaf, proof and metadata stay.
type MemoryForgotten struct {
	MemoryID  string `json:"memoryId"`
	LeafIndex uint64 `json:"leafIndex"`
	Leaves    uint64 `json:"leaves"` // as in MemoryRetracted
}

// OwnerErased: an owner had all texts so far made unreadable. Before this event was
// appended, the data key was destroyed, and every session, API key, and grant had ended.
// Leaves and proofs stay. Memories that the owner writes later are sealed with a new key.
type OwnerErased struct {
	// Leaves is how many leaves the owner's log has: all of them are erased.
	Leaves uint64 `json:"leaves"`
}

// ImportStarted: an owner began to import an export of a log of theirs. Until it is finished,
// no other memory is written.
type ImportStarted struct {
	Root   Hash   `json:"root"`   // of the whole export
	Size   uint64 `json:"size"`   // leaves of the export
	Leaves uint64 `json:"leaves"` // as in MemoryRetracted; they are the export's first ones
}

// ImportFinished: an import ended. Other memories may be written again.
type ImportFinished struct {
	Root   Hash      `json:"root"` // of the whole export
	Reason ImportEnd `json:"reason"`
	Leaves uint64    `json:"leaves"` // as in MemoryRetracted
}

// ImportEnd says why an import ended.
type ImportEnd string

// An import ends with its last leaf, or before it by its owner; then the leaves so far stay.
const (
	ImportComplete ImportEnd = "complete"
	ImportGivenUp  ImportEnd = "givenUp"
)

// GrantMinted: an owner handed out a capability.
type GrantMinted struct {
	GrantID   string    `json:"grantId"` // UUIDv7
	Kind      GrantKind `json:"kind"`
	TokenHash Hash      `json:"tokenHash"` // SHA-256 of the whole token text
	ExpiresAt Timestamp `json:"expiresAt"`
	MaxUses   int       `json:"maxUses"`
	// By names the session or the API key that minted it. Version 1 did not record it.
	By *Via `json:"by,omitzero"`
	// Namespace is what the holder may read, or where the holder's memories go; empty for no
	// limit. Versions 1 and 2 had none.
	Namespace string `json:"namespace,omitzero"`
}

// GrantConsumed: one use of a grant was spent.
type GrantConsumed struct {
	GrantID   string    `json:"grantId"`
	Kind      GrantKind `json:"kind"`
	Use       int       `json:"use"` // 1 for the first
	Remaining int       `json:"remaining"`
}

// GrantRevocation says why a grant was revoked.
type GrantRevocation string

// A grant is revoked by its owner, or superseded by a newer one of its kind.
const (
	RevokedByOwner GrantRevocation = "owner"
	Superseded     GrantRevocation = "superseded"
)

// GrantRevoked: a grant ended before it was spent or expired.
type GrantRevoked struct {
	GrantID string          `json:"grantId"`
	Kind    GrantKind       `json:"kind"`
	Reason  GrantRevocation `json:"reason"`
}

// ApiKeyCreated: an owner made a key for programs.
type ApiKeyCreated struct {
	KeyID   string `json:"keyId"`   // UUIDv7
	KeyHash Hash   `json:"keyHash"` // SHA-256 of the whole key text
	Prefix  string `json:"prefix"`  // leading characters, for display
	Label   string `json:"label"`
	// Scopes says what the key may do, in the order of AllScopes, each once. A key of
	// version 1 may read and write.
	Scopes []Scope `json:"scopes"`
	// ExpiresAt is absent for a key that lives until it is revoked.
	ExpiresAt *Timestamp `json:"expiresAt,omitzero"`
	// CreatedBy names the session that made the key. Versions 1 and 2 did not record it.
	CreatedBy *Via `json:"createdBy,omitzero"`
	// Namespaces are the namespaces that the key is limited to, each once; nil for no limit.
	// Versions 1 to 3 had none.
	Namespaces []string `json:"namespaces,omitzero"`
	// App describes the app that got the key by OAuth; nil for a key that the owner made by
	// hand. Versions 1 to 4 had no apps.
	App *App `json:"app,omitzero"`
}

// App is a program that its user connected by OAuth.
type App struct {
	Name         string `json:"name"`         // what it calls itself
	RedirectHost string `json:"redirectHost"` // where its authorization code was sent
}

// Scope is a kind of thing that an API key may do.
type Scope string

// The scopes of keys.
const (
	ScopeRead    Scope = "read"
	ScopeWrite   Scope = "write"
	ScopeRetract Scope = "retract"
	ScopeShare   Scope = "share" // since version 3
)

// AllScopes is every scope, in order.
var AllScopes = []Scope{ScopeRead, ScopeWrite, ScopeRetract, ScopeShare}

// JoinScopes returns the scopes as one text, "read,write".
func JoinScopes(scopes []Scope) string {
	var b strings.Builder
	for i, s := range scopes {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(string(s))
	}
	return b.String()
}

// SplitScopes is the inverse of JoinScopes.
func SplitScopes(text string) []Scope {
	scopes := []Scope{}
	for s := range strings.SplitSeq(text, ",") {
		if s != "" {
			scopes = append(scopes, Scope(s))
		}
	}
	return scopes
}

// ApiKeyRevoked: a key was revoked.
type ApiKeyRevoked struct {
	KeyID string `json:"keyId"`
}

// ApiKeyUsed: a key was used; recorded at most once a minute for each key.
type ApiKeyUsed struct {
	KeyID string `json:"keyId"`
}

// BatchCut: the anchorer fixed a root to commit.
type BatchCut struct {
	BatchID  string `json:"batchId"`  // UUIDv7
	FromSize uint64 `json:"fromSize"` // log size of the batch before this one
	Size     uint64 `json:"size"`     // log size that Root commits to
	Root     Hash   `json:"root"`     // RFC 6962 root of the first Size leaves
}

// BatchSubmitted: a signed transaction that commits the batch is about to be
// sent. The event is written before the first byte is sent to the chain.
type BatchSubmitted struct {
	BatchID              string `json:"batchId"`
	Size                 uint64 `json:"size"`
	Root                 Hash   `json:"root"`
	Signature            string `json:"signature"` // base58 transaction signature
	Blockhash            string `json:"blockhash"` // base58
	LastValidBlockHeight uint64 `json:"lastValidBlockHeight"`
	Transaction          []byte `json:"transaction"` // the signed wire bytes, sent again unchanged
}

// BatchConfirmed: the commitment account was read back and holds the root.
type BatchConfirmed struct {
	BatchID   string `json:"batchId"`
	Size      uint64 `json:"size"`
	Root      Hash   `json:"root"`
	Signature string `json:"signature"`
	Slot      uint64 `json:"slot"`      // slot that the account says it was committed in
	Cluster   string `json:"cluster"`   // genesis hash, base58
	ProgramID string `json:"programId"` // base58
	Account   string `json:"account"`   // base58 address of the commitment account
}

// BatchFailed: an attempt is known to have failed for good. The batch is cut again.
type BatchFailed struct {
	BatchID   string `json:"batchId"`
	Signature string `json:"signature,omitzero"`
	Reason    string `json:"reason"`
}

// StakeDeposited: tokens arrived in an owner's vault, seen on the chain.
type StakeDeposited struct {
	Mint      string    `json:"mint"`
	Vault     string    `json:"vault"`
	Amount    string    `json:"amount"` // base units, decimal
	Signature string    `json:"signature"`
	Slot      uint64    `json:"slot"`
	BlockTime Timestamp `json:"blockTime"`
}

// StakeWithdrawn: tokens left an owner's vault, seen on the chain.
type StakeWithdrawn struct {
	Mint      string    `json:"mint"`
	Vault     string    `json:"vault"`
	Amount    string    `json:"amount"` // base units, decimal
	Signature string    `json:"signature"`
	Slot      uint64    `json:"slot"`
	BlockTime Timestamp `json:"blockTime"`
}

func (*OwnerRegistered) EventType() Type { return TypeOwnerRegistered }
func (*SessionIssued) EventType() Type   { return TypeSessionIssued }
func (*SessionRevoked) EventType() Type  { return TypeSessionRevoked }
func (*MemoryWritten) EventType() Type   { return TypeMemoryWritten }
func (*MemoryRetracted) EventType() Type { return TypeMemoryRetracted }
func (*MemoryForgotten) EventType() Type { return TypeMemoryForgotten }
func (*OwnerErased) EventType() Type     { return TypeOwnerErased }
func (*ImportStarted) EventType() Type   { return TypeImportStarted }
func (*ImportFinished) EventType() Type  { return TypeImportFinished }
func (*GrantMinted) EventType() Type     { return TypeGrantMinted }
func (*GrantConsumed) EventType() Type   { return TypeGrantConsumed }
func (*GrantRevoked) EventType() Type    { return TypeGrantRevoked }
func (*ApiKeyCreated) EventType() Type   { return TypeApiKeyCreated }
func (*ApiKeyRevoked) EventType() Type   { return TypeApiKeyRevoked }
func (*ApiKeyUsed) EventType() Type      { return TypeApiKeyUsed }
func (*BatchCut) EventType() Type        { return TypeBatchCut }
func (*BatchSubmitted) EventType() Type  { return TypeBatchSubmitted }
func (*BatchConfirmed) EventType() Type  { return TypeBatchConfirmed }
func (*BatchFailed) EventType() Type     { return TypeBatchFailed }
func (*StakeDeposited) EventType() Type  { return TypeStakeDeposited }
func (*StakeWithdrawn) EventType() Type  { return TypeStakeWithdrawn }

// SaltBytes is how long a salt is that is sealed before its text.
const SaltBytes = HashSize

// Split takes an opened body apart: the text, and the salt that was sealed before it, in hex.
// The salt is empty if it derives from a secret, or if the body is too short to hold one.
func (s Salt) Split(body string) (salt, text string) {
	if s != SaltSealed || len(body) < SaltBytes {
		return "", body
	}
	return hex.EncodeToString([]byte(body[:SaltBytes])), body[SaltBytes:]
}
