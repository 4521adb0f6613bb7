package signin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/command"
)

// nonceLength is the length of a nonce: 16 random bytes in hex.
const nonceLength = 32

// ExtensionTokenPrefix begins every extension session token.
const ExtensionTokenPrefix = "svc_session_"

// Errors of sign-in.
var (
	// ErrMalformed: the request does not have the form of an answer.
	ErrMalformed = errors.New("message is not a sign-in challenge")
	// ErrAddress: the message names another account than publicKey.
	ErrAddress = errors.New("message address differs from publicKey")
	// ErrRefused covers every answer that is well-formed but not good.
	ErrRefused = errors.New("sign-in refused")
	// ErrUnavailable: the nonces could not be reached.
	ErrUnavailable = errors.New("sign-in unavailable")
)

// Challenge is a text to sign.
type Challenge struct {
	Message   string           `json:"message"`
	Nonce     string           `json:"nonce"`
	IssuedAt  events.Timestamp `json:"issuedAt"`
	ExpiresAt events.Timestamp `json:"expiresAt"`
}

// Session is what a good answer earns.
type Session struct {
	Token     string           `json:"token"`
	ExpiresAt events.Timestamp `json:"expiresAt"`
	PublicKey events.Owner     `json:"publicKey"`
}

// Answer is a signed challenge.
type Answer struct {
	PublicKey events.Owner
	Message   string
	Signature []byte // 64 bytes
}

// Issuer makes the token of a new session.
type Issuer interface {
	// Issue returns the token and, for tokens that the service looks up
	// rather than verifies, its SHA-256.
	Issue(owner events.Owner, sessionID string, issued, expires events.Timestamp) (token string, hash *events.Hash, err error)
	// Audience says which API the sessions are for.
	Audience() events.Audience
	// Expiry is when a session ends that is issued at that time.
	Expiry(issued events.Timestamp) events.Timestamp
}

// DataKeys makes the data key of a new owner.
type DataKeys interface {
	EnsureDataKey(ctx context.Context, owner events.Owner) error
}

// Config of a Desk.
type Config struct {
	Site   Site
	Nonces jetstream.KeyValue
	// NonceSync, if any, makes the spending of a nonce durable: for a server
	// that acknowledges before its bytes are safe.
	NonceSync func(ctx context.Context) error
	Commands  *command.Executor
	DataKeys  DataKeys
	Issuer    Issuer
	Now       func() time.Time
	NewID     func() string
	Rand      io.Reader // nil means crypto/rand
	// Pause waits, or fails when the context ends; nil means by the clock.
	Pause func(ctx context.Context, d time.Duration) error
}

// Desk is the sign-in of one API.
type Desk struct {
	cfg    Config
	nonces nonces
}

// NewDesk returns a Desk.
func NewDesk(cfg Config) *Desk {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	if cfg.Pause == nil {
		cfg.Pause = pause
	}
	return &Desk{cfg: cfg, nonces: nonces{cfg.Nonces}}
}

// Challenge issues a challenge for a public key.
func (d *Desk) Challenge(ctx context.Context, publicKey string) (Challenge, error) {
	owner, err := ParsePublicKey(publicKey)
	if err != nil {
		return Challenge{}, err
	}
	var random [nonceLength / 2]byte
	if _, err := io.ReadFull(d.cfg.Rand, random[:]); err != nil {
		return Challenge{}, fmt.Errorf("nonce: %w", err)
	}
	nonce := hex.EncodeToString(random[:])
	issued := events.At(d.cfg.Now())
	expires := issued.Add(NonceLifetime)
	text := message(d.cfg.Site, owner, nonce, issued, expires)
	if err := d.nonces.put(ctx, nonce, challenge{
		Message: text, Owner: owner, ExpiresAt: expires, Audience: d.cfg.Issuer.Audience(),
	}); err != nil {
		return Challenge{}, err
	}
	return Challenge{Message: text, Nonce: nonce, IssuedAt: issued, ExpiresAt: expires}, nil
}

