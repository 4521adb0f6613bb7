package memoryledger

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Drop is a link with which others can write memories. The URL is the credential.
type Drop struct {
	ID              string    `json:"id"`
	URL             string    `json:"url"`
	ExpiresAt       time.Time `json:"expiresAt"`
	MaxWrites       int       `json:"maxWrites"`
	RemainingWrites int       `json:"remainingWrites"`
	RevokedPrevious int       `json:"revokedPreviousCount"`
}

// DropOptions of MintDrop. Zero means the service's default: one write, 15 minutes.
type DropOptions struct {
	Minutes   int `json:"expiresInMinutes,omitzero"` // 1 to 1,440
	MaxWrites int `json:"maxWrites,omitzero"`        // 1 to 5
	// Namespace gets what is written.
	Namespace string `json:"namespace,omitzero"`
}

// MintDrop makes a drop, and revokes the owner's previous one. Drops and cases belong to
// the extension API: they need WithExtensionURL and a session of that API, which SignIn
// makes.
func (c *Client) MintDrop(ctx context.Context, o DropOptions) (*Drop, error) {
	return extend[Drop](ctx, c, http.MethodPost, "/memory-drops", o)
}

// DropStatus is the state of a drop.
type DropStatus struct {
	WriteCount      int  `json:"writeCount"`
	RemainingWrites int  `json:"remainingWrites"`
	Revoked         bool `json:"revoked"`
	Expired         bool `json:"expired"`
}

// DropStatus returns the state of a drop.
func (c *Client) DropStatus(ctx context.Context, id string) (*DropStatus, error) {
	return extend[DropStatus](ctx, c, http.MethodGet, "/memory-drops/"+url.PathEscape(id)+"/status", nil)
}

// RevokeDrop ends a drop. It reports whether the drop was live.
func (c *Client) RevokeDrop(ctx context.Context, id string) (bool, error) {
	return c.revoke(ctx, "/memory-drops/"+url.PathEscape(id)+"/revoke")
}

// LeftMemory is a memory to write with a drop.
type LeftMemory struct {
	Content  string   `json:"content"`         // 1 to 10,000 characters
	Source   string   `json:"source,omitzero"` // at most 80 characters; becomes metadata.source
	Metadata Metadata `json:"metadata"`
	// OccurredAt is a date, or a date and time of RFC 3339.
	OccurredAt string   `json:"occurredAt,omitzero"`
	Tags       []string `json:"tags,omitempty"` // at most 16
}

// Left is the answer to Leave.
type Left struct {
	MemoryID  string    `json:"memoryId"`
	LeafHash  Hash      `json:"leafHash"`
	CreatedAt time.Time `json:"createdAt"`
}

// Leave writes a memory with a drop's URL. It needs no session. Like Write, it stores the
// memory once.
func (c *Client) Leave(ctx context.Context, dropURL string, m LeftMemory, options ...WriteOption) (*Left, error) {
	r := request{method: http.MethodPost, url: dropURL, body: m}.named(options)
	left := new(Left)
	_, err := c.call(ctx, r, left)
	return left, err
}

// Case is a link with which others can read all memories. The URL is the credential.
type Case struct {
	ID              string    `json:"id"`
	URL             string    `json:"url"`
	ExpiresAt       time.Time `json:"expiresAt"`
	MaxReads        int       `json:"maxReads"`
	RemainingReads  int       `json:"remainingReads"`
	RevokedPrevious int       `json:"revokedPreviousCount"`
}

// CaseOptions of MintCase. Zero means the service's default: one read, 15 minutes.
type CaseOptions struct {
	Minutes  int `json:"expiresInMinutes,omitzero"` // 1 to 1,440
	MaxReads int `json:"maxReads,omitzero"`         // 1 to 10
	// Namespace limits what is shown.
	Namespace string `json:"namespace,omitzero"`
}

// MintCase makes a case, and revokes the owner's previous one.
func (c *Client) MintCase(ctx context.Context, o CaseOptions) (*Case, error) {
	return extend[Case](ctx, c, http.MethodPost, "/agent-cases", o)
}

// CaseStatus is the state of a case.
type CaseStatus struct {
	ReadCount      int  `json:"readCount"`
	RemainingReads int  `json:"remainingReads"`
	Revoked        bool `json:"revoked"`
	Expired        bool `json:"expired"`
}

// CaseStatus returns the state of a case.
func (c *Client) CaseStatus(ctx context.Context, id string) (*CaseStatus, error) {
	return extend[CaseStatus](ctx, c, http.MethodGet, "/agent-cases/"+url.PathEscape(id)+"/status", nil)
}

// RevokeCase ends a case. It reports whether the case was live.
func (c *Client) RevokeCase(ctx context.Context, id string) (bool, error) {
	return c.revoke(ctx, "/agent-cases/"+url.PathEscape(id)+"/revoke")
}

// OpenCase reads a case by its URL, as markdown. It needs no session. Each call spends a
// read, so a lost answer is not requested again.
func (c *Client) OpenCase(ctx context.Context, caseURL string) (string, error) {
	var text string
	_, err := c.call(ctx, request{method: http.MethodGet, url: caseURL, once: true}, &text)
	return text, err
}

func (c *Client) revoke(ctx context.Context, path string) (bool, error) {
	done, err := extend[struct {
		Revoked bool `json:"revoked"`
	}](ctx, c, http.MethodPost, path, nil)
	if err != nil {
		return false, err
	}
	return done.Revoked, nil
}

// extend calls the extension API.
func extend[T any](ctx context.Context, c *Client, method, path string, body any) (*T, error) {
	r, err := c.extension(method, path, body)
	if err != nil {
		return nil, err
	}
	answer := new(T)
	_, err = c.call(ctx, r, answer)
	return answer, err
}
