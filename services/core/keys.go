package core

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/rfc3339"
	"github.com/memory-ledger/ledger/projections/readmodel/apikeys"
	"github.com/memory-ledger/ledger/projections/readmodel/sessions"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/quota"
	"github.com/memory-ledger/ledger/services/signin"
)

// keyView is an API key. Only the answer to its creation holds the secret, Key.
type keyView struct {
	ID         string            `json:"id"`
	Key        string            `json:"key,omitzero"`
	Prefix     string            `json:"prefix"`
	Label      string            `json:"label"`
	Scopes     []events.Scope    `json:"scopes"`
	Namespaces *[]string         `json:"namespaces"` // null for no limit
	App        *events.App       `json:"app"`        // null for a key that was made by hand
	CreatedAt  events.Timestamp  `json:"createdAt"`
	CreatedBy  *events.Via       `json:"createdBy"` // null if the event does not say
	ExpiresAt  *events.Timestamp `json:"expiresAt"`
	LastUsedAt *events.Timestamp `json:"lastUsedAt"`
	RevokedAt  *events.Timestamp `json:"revokedAt"`
}

// orNull returns what JSON shows as null if a list is nil. A nil slice would be shown as [].
func orNull(list []string) *[]string {
	if list == nil {
		return nil
	}
	return &list
}

func (a *API) createKey(c *fiber.Ctx, caller access.Caller) error {
	var body struct {
		Label      *string   `json:"label"`
		Scopes     *[]string `json:"scopes"`
		Namespaces *[]string `json:"namespaces"`
		ExpiresAt  *string   `json:"expiresAt"`
	}
	if err := httpapi.Decode(c, &body); err != nil {
		return err
	}
	if body.Label == nil || strings.TrimSpace(*body.Label) == "" || utf8.RuneCountInString(*body.Label) > 200 {
		return httpapi.BadRequest("label must be a string of 1 to 200 characters")
	}
	scopes, err := scopesOf(body.Scopes)
	if err != nil {
		return err
	}
	var namespaces []string
	if body.Namespaces != nil {
		if namespaces, err = memory.Namespaces(*body.Namespaces); err != nil {
			return err
		}
	}
	expires, err := a.expiryOf(body.ExpiresAt)
	if err != nil {
		return err
	}
	if err := a.Quotas.Take(quota.Keys, caller.Owner, 1); err != nil {
		return err
	}
	key, hash := signin.NewToken(access.APIKeyPrefix)
	// Stored for display are "svc_" and 8 of its 43 random characters, 48 of 256 bits.
	create := &command.CreateKey{
		KeyID: a.NewID(), KeyHash: hash, Prefix: key[:len(access.APIKeyPrefix)+8], Label: *body.Label, Scopes: scopes, ExpiresAt: expires, Namespaces: namespaces, Credential: caller.Credential,
	}
	if err := a.Commands.Execute(httpapi.Context(c), caller.Owner, create); err != nil {
		return err
	}
	return c.Status(http.StatusCreated).JSON(keyView{
		ID: create.KeyID, Key: key, Prefix: create.Prefix, Label: create.Label,
		Scopes: scopes, Namespaces: orNull(namespaces), CreatedAt: create.CreatedAt, CreatedBy: new(caller.Credential.Via()), ExpiresAt: expires,
	})
}

var errScopes = httpapi.BadRequest(`scopes must be an array of at least one of "read", "write", "retract" and "share"`)

// scopesOf returns the scopes for a new key, in the order of events.AllScopes.
func scopesOf(asked *[]string) ([]events.Scope, error) {
	if asked == nil {
		return []events.Scope{events.ScopeRead, events.ScopeWrite}, nil
	}
	for _, name := range *asked {
		if !slices.Contains(events.AllScopes, events.Scope(name)) {
			return nil, errScopes
		}
	}
	scopes := slices.DeleteFunc(slices.Clone(events.AllScopes), func(s events.Scope) bool { return !slices.Contains(*asked, string(s)) })
	if len(scopes) == 0 {
		return nil, errScopes
	}
	return scopes, nil
}

// expiryOf returns the expiry of a new key, nil for never.
func (a *API) expiryOf(text *string) (*events.Timestamp, error) {
	if text == nil {
		return nil, nil
	}
	at, ok := rfc3339.Time(*text)
	expires := events.At(at)
	if !ok || !a.Now().Before(expires.Time()) {
		return nil, httpapi.BadRequest("expiresAt must be a date and time in the future, as RFC 3339 has it")
	}
	return &expires, nil
}

func (a *API) listKeys(c *fiber.Ctx, caller access.Caller) error {
	// Wait until the uses that this process has noted are recorded. Authenticating again
	// then makes sure that the answer shows them. If the owner's commands take long, it does
	// not show them.
	ctx, cancel := context.WithTimeout(httpapi.Context(c), time.Second)
	defer cancel()
	a.recordUses(ctx, caller.Owner)
	if _, err := a.Access.Read(httpapi.Context(c), httpapi.Authorization(c)); err != nil {
		return err
	}
	return httpapi.StreamArray(c, &keyList{query: a.Query, owner: caller.Owner}, nil, "", "")
}

// keyList yields an owner's keys, oldest first.
type keyList struct {
	query schema.Querier
	owner events.Owner
	after apikeys.Position
	done  bool
}

func (l *keyList) More() bool { return !l.done }

