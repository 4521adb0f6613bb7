package signin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/services/command"
)

const ExtensionTokenPrefix = "svc_session_"

var (
	// ErrMalformed: the message does not have the form of a challenge.
	ErrMalformed = errors.New("message is not a sign-in challenge")
	// ErrAddress: the message names another account than publicKey.
	ErrAddress = errors.New("message address differs from publicKey")
	// ErrRefused: the answer is well-formed but not valid.
	ErrRefused = errors.New("sign-in refused")
	// ErrClosed: the service takes no new owners, and this one never signed in.
	ErrClosed = errors.New("this service takes no new owners")
	// ErrPurpose: this API issues no challenges for that.
	ErrPurpose = errors.New(`purpose must be "sign-in", or "erase" at the core API`)
	// ErrUnavailable: the bucket of used nonces could not be reached.
	ErrUnavailable = errors.New("sign-in unavailable")
)

type Challenge struct {
	Message   string           `json:"message"`
	Nonce     string           `json:"nonce"`
	IssuedAt  events.Timestamp `json:"issuedAt"`
	ExpiresAt events.Timestamp `json:"expiresAt"`
}

// Session is the result of a valid answer.
type Session struct {
	Token     string           `json:"token"`
	ExpiresAt events.Timestamp `json:"expiresAt"`
	PublicKey events.Owner     `json:"publicKey"`
}

type Answer struct {
	PublicKey events.Owner
	Message   string
	Signature []byte // 64 bytes
}

// Issuer makes the token of a new session.
type Issuer interface {
	// Issue returns the token, and its SHA-256 if the service looks the token up instead of
	// verifying it.
	Issue(owner events.Owner, sessionID string, issued, expires events.Timestamp) (token string, hash *events.Hash)
	// Audience is the API that the sessions are for.
	Audience() events.Audience
	// Expiry returns when a session ends that is issued at that time.
	Expiry(issued events.Timestamp) events.Timestamp
}

type Config struct {
	Site Site
	// NonceKeys authenticate nonces: the first one signs new nonces, and any of them
	// verifies. At least one.
	NonceKeys []NonceKey
	// Spent is the bucket of used nonces.
	Spent jetstream.KeyValue
	// SyncSpent, if any, makes the use of a nonce durable, for a server that acknowledges
	// before it syncs.
	SyncSpent func(ctx context.Context) error
	Commands  *command.Executor
	Closed    bool // takes no new owners
	// EnsureDataKey makes the data key of an owner who is new, or who has erased everything
	// that many times.
	EnsureDataKey func(ctx context.Context, owner events.Owner, erasures int) error
	Issuer        Issuer
	Now           func() time.Time
	NewID         func() string
	// Pause waits, and returns false when the context ends; nil means eventlog.Pause.
	Pause func(ctx context.Context, d time.Duration) bool
}

type SignIn struct {
	cfg   Config
	spent spentNonces
}

func New(cfg Config) *SignIn {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Pause == nil {
		cfg.Pause = eventlog.Pause
	}
	return &SignIn{cfg: cfg, spent: spentNonces{bucket: cfg.Spent, sync: cfg.SyncSpent, now: cfg.Now, pause: cfg.Pause}}
}

// scope is what the nonces of this API's challenges are valid for.
func (d *SignIn) scope(purpose Purpose, messageWithoutNonce string) scope {
	return scope{audience: d.cfg.Issuer.Audience(), purpose: purpose, message: messageWithoutNonce}
}

// Challenge issues a challenge for a public key. It stores nothing: the nonce holds
// everything that Verify and Confirm need. Errors: ErrPublicKey, ErrPurpose.
func (d *SignIn) Challenge(publicKey string, purpose Purpose) (Challenge, error) {
	if statements[purpose] == "" || purpose == PurposeErase && d.cfg.Issuer.Audience() != events.AudienceCore {
		return Challenge{}, ErrPurpose
	}
	owner, err := ParsePublicKey(publicKey)
	if err != nil {
		return Challenge{}, err
	}
	issued := events.At(d.cfg.Now())
	n := nonce{expires: issued.Add(NonceLifetime)}
	rand.Read(n.random[:]) // never fails
	write := func(nonce string) string { return message(d.cfg.Site, purpose, owner, nonce, issued, n.expires) }
	text := n.text(d.cfg.NonceKeys[0], d.scope(purpose, write("")))
	return Challenge{Message: write(text), Nonce: text, IssuedAt: issued, ExpiresAt: n.expires}, nil
}

// Verify checks an answer and issues a session. Only success spends the nonce.
// Errors: ErrMalformed, ErrAddress, ErrRefused, ErrClosed, ErrUnavailable, and those of the
// log and the keystore.
func (d *SignIn) Verify(ctx context.Context, a Answer) (session Session, err error) {
	// If it is uncertain whether the session was recorded, the token is not returned, so it
	// opens nothing.
	err = d.Confirm(ctx, PurposeSignIn, a, func(ctx context.Context) (err error) {
		session, err = d.issue(ctx, a.PublicKey)
		return err
	})
	if err != nil {
		return Session{}, err
	}
	return session, nil
}

