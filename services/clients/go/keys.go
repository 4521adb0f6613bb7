package memoryledger

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Scope is something that an API key may do.
type Scope string

// Scopes. To read is to list, get, search, prove, export and follow. To write is to store.
// To retract is to take memories back.
const (
	ScopeRead    Scope = "read"
	ScopeWrite   Scope = "write"
	ScopeRetract Scope = "retract"
)

// Key is an API key of the owner's.
type Key struct {
	ID         string     `json:"id"`
	Prefix     string     `json:"prefix"`
	Label      string     `json:"label"`
	Scopes     []Scope    `json:"scopes"`
	CreatedAt  time.Time  `json:"createdAt"`
	ExpiresAt  *time.Time `json:"expiresAt"`  // nil: it lives until it is revoked
	LastUsedAt *time.Time `json:"lastUsedAt"` // to about a minute; nil before its first use
	RevokedAt  *time.Time `json:"revokedAt"`  // nil while it is live
}

// CreatedKey has the key itself.
type CreatedKey struct {
	Key
	Secret string `json:"key"`
}

// NewKey is an API key to be made.
type NewKey struct {
	Label     string    `json:"label"`              // 1 to 200 characters
	Scopes    []Scope   `json:"scopes,omitempty"`   // nil: ScopeRead and ScopeWrite
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // zero: it lives until it is revoked
}

// CreateKey makes an API key. Only this answer shows the Secret. It is not repeated after a
// lost answer, because that could make two. Keys need a session. What a key has no scope for
// is ErrForbidden; checks need ScopeRead.
func (c *Client) CreateKey(ctx context.Context, key NewKey) (*CreatedKey, error) {
	r := c.core(http.MethodPost, "/keys")
	r.body, r.once = key, true
	created := new(CreatedKey)
	_, err := c.call(ctx, r, created)
	return created, err
}

// Keys lists all API keys, revoked ones too.
func (c *Client) Keys(ctx context.Context) ([]Key, error) {
	var keys []Key
	_, err := c.call(ctx, c.core(http.MethodGet, "/keys"), &keys)
	return keys, err
}

// RevokeKey revokes an API key. It is dead on the next request.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	_, err := c.call(ctx, c.core(http.MethodDelete, "/keys/"+url.PathEscape(id)), nil)
	return err
}
