package eventlog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
)

// Head implements Reader. It gets the newest message of all: nothing is ever deleted,
// and getting a message is cheaper for the server than describing the stream.
func (l *JetStream) Head(ctx context.Context) (uint64, error) {
	record, _, err := l.newest(ctx, everySubject)
	if err != nil {
		return 0, fmt.Errorf("log head: %w", err)
	}
	return record.Seq, nil
}

// Lag implements HeadReader.
func (l *JetStream) Lag() time.Duration {
	if l.askLeader() {
		// This is how long the stream's leader may lack a message that another replica has
		// already delivered. Each replica stores a message when it learns that a majority has
		// the message, at its own pace. The leader acknowledges a message once it has stored
		// the message itself.
		return 2 * time.Second
	}
	return 0
}

// HeadHolding returns the log's head. seq is a sequence that was read from the log. If the
// head is less than seq, HeadHolding asks again while the log may lag, because a replica may
// be ahead of the leader. A log that still ends before seq has lost the message at seq.
func HeadHolding(ctx context.Context, log HeadReader, seq uint64) (uint64, error) {
	for begun := time.Now(); ; {
		is, err := log.Head(ctx)
		if err != nil || is >= seq || time.Since(begun) >= log.Lag() || !Pause(ctx, 2*time.Millisecond) {
			return is, err
		}
	}
}

func (l *JetStream) OwnerHead(ctx context.Context, f events.Family, o events.Owner) (uint64, error) {
	record, _, err := l.newest(ctx, events.OwnerFilter(f, o))
	if err != nil {
		return 0, fmt.Errorf("owner head: %w", err)
	}
	return record.Seq, nil
}

func (l *JetStream) OwnerNewest(ctx context.Context, f events.Family, o events.Owner, kind events.SubjectKind) (Record, bool, error) {
	filter := events.OwnerFilter(f, o)
	if kind != "" {
		filter = events.Subject{Family: f, Owner: o, Kind: kind}.String()
	}
	record, found, err := l.newest(ctx, filter)
	if err != nil {
		return Record{}, false, fmt.Errorf("owner's newest message: %w", err)
	}
	return record, found, nil
}

func (l *JetStream) At(ctx context.Context, seq uint64) (Record, bool, error) {
	record, found, err := l.find(ctx, getRequest{Seq: seq}, l.reaches(seq))
	if err != nil {
		return Record{}, false, fmt.Errorf("message at sequence %d: %w", seq, err)
	}
	return record, found, nil
}

// reaches returns a function that reports whether the log has the message at seq.
func (l *JetStream) reaches(seq uint64) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		head, err := l.Head(ctx)
		return head >= seq, err
	}
}

// getRequest is the body of a JetStream message get.
type getRequest struct {
	Seq           uint64 `json:"seq,omitempty"`
	LastBySubject string `json:"last_by_subj,omitempty"`
	NextBySubject string `json:"next_by_subj,omitempty"`
	old           bool   // what was the newest message a moment ago will do
}

// get reads one message. If there is none, found is false.
//
// A leader's answer is checked (see lease) only if a newer log could answer otherwise: each
// replica has the beginning of the same log, so a message that is at a sequence, or is the
// first from there on, stays that.
func (l *JetStream) get(ctx context.Context, request getRequest) (record Record, found bool, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return Record{}, false, err
	}
	subject, decode := "$JS.API.DIRECT.GET."+StreamName, decodeDirect
	leader := l.askLeader()
	if leader {
		subject, decode = "$JS.API.STREAM.MSG.GET."+StreamName, decodeStored
	}
	for heard := !leader || request.old; ; heard = true {
		reply, err := l.request(ctx, subject, body)
		if err != nil {
			return Record{}, false, err
		}
		record, found, err := decode(reply)
		current := heard || found && request.LastBySubject == ""
		if err == nil && !current {
			current, err = l.lease.check(ctx)
		}
		l.heard(err)
		if err == nil && !current {
			_, err = l.lease.hear.Get(ctx)
		}
		if err != nil || current {
			return record, found, err
		}
	}
}

