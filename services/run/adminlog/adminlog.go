// Package adminlog records what operators do with a deployment, in a stream of its own:
// that an act begins, before it does, and how it ended. No service may write there, and
// the stream denies that records are deleted. Only the administrator's credentials append,
// and so could write false records, or replace the whole stream.
package adminlog

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
)

const Stream = "ledger_admin"

type Record struct {
	ID    string `json:"id"`  // of the act: both of its records have it
	Act   string `json:"act"` // a command of ledger
	State State  `json:"state"`
	Error string `json:"error,omitzero"`
	By    By     `json:"by"`
	// About is what the act is about, such as an owner or a folder.
	About map[string]string `json:"about,omitzero"`
}

// State is how far an act is.
type State string

const (
	Begun  State = "begun"
	Done   State = "done"
	Failed State = "failed"
)

// By is who acts, as the machine of the command says.
type By struct {
	User string `json:"user"`
	Host string `json:"host"`
	NATS string `json:"nats,omitzero"` // the user of the log's server, if NATS_URL names one
}

// Me returns who runs this process.
func Me(natsUser string) By {
	by := By{User: strconv.Itoa(os.Getuid()), NATS: natsUser}
	if is, err := user.Current(); err == nil {
		by.User = cmp.Or(is.Username, by.User)
	}
	if caller := os.Getenv("SUDO_USER"); caller != "" {
		by.User = caller + " as " + by.User
	}
	by.Host, _ = os.Hostname() // unknown: ""
	return by
}

// Begin records that an act begins. If it fails, the act must not begin. The returned
// function records how it ended. A crash in between leaves an act without an end.
func Begin(ctx context.Context, js jetstream.JetStream, act Record) (end func(context.Context, error) error, err error) {
	act.ID, act.State = uuid.NewString(), Begun
	if err := put(ctx, js, act); err != nil {
		return nil, err
	}
	return func(ctx context.Context, err error) error {
		act.State = Done
		if err != nil {
			// Enough to tell the cause, and less than the longest record.
			act.State, act.Error = Failed, fmt.Sprintf("%.2000s", err)
		}
		return put(ctx, js, act)
	}, nil
}

func put(ctx context.Context, js jetstream.JetStream, act Record) error {
	// The name of a folder, a user or a machine need not be UTF-8.
	text, err := json.Marshal(act, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if _, err := js.Publish(ctx, Stream+"."+act.Act, text); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// Entry is a record as the stream holds it.
type Entry struct {
	Sequence uint64    `json:"sequence"`
	Time     time.Time `json:"time"` // by the clock of the log's server
	Record
}

// Read calls each with the entries from a sequence on, in their order. It returns
// jetstream.ErrStreamNotFound if there is no admin log.
func Read(ctx context.Context, js jetstream.JetStream, from uint64, each func(Entry) error) error {
	stream, err := js.Stream(ctx, Stream)
	if err != nil {
		return fmt.Errorf("open the admin log: %w", err)
	}
	for seq := max(1, from); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		message, err := stream.GetMsg(ctx, seq)
		if err != nil {
			return fmt.Errorf("record %d: %w", seq, err)
		}
		entry := Entry{Sequence: seq, Time: message.Time}
		if err := json.Unmarshal(message.Data, &entry.Record); err != nil {
			return fmt.Errorf("record %d: %w", seq, err)
		}
		if err := each(entry); err != nil {
			return err
		}
	}
	return nil
}
