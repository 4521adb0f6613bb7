package memoryledger

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Key is an API key of the owner's.
type Key struct {
	ID         string     `json:"id"`
	Prefix     string     `json:"prefix"`
	Label      string     `json:"label"`
	CreatedAt  time.Time  `json:"createdAt"`
	LastUsedAt *time.Time `json:"lastUsedAt"` // to about a minute; nil before its first use
	RevokedAt  *time.Time `json:"revokedAt"`  // nil while it is live
}

// CreatedKey has the key itself.
type CreatedKey struct {
	Key
	Secret string `json:"key"`
}

// CreateKey makes an API key. Only this answer shows the Secret. It is not repeated after a
// lost answer, because that could make two. Keys need a session.
func (c *Client) CreateKey(ctx context.Context, label string) (*CreatedKey, error) {
	r := c.core(http.MethodPost, "/keys")
	r.body, r.once = map[string]string{"label": label}, true
	key := new(CreatedKey)
	_, err := c.call(ctx, r, key)
	return key, err
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