// Verify checks an answer and issues a session. Only success spends the nonce.
func (d *Desk) Verify(ctx context.Context, a Answer) (Session, error) {
	p, ok := parseMessage(a.Message)
	if !ok {
		return Session{}, ErrMalformed
	}
	if p.address != string(a.PublicKey) {
		return Session{}, ErrAddress
	}
	answered, revision, err := d.check(ctx, p.nonce, a)
	if err != nil {
		return Session{}, err
	}
	answered, claimed, err := d.claim(ctx, p.nonce, a, answered, revision)
	if err != nil {
		return Session{}, err
	}
	session, err := d.issue(ctx, a.PublicKey)
	if err != nil {
		// Also where it is not known whether the session was recorded: nobody has
		// its token, so it opens nothing.
		d.release(ctx, p.nonce, answered, claimed)
		return Session{}, err
	}
	// A crash before this leaves a session that nobody has the token of, and a
	// nonce that is good again after a while.
	if err := d.spend(ctx, p.nonce, claimed); err != nil {
		return Session{}, refusedIfGone(err)
	}
	return session, nil
}

// claim keeps other answers out until this one is a session. Where another one has
// claimed the nonce it waits for what becomes of that: a session, which is a refusal
// for all others, or nothing, and then this one claims it. What stays undecided is
// not refused, since the nonce may still be good.
func (d *Desk) claim(ctx context.Context, nonce string, a Answer, c challenge, revision uint64) (_ challenge, _ uint64, err error) {
	by, unsure := rand.Text(), false
	defer func() {
		if err != nil && unsure {
			d.disclaim(ctx, nonce, by)
		}
	}()
	for waited, wait := time.Duration(0), shortestWait; ; wait = min(2*wait, longestWait) {
		if c.ClaimedBy == by { // the answer was lost
			return c, revision, nil
		}
		if !c.claimed(d.cfg.Now()) {
			// The data key comes first: a crash after it leaves a key without an
			// owner, which the next sign-in uses.
			if err := d.prepareOwner(ctx, a.PublicKey); err != nil {
				return c, 0, err
			}
			claimed, err := d.nonces.claim(ctx, nonce, c, by, revision, d.cfg.Now())
			switch {
			case err == nil:
				return c, claimed, nil
			case errors.Is(err, errNoNonce): // somebody was faster, if not the claim before
			case unsure:
				return c, 0, err
			default:
				unsure = true
				continue
			}
		}
		if waited >= outcomePatience {
			return c, 0, fmt.Errorf("%w: another answer has claimed the nonce", ErrUnavailable)
		}
		if err := d.cfg.Pause(ctx, wait); err != nil {
			return c, 0, fmt.Errorf("%w: another answer has claimed the nonce: %w", ErrUnavailable, err)
		}
		waited += wait
		if c, revision, err = d.check(ctx, nonce, a); err != nil {
			return c, 0, err
		}
	}
}

const (
	// outcomePatience is as long as the recording of a session may take.
	outcomePatience = 5 * time.Second
	shortestWait    = 20 * time.Millisecond
	longestWait     = 250 * time.Millisecond
)

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// disclaim ends a claim of which it is not known whether it was made.
func (d *Desk) disclaim(ctx context.Context, nonce, by string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if c, revision, err := d.nonces.get(ctx, nonce); err == nil && c.ClaimedBy == by {
		_ = d.nonces.release(ctx, nonce, c, revision)
	}
}

// release gives the nonce back, also where the request's own time is over. Where
// that fails the claim ends by itself.
func (d *Desk) release(ctx context.Context, nonce string, c challenge, claimed uint64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_ = d.nonces.release(ctx, nonce, c, claimed)
}

// releaseTimeout bounds what a sign-in that failed goes on waiting for.
const releaseTimeout = 2 * time.Second

// spend makes sure that the nonce is gone for good before anybody gets a token.
func (d *Desk) spend(ctx context.Context, nonce string, claimed uint64) error {
	if err := d.nonces.spend(ctx, nonce, claimed); err != nil {
		return err
	}
	if d.cfg.NonceSync == nil {
		return nil
	}
	if err := d.cfg.NonceSync(ctx); err != nil {
		return fmt.Errorf("spend nonce: %w: %w", ErrUnavailable, err)
	}
	return nil
}

func refusedIfGone(err error) error {
	if errors.Is(err, errNoNonce) {
		return fmt.Errorf("%w: nonce is unknown or was used", ErrRefused)
	}
	return err
}