// askLeader reports whether a read must go to the stream's leader. On a stream with
// replicas, any replica answers a direct get, even one that is behind, and a read that
// misses an acknowledged append would break the fence. A stream can get replicas at any
// time, but only on a cluster. So on a cluster the leader is asked even while it is the
// only replica. While the connection is down it knows of no cluster, but keeps requests
// for the next server; so clustered counts too.
func (l *JetStream) askLeader() bool { return l.clustered || l.nc.ConnectedClusterName() != "" }

// decodeDirect reads the answer of a direct get: the message itself, with its place in
// the stream in the headers.
func decodeDirect(reply *nats.Msg) (Record, bool, error) {
	switch status := reply.Header.Get("Status"); status {
	case "":
	case "404":
		return Record{}, false, nil
	default:
		return Record{}, false, fmt.Errorf("%w: direct get answered %s %s", ErrUnavailable, status, reply.Header.Get("Description"))
	}
	seq, err := strconv.ParseUint(reply.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return Record{}, false, fmt.Errorf("%w: direct get without a sequence", ErrUnavailable)
	}
	stored, err := time.Parse(time.RFC3339Nano, reply.Header.Get(jetstream.TimeStampHeaer))
	if err != nil {
		return Record{}, false, fmt.Errorf("%w: direct get without a time", ErrUnavailable)
	}
	return Record{
		Seq: seq, Time: stored, Payload: reply.Data,
		Subject:   reply.Header.Get(jetstream.SubjectHeader),
		CommandID: reply.Header.Get(jetstream.MsgIDHeader), previous: previousOf(reply.Header),
	}, true, nil
}

