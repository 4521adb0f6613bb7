package memoryledger

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// LiveSession is a session of either API. Its ID is not a credential.
type LiveSession struct {
	ID        string    `json:"id"`
	API       string    `json:"api"` // "core" or "extension"
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt"`
	Current   bool      `json:"current"` // the session of this request
}

// Sessions lists the owner's live sessions of both APIs, oldest first. Listing and ending
// sessions need a session.
func (c *Client) Sessions(ctx context.Context) ([]LiveSession, error) {
	var sessions []LiveSession
	_, err := c.call(ctx, c.core(http.MethodGet, "/auth/sessions"), &sessions)
	return sessions, err
}

// EndSession ends a session. The service refuses it from the next request on.
func (c *Client) EndSession(ctx context.Context, id string) error {
	_, err := c.call(ctx, c.core(http.MethodDelete, "/auth/sessions/"+url.PathEscape(id)), nil)
	return err
}

// EndOtherSessions ends all sessions except the current one, and returns how many it
// ended.
func (c *Client) EndOtherSessions(ctx context.Context) (ended int, err error) {
	var done struct {
		Ended int `json:"ended"`
	}
	_, err = c.call(ctx, c.core(http.MethodDelete, "/auth/sessions"), &done)
	return done.Ended, err
}