// Confirm checks an answer and then calls do. Only success spends the nonce. Errors: those
// of Verify, and of do.
func (d *SignIn) Confirm(ctx context.Context, purpose Purpose, a Answer, do func(context.Context) error) error {
	nonce, err := d.check(purpose, a)
	if err != nil {
		return err
	}
	claim, err := d.spent.claim(ctx, nonce)
	if err != nil {
		return err
	}
	if err := do(ctx); err != nil {
		d.spent.release(ctx, nonce, claim)
		return err
	}
	// A crash before this line leaves do's work done, and a nonce that can be used again
	// after the claim has ended.
	return d.spent.spend(ctx, nonce, claim)
}

// check verifies everything about an answer except whether its nonce was used, without a
// network request. It returns the nonce.
func (d *SignIn) check(purpose Purpose, a Answer) (string, error) {
	p, ok := parseMessage(a.Message)
	if !ok {
		return "", ErrMalformed
	}
	if p.address != string(a.PublicKey) {
		return "", ErrAddress
	}
	n, ok := parseNonce(p.nonce, d.cfg.NonceKeys, d.scope(purpose, p.rest))
	if !ok {
		return "", fmt.Errorf("%w: message is not a challenge that this API issued", ErrRefused)
	}
	switch left := n.expires.Time().Sub(d.cfg.Now()); {
	case left <= 0:
		return "", fmt.Errorf("%w: challenge expired", ErrRefused)
	case left > NonceLifetime+clockSkew: // the bucket would forget the use too soon
		return "", fmt.Errorf("%w: the clocks of this service's replicas differ too much", ErrUnavailable)
	}
	if !signed(a.PublicKey, a.Message, a.Signature) {
		return "", fmt.Errorf("%w: bad signature", ErrRefused)
	}
	return p.nonce, nil
}

// issue records a session. It starts over if the owner erased everything meanwhile: the
// session would have no data key.
func (d *SignIn) issue(ctx context.Context, owner events.Owner) (session Session, err error) {
	for {
		if session, err = d.tryIssue(ctx, owner); !errors.Is(err, command.ErrErased) {
			return session, err
		}
	}
}

func (d *SignIn) tryIssue(ctx context.Context, owner events.Owner) (Session, error) {
	// The data key comes before the owner's first event. A crash between them leaves a key
	// without an owner, which the next sign-in uses.
	standing, err := d.cfg.Commands.Standing(ctx, owner)
	if err == nil && !standing.Registered && d.cfg.Closed {
		err = ErrClosed
	}
	if err == nil && standing.KeyMissing {
		err = d.cfg.EnsureDataKey(ctx, owner, standing.Erasures)
	}
	if err != nil {
		return Session{}, err
	}
	issued := events.At(d.cfg.Now())
	expires := d.cfg.Issuer.Expiry(issued)
	id := d.cfg.NewID()
	token, hash := d.cfg.Issuer.Issue(owner, id, issued, expires)
	err = d.cfg.Commands.Execute(ctx, owner, &command.SignIn{
		UserID: d.cfg.NewID(), SessionID: id, Audience: d.cfg.Issuer.Audience(), TokenHash: hash, ExpiresAt: expires,
		Erasures: standing.Erasures,
	})
	if err != nil {
		return Session{}, fmt.Errorf("record session: %w", err)
	}
	return Session{Token: token, ExpiresAt: expires, PublicKey: owner}, nil
}

// RandomTokens issues extension sessions: 32 random bytes in base64url. Only the SHA-256 is
// stored.
type RandomTokens struct{ TTL time.Duration }

func (r RandomTokens) Issue(events.Owner, string, events.Timestamp, events.Timestamp) (string, *events.Hash) {
	token, hash := NewToken(ExtensionTokenPrefix)
	return token, &hash
}

func (RandomTokens) Audience() events.Audience { return events.AudienceExtension }

func (r RandomTokens) Expiry(issued events.Timestamp) events.Timestamp { return issued.Add(r.TTL) }

// NewToken makes a random credential: the prefix, and 32 random bytes in base64url without
// padding. The hash is the SHA-256 of the whole text.
func NewToken(prefix string) (token string, hash events.Hash) {
	var raw [tokenBytes]byte
	rand.Read(raw[:]) // never fails
	token = prefix + base64.RawURLEncoding.EncodeToString(raw[:])
	return token, HashToken(token)
}

// tokenBytes is the length of a token's random part.
const tokenBytes = 32

// HasTokenForm reports whether a text has the form of NewToken's tokens. Other texts are
// refused without a lookup.
func HasTokenForm(text, prefix string) bool {
	encoded, ok := strings.CutPrefix(text, prefix)
	if !ok || len(encoded) != base64.RawURLEncoding.EncodedLen(tokenBytes) {
		return false
	}
	// Check the decoded length: the decoder skips line breaks.
	random, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	return err == nil && len(random) == tokenBytes
}

// HashToken returns the hash that a credential is looked up by.
func HashToken(token string) events.Hash { return sha256.Sum256([]byte(token)) }
