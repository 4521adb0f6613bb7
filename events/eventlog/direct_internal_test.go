package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/testkit"
)

// scripted returns a log whose server is the test: there is no stream, and answer
// responds to each request.
func scripted(t *testing.T, subject string, answer func(request *nats.Msg)) *JetStream {
	t.Helper()
	return scriptedAt(t, natstest.Start(t).URL(), subject, answer)
}

func scriptedAt(t *testing.T, url, subject string, answer func(request *nats.Msg)) *JetStream {
	t.Helper()
	server, _ := natstest.Connect(t, url)
	client, _ := natstest.Connect(t, url)
	testkit.Must(t, testkit.ErrorOf(server.Subscribe(subject, answer)))
	testkit.Must(t, server.Flush())
	only := &lease{asking: make(chan struct{}, 1), contact: func(context.Context) (contact, error) { return contact{}, nil }}
	return &JetStream{nc: client, inboxes: newInboxes(client), lease: only}
}

// withoutStreams returns the URL of a NATS server without JetStream, which would answer the
// same requests as the test.
func withoutStreams(t *testing.T) string {
	t.Helper()
	plain := filepath.Join(t.TempDir(), "plain.conf")
	testkit.Must(t, os.WriteFile(plain, []byte(`listen: "127.0.0.1:-1"`), 0o600))
	return natstest.FromConfig(t, plain)
}

// answering returns a log whose server gives the same answer to each get and reports state
// as the stream's state.
func answering(t *testing.T, get *nats.Msg, state string) *JetStream {
	t.Helper()
	return scriptedAt(t, withoutStreams(t), "$JS.API.>", func(m *nats.Msg) {
		answer := get
		if m.Subject == "$JS.API.STREAM.INFO."+StreamName {
			answer = &nats.Msg{Data: []byte(state)}
		}
		check(t, m.RespondMsg(answer))
	})
}

// If the leader may no longer be the leader, its answer that there is no message is not
// trusted either: the other replicas may have acknowledged an owner's first message.
func TestNorDoesAnOldLeaderSayThatThereIsNone(t *testing.T) {
	t.Parallel()
	log := answering(t, &nats.Msg{Data: []byte(`{"error":{"code":404,"err_code":10037}}`)}, `{"state":{"messages":0}}`)
	log.clustered = true
	log.lease.contact = func(context.Context) (contact, error) { return contact{majority: leaseTime + time.Second}, nil }
	if seq, err := log.OwnerHead(t.Context(), events.FamilyAny, events.OwnerFromBytes([32]byte{1})); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%d, %v", seq, err)
	}
}

// What an old leader has stays in the log: only what is newest is in doubt. A writer that lost
// a race learns that without the question whether the leader is still one.
func TestWhatAnOldLeaderHasIsTrue(t *testing.T) {
	t.Parallel()
	mine, url := anAppend(), withoutStreams(t)
	stored := fmt.Sprintf(`{"message":{"subject":%q,"seq":7,"time":"1970-01-01T00:00:00Z"}}`, events.Subject{Family: mine.Family, Owner: mine.Owner, Kind: mine.Kind})
	scriptedAt(t, url, "$JS.API.STREAM.MSG.GET.>", func(m *nats.Msg) { check(t, m.Respond([]byte(stored))) })
	log := scriptedAt(t, url, "ledger.>", func(m *nats.Msg) {
		check(t, m.Respond([]byte(`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`)))
	})
	log.clustered = true
	log.lease.contact = func(context.Context) (contact, error) { return contact{majority: leaseTime + time.Second}, nil }
	if r, found, err := log.At(t.Context(), 7); err != nil || !found || r.Seq != 7 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, _, err := log.OwnerNewest(t.Context(), mine.Family, mine.Owner, mine.Kind); !errors.Is(err, ErrUnavailable) {
		t.Errorf("the newest: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := log.Append(ctx, mine); !errors.Is(err, ErrConflict) {
		t.Errorf("append: %v", err)
	}
}

// An answer that is neither a message nor "no message" is an error: read as "no message",
// it would make the log look empty. "No message" is not trusted either if the stream's
// state contradicts it or is not available.
func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	const (
		none  = `{"error":{"code":404,"err_code":10037,"description":"no message found"}}`
		empty = `{"state":{"messages":0}}`
	)
	at := time.Unix(0, 0).Format(time.RFC3339Nano)
	stored := func(header string) string {
		return `{"message":{"subject":"x","seq":7,"time":"` + at + `","hdrs":"` + header + `"}}`
	}
	missing := nats.Header{"Status": {"404"}}
	for name, test := range map[string]struct {
		leader bool
		header nats.Header // of the answer to a get
		body   string
		info   string // the stream's state
		want   error
	}{
		"a message":                     {false, nats.Header{"Nats-Sequence": {"7"}, "Nats-Time-Stamp": {at}}, "", "", nil},
		"another status":                {false, nats.Header{"Status": {"408"}}, "", empty, ErrUnavailable},
		"no sequence":                   {false, nats.Header{"Nats-Time-Stamp": {at}}, "", empty, ErrUnavailable},
		"no time":                       {false, nats.Header{"Nats-Sequence": {"7"}}, "", empty, ErrUnavailable},
		"none":                          {false, missing, "", empty, nil},
		"none, of a stream with some":   {false, missing, "", `{"state":{"messages":7}}`, ErrUnavailable},
		"none, of a stream that is not": {false, missing, "", `{"error":{"code":503,"err_code":10008}}`, ErrUnavailable},
		"none, and no state":            {false, missing, "", `{}`, ErrUnavailable},
		"none, and no JSON":             {false, missing, "", `-`, ErrUnavailable},
		"the leader's message":          {true, nil, stored("TkFUUy8xLjANCmE6Yg0KDQo="), "", nil},
		"one without headers":           {true, nil, stored(""), "", nil},
		"the leader's none":             {true, nil, none, empty, nil},
		"the leader's other error":      {true, nil, `{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`, empty, ErrUnavailable},
		"the leader's empty answer":     {true, nil, `{}`, empty, ErrUnavailable},
		"no JSON of the leader":         {true, nil, `-`, empty, ErrUnavailable},
		"headers that are none":         {true, nil, stored("eA=="), empty, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := answering(t, &nats.Msg{Header: test.header, Data: []byte(test.body)}, test.info)
			log.clustered = test.leader
			head, err := log.Head(t.Context())
			if !errors.Is(err, test.want) || (head == 7) != (test.info == "") {
				t.Errorf("%d, %v; want %v", head, err, test.want)
			}
		})
	}
}

