package memoryledger

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// LiveSession is a session of either API. Its id opens nothing.
type LiveSession struct {
	ID        string    `json:"id"`
	API       string    `json:"api"` // "core" or "extension"
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt"`
	Current   bool      `json:"current"` // the one that asks
}

// Sessions lists the owner's live sessions of both APIs, oldest first. It needs a session,
// as to end them does.
func (c *Client) Sessions(ctx context.Context) ([]LiveSession, error) {
	var sessions []LiveSession
	_, err := c.call(ctx, c.core(http.MethodGet, "/auth/sessions"), &sessions)
	return sessions, err
}

// EndSession ends a session. It is dead on the next request.
func (c *Client) EndSession(ctx context.Context, id string) error {
	_, err := c.call(ctx, c.core(http.MethodDelete, "/auth/sessions/"+url.PathEscape(id)), nil)
	return err
}

// EndOtherSessions ends all sessions but the one that asks, and returns how many.
func (c *Client) EndOtherSessions(ctx context.Context) (ended int, err error) {
	var done struct {
		Ended int `json:"ended"`
	}
	_, err = c.call(ctx, c.core(http.MethodDelete, "/auth/sessions"), &done)
	return done.Ended, err
}
