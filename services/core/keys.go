package core

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/apikeys"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/door"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/signin"
)

const (
	// displayPrefix is how much of a key is kept for display: "svc_" and 8 of
	// its 43 random characters, 48 of 256 bits.
	displayPrefix = len(access.APIKeyPrefix) + 8
	maxLabel      = 200 // code points
)

// keyView is an API key without its secret.
type keyView struct {
	ID         string            `json:"id"`
	Prefix     string            `json:"prefix"`
	Label      string            `json:"label"`
	CreatedAt  events.Timestamp  `json:"createdAt"`
	LastUsedAt *events.Timestamp `json:"lastUsedAt"`
	RevokedAt  *events.Timestamp `json:"revokedAt"`
}

func (v keyView) appendJSON(to []byte) ([]byte, error) {
	text, err := json.Marshal(v)
	return append(to, text...), err
}

// createdKey is the one answer that holds the secret.
type createdKey struct {
	ID         string            `json:"id"`
	Key        string            `json:"key"`
	Prefix     string            `json:"prefix"`
	Label      string            `json:"label"`
	CreatedAt  events.Timestamp  `json:"createdAt"`
	LastUsedAt *events.Timestamp `json:"lastUsedAt"`
	RevokedAt  *events.Timestamp `json:"revokedAt"`
}

func (a *API) createKey(c *fiber.Ctx) error {
	caller, err := a.session(c)
	if err != nil {
		return err
	}
	var body struct {
		Label *string `json:"label"`
	}
	if err := door.Decode(c, &body); err != nil {
		return err
	}
	if body.Label == nil || strings.TrimSpace(*body.Label) == "" || utf8.RuneCountInString(*body.Label) > maxLabel {
		return door.BadRequest("label must be a string of 1 to 200 characters")
	}
	key, hash, err := signin.NewToken(nil, access.APIKeyPrefix)
	if err != nil {
		return err
	}
	create := &command.CreateKey{KeyID: a.NewID(), KeyHash: hash, Prefix: key[:displayPrefix], Label: *body.Label}
	if err := a.Commands.Execute(door.Context(c), caller.Owner, create); err != nil {
		return err
	}
	return c.Status(http.StatusCreated).JSON(createdKey{
		ID: create.KeyID, Key: key, Prefix: create.Prefix, Label: create.Label, CreatedAt: create.CreatedAt,
	})
}

func (a *API) listKeys(c *fiber.Ctx) error {
	if _, err := a.session(c); err != nil { // nobody else waits for the owners' uses
		return err
	}
	// What this process knows to be used, but has not recorded yet, is
	// recorded before the answer is made, which then has to have it.
	a.uses.flush(door.Context(c))
	caller, err := a.session(c)
	if err != nil {
		return err
	}
	keys := &keyList{query: a.Query, owner: caller.Owner}
	return door.StreamArray(c, keys, keyView.appendJSON, "", "")
}

// keyChunk is how many keys are read at a time: an owner's live ones are bounded, those
// that were revoked are not.
const keyChunk = 200

// keyList are an owner's keys, oldest first.
type keyList struct {
	query schema.Querier
	owner events.Owner
	after apikeys.Position
	done  bool
}

// More implements door.Elements.
func (l *keyList) More() bool { return !l.done }

// Next implements door.Elements. A chunk is short, so it is yielded whole.
func (l *keyList) Next(ctx context.Context, yield func(keyView) error) error {
	keys, err := apikeys.List(ctx, l.query, l.owner, l.after, keyChunk)
	if err != nil {
		return err
	}
	l.done = len(keys) < keyChunk
	for _, k := range keys {
		l.after = k.At
		err := yield(keyView{k.ID, k.Prefix, k.Label, k.CreatedAt, k.LastUsedAt, k.RevokedAt})
		if err != nil && !errors.Is(err, memory.ErrEnough) {
			return err
		}
	}
	return nil
}

func (a *API) revokeKey(c *fiber.Ctx) error {
	caller, err := a.session(c)
	if err != nil {
		return err
	}
	revoke := &command.RevokeKey{KeyID: door.Param(c, "id")}
	if err := a.Commands.Execute(door.Context(c), caller.Owner, revoke); err != nil {
		return err
	}
	return c.JSON(fiber.Map{"ok": true})
}

const (
	useInterval = time.Minute
	trackedKeys = 100_000
	pendingUses = 1024
	useTimeout  = 5 * time.Second
)

// keyUses records uses of keys by whatever stores no memory, beside the
// requests: at most one a key a minute is handed on, and a full queue drops
// rather than waits. What is dropped, or lost in a crash, is a use that lastUsedAt does not show.
type keyUses struct {
	commands *command.Executor
	now      func() time.Time
	recent   *lru.Cache[string, time.Time]
	queue    chan keyUse
}

// keyUse is a use to record, or, with done set, a mark that everything before
// it has been recorded.
type keyUse struct {
	caller access.Caller
	done   chan struct{}
}

func newKeyUses(commands *command.Executor, now func() time.Time) *keyUses {
	recent, err := lru.New[string, time.Time](trackedKeys)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &keyUses{commands: commands, now: now, recent: recent, queue: make(chan keyUse, pendingUses)}
}

// note remembers that a caller used a key.
func (u *keyUses) note(caller access.Caller) {
	if caller.Credential.Kind != command.CredentialKey {
		return
	}
	now := u.now()
	if last, ok := u.recent.Get(caller.Credential.ID); ok && now.Sub(last) < useInterval {
		return
	}
	select {
	case u.queue <- keyUse{caller: caller}:
		u.recent.Add(caller.Credential.ID, now)
	default:
	}
}

// run records until ctx ends.
func (u *keyUses) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case use := <-u.queue:
			if use.done != nil {
				close(use.done)
				continue
			}
			u.record(ctx, use.caller)
		}
	}
}

func (u *keyUses) record(ctx context.Context, caller access.Caller) {
	ctx, cancel := context.WithTimeout(ctx, useTimeout)
	defer cancel()
	if err := u.commands.Execute(ctx, caller.Owner, &command.UseKey{KeyID: caller.Credential.ID}); err != nil {
		u.recent.Remove(caller.Credential.ID) // the next use tries again
	}
}

// flush waits until what was noted before is recorded, or ctx ends.
func (u *keyUses) flush(ctx context.Context) {
	mark := keyUse{done: make(chan struct{})}
	select {
	case u.queue <- mark:
	case <-ctx.Done():
		return
	}
	select {
	case <-mark.done:
	case <-ctx.Done():
	}
}