// A message of a batch that did not arrive is requested again. It is neither reported as a
// gap nor left out. In a filtered read nothing else would reveal the loss.
func TestBatchesThatLoseMessages(t *testing.T) {
	t.Parallel()
	const to = 6
	for name, read := range map[string]struct {
		subject string
		holds   []uint64 // the sequences that match
	}{
		"all":      {"", []uint64{1, 2, 3, 4, 5, 6}},
		"filtered": {"chain.>", []uint64{2, 3, 5}},
	} {
		for lost := range read.holds { // each is lost once, the first time that it is sent
			t.Run(name+" without the message at "+strconv.FormatUint(read.holds[lost], 10), func(t *testing.T) {
				t.Parallel()
				pending := read.holds[lost]
				log := scripted(t, "$JS.API.DIRECT.GET."+StreamName, func(m *nats.Msg) {
					var request batchRequest
					check(t, json.Unmarshal(m.Data, &request))
					from, _ := slices.BinarySearch(read.holds, request.Seq)
					last := uint64(0)
					respond := func(seq uint64, left int, header nats.Header) {
						header.Set("Nats-Last-Sequence", strconv.FormatUint(last, 10))
						header.Set("Nats-Num-Pending", strconv.Itoa(left))
						if last = seq; seq != 0 && seq == pending {
							pending = 0
							return
						}
						check(t, m.RespondMsg(&nats.Msg{Header: header}))
					}
					for i, seq := range read.holds[from:] {
						respond(seq, len(read.holds)-from-i-1, nats.Header{
							"Nats-Sequence": {strconv.FormatUint(seq, 10)}, "Nats-Time-Stamp": {time.Unix(0, 0).Format(time.RFC3339Nano)},
						})
					}
					respond(0, 0, nats.Header{"Status": {"204"}})
				})
				var got []uint64
				err := log.Read(t.Context(), ReadConfig{To: to, Subject: read.subject}, func(s Slice) error {
					for _, r := range s.Records {
						got = append(got, r.Seq)
					}
					return nil
				})
				if err != nil || !slices.Equal(got, read.holds) {
					t.Errorf("read %v, %v", got, err)
				}
			})
		}
	}
}

// check reports an error of the test's server, which answers on another goroutine.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// If the replica that was asked for a part is silent, or behind, the leader has the rest of the
// part: another replica is not asked, and waited for, after each message.
func TestTheLeaderReadsInsteadOfAReplica(t *testing.T) {
	t.Parallel()
	for name, replica := range map[string]*nats.Msg{"silent": nil, "behind": {Header: nats.Header{"Status": {"404"}}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			log := scriptedAt(t, withoutStreams(t), "$JS.API.>", func(m *nats.Msg) {
				var request getRequest
				check(t, json.Unmarshal(m.Data, &request))
				if m.Subject == "$JS.API.STREAM.MSG.GET."+StreamName {
					check(t, m.Respond(fmt.Appendf(nil, `{"message":{"subject":"x","seq":%d,"time":"1970-01-01T00:00:00Z"}}`, request.Seq)))
				} else if asked++; replica != nil {
					check(t, m.RespondMsg(replica))
				}
			})
			log.clustered = true
			records := 0
			err := log.Read(t.Context(), ReadConfig{To: 90}, func(s Slice) error { records += len(s.Records); return nil })
			if err != nil || records != 90 || asked != 1 {
				t.Errorf("%d records, after %d questions to a replica: %v", records, asked, err)
			}
		})
	}
}