// check looks at everything about the answer without changing anything. It returns
// the challenge, and its revision.
func (d *Desk) check(ctx context.Context, nonce string, a Answer) (challenge, uint64, error) {
	if nonce == "" {
		return challenge{}, 0, fmt.Errorf("%w: message does not match the challenge", ErrRefused)
	}
	issued, revision, err := d.nonces.get(ctx, nonce)
	if err != nil {
		return challenge{}, 0, refusedIfGone(err)
	}
	return issued, revision, d.judge(issued, a)
}

// judge compares an answer with the challenge that it names.
func (d *Desk) judge(issued challenge, a Answer) error {
	if !d.cfg.Now().Before(issued.ExpiresAt.Time()) {
		return fmt.Errorf("%w: challenge expired", ErrRefused)
	}
	if issued.Owner != a.PublicKey || subtle.ConstantTimeCompare([]byte(issued.Message), []byte(a.Message)) != 1 {
		return fmt.Errorf("%w: message does not match the challenge", ErrRefused)
	}
	// The wallet showed its user where the session would be good.
	if issued.Audience != d.cfg.Issuer.Audience() {
		return fmt.Errorf("%w: the challenge is of another API", ErrRefused)
	}
	if !signed(a.PublicKey, []byte(a.Message), a.Signature) {
		return fmt.Errorf("%w: bad signature", ErrRefused)
	}
	return nil
}

func (d *Desk) prepareOwner(ctx context.Context, owner events.Owner) error {
	_, registered, err := d.cfg.Commands.UserID(ctx, owner)
	if err != nil || registered {
		return err
	}
	return d.cfg.DataKeys.EnsureDataKey(ctx, owner)
}

func (d *Desk) issue(ctx context.Context, owner events.Owner) (Session, error) {
	issued := events.At(d.cfg.Now())
	expires := d.cfg.Issuer.Expiry(issued)
	id := d.cfg.NewID()
	token, hash, err := d.cfg.Issuer.Issue(owner, id, issued, expires)
	if err != nil {
		return Session{}, fmt.Errorf("issue session: %w", err)
	}
	err = d.cfg.Commands.Execute(ctx, owner, &command.SignIn{
		UserID: d.cfg.NewID(), SessionID: id, Audience: d.cfg.Issuer.Audience(), TokenHash: hash, ExpiresAt: expires,
	})
	if err != nil {
		return Session{}, fmt.Errorf("record session: %w", err)
	}
	return Session{Token: token, ExpiresAt: expires, PublicKey: owner}, nil
}

// RandomTokens issues extension sessions: 32 random bytes in base64url, of
// which only the SHA-256 is kept.
type RandomTokens struct {
	TTL  time.Duration
	Rand io.Reader // nil means crypto/rand
}

// Issue implements Issuer.
func (r RandomTokens) Issue(events.Owner, string, events.Timestamp, events.Timestamp) (string, *events.Hash, error) {
	token, hash, err := NewToken(r.Rand, ExtensionTokenPrefix)
	return token, &hash, err
}

// Audience implements Issuer.
func (RandomTokens) Audience() events.Audience { return events.AudienceExtension }

// Expiry implements Issuer.
func (r RandomTokens) Expiry(issued events.Timestamp) events.Timestamp { return issued.Add(r.TTL) }

// NewToken makes a random credential: the prefix and 32 random bytes in
// base64url without padding. The hash is SHA-256 of the whole text.
func NewToken(random io.Reader, prefix string) (token string, hash events.Hash, err error) {
	if random == nil {
		random = rand.Reader
	}
	var raw [tokenBytes]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", events.Hash{}, fmt.Errorf("random token: %w", err)
	}
	token = prefix + base64.RawURLEncoding.EncodeToString(raw[:])
	return token, HashToken(token), nil
}

// tokenBytes is the length of a token's random part.
const tokenBytes = 32

// HasTokenForm reports whether NewToken could have made a text. One that it
// could not have made needs no look-up to be refused.
func HasTokenForm(text, prefix string) bool {
	encoded, ok := strings.CutPrefix(text, prefix)
	if !ok || len(encoded) != base64.RawURLEncoding.EncodedLen(tokenBytes) {
		return false
	}
	// The length once more: the decoder passes over line breaks.
	random, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	return err == nil && len(random) == tokenBytes
}

// HashToken is how a credential is looked up.
func HashToken(token string) events.Hash { return sha256.Sum256([]byte(token)) }
