package memoryledger

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Event is a fact of the owner's history: a CloudEvent of the log, without its sealed and
// secret parts.
type Event struct {
	ID         string         `json:"id"`
	Source     string         `json:"source"` // the API
	Type       string         `json:"type"`
	Subject    string         `json:"subject"` // the owner
	Time       time.Time      `json:"time"`
	DataSchema string         `json:"dataschema"`
	Data       map[string]any `json:"data"`
	// Cursor resumes after this event. A page has one cursor. Its last event has this
	// cursor; the other events have the cursor of the previous page. Resuming there
	// returns the page again, and skips nothing.
	Cursor string `json:"-"`
}

type eventsPage struct {
	Events []Event `json:"events"`
	Cursor string  `json:"cursor"`
}

// Events reads the owner's history from a cursor to its present end. The empty cursor
// means the beginning. An error is the last pair.
func (c *Client) Events(ctx context.Context, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			page := eventsPage{}
			query := url.Values{"limit": {"1000"}}
			if after != "" {
				query.Set("after", after)
			}
			_, err := c.call(ctx, c.core(http.MethodGet, "/events?"+query.Encode()), &page)
			if err != nil {
				yield(Event{}, err)
				return
			}
			if len(page.Events) == 0 {
				return
			}
			if !c.yieldPage(page, &after, yield) {
				return
			}
		}
	}
}

// yieldPage yields the events of a page that follows a cursor, and advances the cursor.
func (c *Client) yieldPage(page eventsPage, after *string, yield func(Event, error) bool) bool {
	if c.verify && !rises(*after, page.Cursor) {
		yield(Event{}, serviceLies(ErrMalformed, "cursor", "%.20q comes after %q", page.Cursor, *after))
		return false
	}
	for i, e := range page.Events {
		if owner := c.Owner(); c.verify && owner != "" && e.Subject != owner {
			yield(Event{}, serviceLies(ErrWrongOwner, "subject", "it is %s, this client is of %s", e.Subject, owner))
			return false
		}
		e.Cursor = *after
		if i == len(page.Events)-1 {
			e.Cursor = page.Cursor
		}
		if !yield(e, nil) {
			return false
		}
	}
	*after = page.Cursor
	return true
}

// rises reports whether a cursor lies after another one. Otherwise the same page could come
// forever.
func rises(from, to string) bool {
	before, _ := strconv.ParseUint(from, 10, 64) // 0 for the empty cursor
	next, err := strconv.ParseUint(to, 10, 64)
	return err == nil && next > before
}

const (
	// idleEvents is three of the service's heartbeats.
	idleEvents = 45 * time.Second
	// maxEventLine is the longest line that is read from a stream: a page of 1 MiB, plus
	// the message that exceeds it.
	maxEventLine = 8 << 20
	longestPause = 30 * time.Second
)

// Follow yields events as they are stored, after a cursor, until ctx ends: each event
// once, in order. The empty cursor means now. After its first connection, Follow
// reconnects by itself, and resumes after the last event, until ctx ends or the service
// refuses. When ctx ends, the last pair has its error.
func (c *Client) Follow(ctx context.Context, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		first := cmp.Or(c.backoff, time.Second) // not 0: a service that is away would be asked all the time
		connected, pause := false, first
		for {
			got, err := c.follow(ctx, &after, yield)
			if got {
				connected, pause = true, first
			}
			switch lost := errors.Is(err, ErrConnection) || errors.Is(err, ErrTimeout) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRateLimited); {
			case err == nil:
				return // the caller stopped
			case !lost || !connected:
				yield(Event{}, err)
				return
			}
			if err := sleep(ctx, pause); err != nil {
				yield(Event{}, err)
				return
			}
			pause = min(2*pause, longestPause)
		}
	}
}

// follow yields the events of one stream. It reports whether any data arrived. The error
// is nil if the caller stopped.
func (c *Client) follow(ctx context.Context, after *string, yield func(Event, error) bool) (got bool, err error) {
	r := c.core(http.MethodGet, "/events")
	r.idle, r.header = idleEvents, http.Header{"Accept": {"text/event-stream"}}
	if *after != "" {
		r.header.Set("Last-Event-ID", *after)
	}
	response, err := c.open(ctx, r)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return false, serviceLies(ErrMalformed, "Content-Type", "it is %s", kind)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxEventLine)
	var id, data string
	for lines.Scan() {
		got = true
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "id":
			id = value
		case name == "data":
			data = value
		case lines.Text() == "" && data != "": // the message is complete
			page, err := eventsOf(data)
			if err != nil {
				return got, err
			}
			if !c.yieldPage(page, after, yield) {
				return got, nil
			}
			data = ""
		case lines.Text() == "" && id != "" && *after == "":
			*after = id // the start of the stream
		}
	}
	if err := lines.Err(); err != nil {
		return got, err
	}
	return got, fmt.Errorf("%w: %w", ErrConnection, io.EOF)
}

func eventsOf(data string) (page eventsPage, err error) {
	if err := json.Unmarshal([]byte(data), &page); err != nil || page.Cursor == "" || len(page.Events) == 0 {
		return page, serviceLies(ErrMalformed, "data", "it is not a page of events")
	}
	return page, nil
}
