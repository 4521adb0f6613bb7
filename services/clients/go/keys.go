package memoryledger

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Scope is a permission of an API key.
type Scope string

// Scopes. ScopeRead allows listing, getting, searching, proving, exporting and following.
// ScopeWrite allows storing. ScopeRetract allows retracting memories.
const (
	ScopeRead    Scope = "read"
	ScopeWrite   Scope = "write"
	ScopeRetract Scope = "retract"
)

// Key is one of the owner's API keys.
type Key struct {
	ID         string     `json:"id"`
	Prefix     string     `json:"prefix"`
	Label      string     `json:"label"`
	Scopes     []Scope    `json:"scopes"`
	Namespaces []string   `json:"namespaces"` // nil: all
	App        *App       `json:"app"`        // nil for a key that was made by hand
	CreatedAt  time.Time  `json:"createdAt"`
	ExpiresAt  *time.Time `json:"expiresAt"`  // nil: valid until it is revoked
	LastUsedAt *time.Time `json:"lastUsedAt"` // accurate to about a minute; nil before its first use
	RevokedAt  *time.Time `json:"revokedAt"`  // nil until it is revoked
}

// App is a program that its user connected by OAuth.
type App struct {
	Name         string `json:"name"`         // what it calls itself; not checked
	RedirectHost string `json:"redirectHost"` // where its authorization code was sent
}

// CreatedKey is a new API key with its secret.
type CreatedKey struct {
	Key
	Secret string `json:"key"`
}

// NewKey describes an API key to make.
type NewKey struct {
	Label     string    `json:"label"`              // 1 to 200 characters
	Scopes    []Scope   `json:"scopes,omitempty"`   // nil: ScopeRead and ScopeWrite
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // zero: valid until it is revoked
	// Namespaces limits what the key reads and writes, to at most 16. Nil: all.
	Namespaces []string `json:"namespaces,omitempty"`
}

// CreateKey makes an API key. Only this answer shows the Secret. The request is not
// repeated after a lost answer, because that could make two keys. Making keys needs a
// session. A call that needs another scope than the key has fails with ErrForbidden;
// checks need ScopeRead.
func (c *Client) CreateKey(ctx context.Context, key NewKey) (*CreatedKey, error) {
	r := c.core(http.MethodPost, "/keys")
	r.body, r.once = key, true
	created := new(CreatedKey)
	_, err := c.call(ctx, r, created)
	return created, err
}

// Keys lists all API keys, including revoked ones.
func (c *Client) Keys(ctx context.Context) ([]Key, error) {
	var keys []Key
	_, err := c.call(ctx, c.core(http.MethodGet, "/keys"), &keys)
	return keys, err
}

// RevokeKey revokes an API key. The service refuses it from the next request on.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	_, err := c.call(ctx, c.core(http.MethodDelete, "/keys/"+url.PathEscape(id)), nil)
	return err
}