// Next implements httpapi.Elements. A chunk is short, so Next always yields all of it.
func (l *keyList) Next(ctx context.Context, yield func(keyView) error) error {
	const chunk = 200 // live keys of an owner are bounded; revoked keys are not
	keys, err := apikeys.List(ctx, l.query, l.owner, l.after, chunk)
	if err != nil {
		return err
	}
	l.done = len(keys) < chunk
	for _, k := range keys {
		l.after = k.At
		err := yield(keyView{
			ID: k.ID, Prefix: k.Prefix, Label: k.Label, Scopes: k.Scopes, Namespaces: orNull(k.Namespaces), App: k.App,
			CreatedAt: k.CreatedAt, CreatedBy: k.CreatedBy, ExpiresAt: k.ExpiresAt, LastUsedAt: k.LastUsedAt, RevokedAt: k.RevokedAt,
		})
		if err != nil && !errors.Is(err, memory.ErrEnough) {
			return err
		}
	}
	return nil
}

func (a *API) revokeKey(c *fiber.Ctx, caller access.Caller) error {
	ctx, id := httpapi.Context(c), httpapi.Param(c, "id")
	err := a.Commands.Execute(ctx, caller.Owner, &command.RevokeKey{KeyID: id, Credential: caller.Credential})
	if errors.Is(err, command.ErrKeyUnknown) {
		// The key is not live. If it was revoked earlier, answer as that revocation did.
		if _, known, lookup := apikeys.ByID(ctx, a.Query, caller.Owner, id); known || lookup != nil {
			err = lookup
		}
	}
	return httpapi.Done(c, err)
}

// keyUses are the API keys that were used by requests that store no memory. Each stays for
// a minute after its use was recorded: in that time, further uses of the key cost nothing. A
// crash loses those that are not recorded; the key's next use shows again.
type keyUses struct {
	mu   sync.Mutex
	uses map[keyUse]time.Time // when each was recorded; zero for those that are not yet
}

type keyUse struct {
	owner events.Owner
	keyID string
}

func (u *keyUses) note(caller access.Caller) {
	if caller.Credential.Kind != command.CredentialKey {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.uses == nil {
		u.uses = map[keyUse]time.Time{}
	}
	use := keyUse{caller.Owner, caller.Credential.ID}
	if _, again := u.uses[use]; !again && len(u.uses) < 200_000 { // the use of a further key is forgotten
		u.uses[use] = time.Time{}
	}
}

// Run records the uses of API keys until ctx ends, so soon that an owner who connects a
// program sees it in the list of keys.
func (a *API) Run(ctx context.Context) {
	for eventlog.Pause(ctx, 5*time.Second) {
		a.recordUses(ctx, "")
	}
}

// recordUses records the uses of an owner's keys; "" for all owners. A use is not appended
// if the key's last one is less than a minute old. After a failure, it is tried again the
// next time.
func (a *API) recordUses(ctx context.Context, owner events.Owner) {
	for _, use := range a.uses.unrecorded(owner) {
		if a.Commands.Execute(ctx, use.owner, &command.UseKey{KeyID: use.keyID}) == nil {
			a.uses.recorded(use)
		}
	}
}

func (u *keyUses) recorded(use keyUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.uses[use] = time.Now()
}

func (u *keyUses) unrecorded(owner events.Owner) (uses []keyUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for use, at := range u.uses {
		switch {
		case !at.IsZero() && time.Since(at) >= time.Minute:
			delete(u.uses, use)
		case at.IsZero() && (owner == "" || use.owner == owner):
			uses = append(uses, use)
		}
	}
	return uses
}

// sessionView is a session without its token. The id is not a credential.
type sessionView struct {
	ID        string           `json:"id"`
	API       events.Audience  `json:"api"`
	CreatedAt events.Timestamp `json:"createdAt"`
	ExpiresAt events.Timestamp `json:"expiresAt"`
	Current   bool             `json:"current"` // this session sent the request
}

// listSessions answers with the owner's live sessions of both APIs, oldest first. An
// owner has at most command.MaxSessions sessions of each API.
func (a *API) listSessions(c *fiber.Ctx, caller access.Caller) error {
	live, err := sessions.Active(httpapi.Context(c), a.Query, caller.Owner, a.Now())
	if err != nil {
		return err
	}
	views := make([]sessionView, len(live))
	for i, s := range live {
		views[i] = sessionView{s.ID, s.Audience, s.IssuedAt, s.ExpiresAt, s.ID == caller.Credential.ID}
	}
	return c.JSON(views)
}

func (a *API) endSession(c *fiber.Ctx, caller access.Caller) error {
	ctx, id := httpapi.Context(c), httpapi.Param(c, "id")
	err := a.Commands.Execute(ctx, caller.Owner, &command.EndSession{SessionID: id, Credential: caller.Credential})
	if errors.Is(err, command.ErrSessionUnknown) {
		// The session is not live. If it ended earlier, answer as if it ended now.
		if _, known, lookup := sessions.ByID(ctx, a.Query, caller.Owner, id); known || lookup != nil {
			err = lookup
		}
	}
	return httpapi.Done(c, err)
}

// endOtherSessions ends all of the owner's sessions except the session of the request.
func (a *API) endOtherSessions(c *fiber.Ctx, caller access.Caller) error {
	end := &command.EndAccess{Kind: events.KindSession, Except: caller.Credential.ID, Credential: caller.Credential}
	err := a.Commands.Execute(httpapi.Context(c), caller.Owner, end)
	return httpapi.Answered(c, fiber.Map{"ok": true, "ended": end.Ended}, err)
}