// decodeStored reads the leader's answer, which wraps the message in JSON.
func decodeStored(reply *nats.Msg) (Record, bool, error) {
	var answer struct {
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return Record{}, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if answer.Error != nil {
		if answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
			return Record{}, false, nil
		}
		return Record{}, false, fmt.Errorf("%w: %w", ErrUnavailable, answer.Error)
	}
	if answer.Message == nil {
		return Record{}, false, fmt.Errorf("%w: answer without a message", ErrUnavailable)
	}
	var header nats.Header
	if len(answer.Message.Header) > 0 { // other writers may send no headers
		var err error
		if header, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
			return Record{}, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	return Record{
		Seq: answer.Message.Seq, Subject: answer.Message.Subject, Time: answer.Message.Time,
		Payload: answer.Message.Data, CommandID: header.Get(jetstream.MsgIDHeader), previous: previousOf(header),
	}, true, nil
}

// next returns the first message of a filter from a sequence on.
func (l *JetStream) next(ctx context.Context, seq uint64, filter string) (Record, bool, error) {
	return l.find(ctx, getRequest{Seq: seq, NextBySubject: filter}, func(ctx context.Context) (bool, error) {
		newest, _, err := l.newest(ctx, filter)
		return newest.Seq >= seq, err
	})
}

// newest returns the last message of a filter.
func (l *JetStream) newest(ctx context.Context, filter string) (Record, bool, error) {
	return l.last(ctx, filter, false)
}

// last is newest, of a log that may be old.
func (l *JetStream) last(ctx context.Context, filter string, old bool) (Record, bool, error) {
	return l.find(ctx, getRequest{LastBySubject: filter, old: old}, func(ctx context.Context) (bool, error) { return l.holds(ctx, filter) })
}

// find is look, and remembers a message that can't be read; see Damaged.
func (l *JetStream) find(ctx context.Context, request getRequest, is func(context.Context) (bool, error)) (Record, bool, error) {
	record, found, err := l.look(ctx, request, is)
	if errors.Is(err, errUnread) {
		l.damage.Store(&damage{fmt.Errorf("%w: its server does not find a message that it has: %s", ErrDamaged, cure), func(ctx context.Context) error {
			_, _, err := l.look(ctx, request, is)
			return err
		}})
	}
	return record, found, err
}

var errUnread = fmt.Errorf("%w: the server does not find a message that it has", ErrUnavailable)

// look is get, but it does not trust the first answer that there is no message. A server
// gives that answer also if it could not read the message: its disk fails, or it can open
// no more files. So look asks in another way, by calling is. If a message arrived between
// these two questions, the next get finds it.
func (l *JetStream) look(ctx context.Context, request getRequest, is func(context.Context) (bool, error)) (Record, bool, error) {
	for range 2 {
		record, found, err := l.get(ctx, request)
		if err != nil || found {
			return record, found, err
		}
		if there, err := is(ctx); err != nil || !there {
			return Record{}, false, err
		}
	}
	return Record{}, false, errUnread
}

// everySubject is the filter that all messages pass.
const everySubject = ">"

// holds reports whether the log has any message of a filter.
func (l *JetStream) holds(ctx context.Context, filter string) (bool, error) {
	info, err := l.info(ctx, filter)
	if err != nil {
		return false, err
	}
	return info.State.Msgs > 0 && (filter == everySubject || len(info.State.Subjects) > 0), nil
}

// info asks for the stream's state, which the server has in memory, and for the subjects of
// a filter.
func (l *JetStream) info(ctx context.Context, filter string) (*jetstream.StreamInfo, error) {
	var request struct {
		Filter string `json:"subjects_filter,omitempty"`
	}
	if filter != everySubject { // else the answer would list each subject
		request.Filter = filter
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	reply, err := l.request(ctx, "$JS.API.STREAM.INFO."+StreamName, body)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
		*jetstream.StreamInfo
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	switch {
	case answer.Error != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, answer.Error)
	case answer.StreamInfo == nil:
		return nil, fmt.Errorf("%w: answer without the stream's state", ErrUnavailable)
	}
	return answer.StreamInfo, nil
}

// OwnerTail implements Reader. Only the leader is trusted to say where the tail ends.
//
// An owner's messages form a linked list: each names the message that was the owner's
// newest when it was appended, and the server has checked that. So a tail of one message
// takes one question. A tail that starts far back is read along the list, from the newest
// message back. This costs the server a look into one block for each message. To read
// forward, a server whose log has more than 65,536 subjects searches all blocks from after
// on, 8 MB each, with the stream locked. For an owner who was away that is most of the log,
// and no owner can write meanwhile.
func (l *JetStream) OwnerTail(ctx context.Context, f events.Family, o events.Owner, after uint64, yield func(Record) error) error {
	return l.ownerTail(ctx, f, o, after, false, yield)
}

// ownerTail is OwnerTail, of a log that may be old.
func (l *JetStream) ownerTail(ctx context.Context, f events.Family, o events.Owner, after uint64, old bool, yield func(Record) error) error {
	end, found, err := l.last(ctx, events.OwnerFilter(f, o), old)
	if err != nil {
		return fmt.Errorf("owner tail: %w", err)
	}
	if !found || end.Seq <= after {
		return nil
	}
	tail, err := l.back(ctx, f, o, after, end)
	if errors.Is(err, errForward) {
		return l.forward(ctx, events.OwnerFilter(f, o), after, end.Seq, yield)
	}
	if err != nil {
		return fmt.Errorf("owner tail: %w", err)
	}
	for _, record := range tail {
		if err := yield(record); err != nil {
			return err
		}
	}
	return nil
}

// errForward: the tail is long, or it is not a list because another program wrote to the
// log.
var errForward = errors.New("the tail is to be read from its beginning")

const (
	// mostBack is how many messages are read one by one, as a list.
	mostBack = 32
	// mostBytesBack is how many bytes of them are, and of messages read forward at once: the
	// caller may need only the first.
	mostBytesBack = 256 << 10
)

// back returns the owner's messages after a sequence, up to end, in order. If there are
// more than mostBack, or they are long, the error is errForward: reading them one by one
// would take longer.
func (l *JetStream) back(ctx context.Context, f events.Family, o events.Owner, after uint64, end Record) (tail []Record, err error) {
	last, err := events.ParseSubject(end.Subject)
	if err != nil {
		return nil, errForward
	}
	families := []events.Family{f}
	if f == events.FamilyAny {
		families = []events.Family{events.FamilyLedger, events.FamilyChain}
	}
	bytes := 0
	for _, family := range families {
		record, found := end, true
		if family != last.Family {
			if record, found, err = l.newest(ctx, events.OwnerFilter(family, o)); err != nil {
				return nil, err
			}
		}
		for found && record.Seq > after {
			if record.Seq <= end.Seq { // else other messages may lie between end and this one
				tail = append(tail, record)
				bytes += len(record.Payload)
			}
			at, known := record.previous.in(family, o)
			if !known || at >= record.Seq || at > after && (len(tail) >= mostBack || bytes >= mostBytesBack) {
				return nil, errForward
			}
			if at <= after {
				break
			}
			if record, found, err = l.At(ctx, at); err != nil {
				return nil, err
			}
			if of, err := events.ParseSubject(record.Subject); err != nil || of.Family != family || of.Owner != o {
				return nil, errForward
			}
		}
	}
	slices.SortFunc(tail, func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return tail, nil
}

// forward yields the messages of a filter after one sequence, up to another that the leader
// has. Any replica may deliver them, because each has a prefix of the log. If it can't be
// reached or has no more, the leader goes on.
func (l *JetStream) forward(ctx context.Context, filter string, after, to uint64, yield func(Record) error) error {
	for after < to {
		records, _, err := l.batch(ctx, after+1, filter, 100, mostBytesBack, lostResend)
		if err != nil || len(records) == 0 {
			record, found, err := l.next(ctx, after+1, filter)
			if err == nil && !found {
				err = fmt.Errorf("%w: there is no message after sequence %d, but %d", ErrUnavailable, after, to)
			}
			if err != nil {
				return fmt.Errorf("owner tail: %w", err)
			}
			records = []Record{record}
		}
		for _, record := range records {
			if err := yield(record); err != nil {
				return err
			}
			after = record.Seq
		}
	}
	return nil
}

// previous is what a message's append expected: the newest sequence of a filter.
type previous struct{ seq, filter string }

func previousOf(header nats.Header) previous {
	return previous{header.Get(jetstream.ExpectedLastSubjSeqHeader), header.Get(jetstream.ExpectedLastSubjSeqSubjHeader)}
}

// in returns the sequence of the owner's message before this one in a family, 0 for none.
func (p previous) in(f events.Family, o events.Owner) (seq uint64, known bool) {
	seq, err := strconv.ParseUint(p.seq, 10, 64)
	return seq, err == nil && p.filter == events.OwnerFilter(f, o)
}

// ErrContradiction: the read model and the log disagree about an owner. A rebuild
// repairs the read model.
var ErrContradiction = errors.New("the read model contradicts the log; run ledger rebuild --force")

// NewestReader is the part of a Reader that Confirm needs.
type NewestReader interface {
	// OwnerNewest returns the owner's newest message in the family. If kind is not empty,
	// only messages of that kind count. If there is none, found is false and the record
	// is empty.
	OwnerNewest(ctx context.Context, f events.Family, o events.Owner, kind events.SubjectKind) (r Record, found bool, err error)
}

// Confirm compares a read model with the log. seq is the sequence of the owner's newest
// message in the family according to the read model, and version is the owner's version
// after it; both are 0 for none. Confirm returns the events of that message. An append on
// a wrong version would contradict the log for good, and then no reader of the log could
// continue.
//
// compared is false, without an error, if a newer message arrived meanwhile: the append's
// expectation will detect that message.
func Confirm(ctx context.Context, log NewestReader, f events.Family, o events.Owner, seq uint64, version int) (newest []events.Event, compared bool, err error) {
	r, found, err := log.OwnerNewest(ctx, f, o, "")
	if err != nil || r.Seq > seq {
		return nil, false, err
	}
	is := 0
	if found {
		if newest, err = events.DecodeBatch(r.Payload); err != nil {
			return nil, false, fmt.Errorf("sequence %d: %w", r.Seq, err)
		}
		is = newest[0].OwnerVersion
	}
	if r.Seq != seq || is != version {
		return nil, false, fmt.Errorf("%w: owner %s, family %s: the read model is at version %d (sequence %d), the log at version %d (sequence %d)",
			ErrContradiction, o, f, version, seq, is, r.Seq)
	}
	return newest, true, nil
}
