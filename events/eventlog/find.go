package eventlog

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// next returns the first message from a sequence on.
func (l *JetStream) next(ctx context.Context, seq uint64, filter string) (Record, bool, error) {
	return l.find(ctx, getRequest{Seq: seq, NextBySubject: filter}, func() (bool, error) {
		newest, _, err := l.newest(ctx, filter)
		return newest.Seq >= seq, err
	})
}

// newest returns the last message.
func (l *JetStream) newest(ctx context.Context, filter string) (Record, bool, error) {
	return l.find(ctx, getRequest{LastBySubject: filter}, func() (bool, error) { return l.holds(ctx, filter) })
}

// find is get that does not believe at once that there is nothing. A server says
// so as well where it could not read what is there: its disk fails, or it may open
// no more files. is asks in another way, and what came between the two questions is
// found by the third.
func (l *JetStream) find(ctx context.Context, request getRequest, is func() (bool, error)) (Record, bool, error) {
	for range 2 {
		record, found, err := l.get(ctx, request)
		if err != nil || found {
			return record, found, err
		}
		if there, err := is(); err != nil || !there {
			return Record{}, false, err
		}
	}
	l.damage.set(fmt.Errorf("%w: its server does not find a message that it has: %s", ErrDamaged, cure), request)
	return Record{}, false, fmt.Errorf("%w: the server does not find a message that it has", ErrUnavailable)
}

// everySubject is the filter that all messages pass.
const everySubject = ">"

// holds reports whether the log has any message of a filter.
func (l *JetStream) holds(ctx context.Context, filter string) (bool, error) {
	state, err := l.state(ctx, filter)
	if err != nil {
		return false, err
	}
	return state.Msgs > 0 && (filter == everySubject || len(state.Subjects) > 0), nil
}

// state asks for the stream's state, which the server has in memory, and for the
// subjects of a filter.
func (l *JetStream) state(ctx context.Context, filter string) (*jetstream.StreamState, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	var request struct {
		Filter string `json:"subjects_filter,omitempty"`
	}
	if filter != everySubject { // or each subject would be named
		request.Filter = filter
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	reply, err := l.nc.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+StreamName, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var answer struct {
		State *jetstream.StreamState `json:"state"`
		Error *jetstream.APIError    `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	switch {
	case answer.Error != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, answer.Error)
	case answer.State == nil:
		return nil, fmt.Errorf("%w: answer without the stream's state", ErrUnavailable)
	}
	return answer.State, nil
}
