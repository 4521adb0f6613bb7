package mcp

import (
	"context"
	"errors"
	"net/http"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/tracing"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/memory"
)

// problem is an error whose text is returned to the model unchanged.
type problem struct{ text string }

func (p *problem) Error() string { return p.text }

// next is the advice to a model for each HTTP status.
var next = map[int]string{
	http.StatusBadRequest:            "Fix the arguments and call again.",
	http.StatusRequestEntityTooLarge: "Shorten or split it and call again.",
	http.StatusUnauthorized:          "The API key or session was revoked or has expired. Ask the person for a new key, from the dashboard under Access; do not call again before.",
	http.StatusForbidden:             "Ask the person for a credential that may do this; do not call again before.",
	http.StatusNotFound:              "No memory of this person has that id. Use recall to find ids.",
	http.StatusConflict:              "Tell the person, and call again after that.",
	http.StatusGone:                  "It is gone for good. Do not call again for it.",
	http.StatusUnprocessableEntity:   "Use a new idempotencyKey, or the same memories as before.",
	http.StatusTooManyRequests:       "Call again after that.",
	http.StatusServiceUnavailable:    "Wait a few seconds and call again.",
}

// advise turns an error into a text for the model. The text says what is wrong, and what
// to do about it.
func (s *Server) advise(ctx context.Context, tool string, err error) error {
	if told, ok := errors.AsType[*problem](err); ok {
		return told
	}
	status, message := httpapi.Answer(err)
	if status == http.StatusInternalServerError {
		tracing.Log(ctx, s.Log).Error("tool failed", "tool", tool, "err", err)
	}
	switch advice, known := next[status]; {
	case errors.Is(err, eventlog.ErrUncertain):
		return &problem{message + ". If you gave an idempotencyKey, call again with the same one; otherwise use recall to see whether it is there."}
	case errors.Is(err, memory.ErrDamaged):
		return &problem{message + ". Tell the person; do not call again for it."}
	case known:
		return &problem{message + ". " + advice}
	default:
		return &problem{message + ". Tell the person that the service failed; the operator finds the reason in its log."}
	}
}
