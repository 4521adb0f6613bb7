package events

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Event is one fact with its CloudEvents attributes.
type Event struct {
	ID     string    // UUIDv7, unique
	Source string    // URI reference of the service that decided it: "/core", "/extension", "/anchorer"
	Owner  Owner     // CloudEvents "subject"
	Time   Timestamp // when it was decided

	// OwnerVersion counts the messages (commands) of the owner within a
	// family, from 1. All events of one message share it. A gap means that
	// a message was removed from the log.
	OwnerVersion int
	// CommandID names the command. A writer that lost the log's answer uses it
	// to find out whether its append was stored.
	CommandID string
	// TraceParent is the W3C trace context of the request, empty if untraced.
	TraceParent string

	Data Data
}

// Type returns the type of the event's data.
func (e *Event) Type() Type { return e.Data.EventType() }

// envelope is the JSON form of a CloudEvent; its field order is the order of
// the bytes in the log.
type envelope struct {
	SpecVersion     string         `json:"specversion"`
	ID              string         `json:"id"`
	Source          string         `json:"source"`
	Type            Type           `json:"type"`
	Subject         Owner          `json:"subject"`
	Time            Timestamp      `json:"time"`
	DataContentType string         `json:"datacontenttype"`
	DataSchema      string         `json:"dataschema"`
	OwnerVersion    int            `json:"ownerversion"`
	CommandID       string         `json:"commandid"`
	TraceParent     string         `json:"traceparent,omitempty"`
	Data            jsontext.Value `json:"data"`
}

const (
	specVersion     = "1.0"
	dataContentType = "application/json"
	schemaPrefix    = "urn:memory-ledger:event:"
	// ContentType is the media type of a message of the log.
	ContentType = "application/cloudevents-batch+json"
)

// Errors of the codec.
var (
	ErrEmptyBatch = errors.New("a batch holds at least one event")
	ErrMalformed  = errors.New("malformed event")
)

// SchemaURI returns the CloudEvents "dataschema" of a version of a type.
func SchemaURI(t Type, version int) string {
	return schemaPrefix + string(t) + ":" + strconv.Itoa(version)
}

func parseSchemaURI(uri string, t Type) (int, error) {
	rest, ok := strings.CutPrefix(uri, schemaPrefix+string(t)+":")
	if !ok {
		return 0, fmt.Errorf("%w: dataschema %q of a %s", ErrMalformed, uri, t)
	}
	version, err := strconv.Atoi(rest)
	if err != nil || strconv.Itoa(version) != rest {
		return 0, fmt.Errorf("%w: dataschema %q", ErrMalformed, uri)
	}
	return version, nil
}

// EncodeBatch returns the bytes of a message. The events must share owner,
// owner version and command.
func EncodeBatch(batch []Event) ([]byte, error) { return current.encodeBatch(batch) }

func (c *codec) encodeBatch(batch []Event) ([]byte, error) {
	if len(batch) == 0 {
		return nil, ErrEmptyBatch
	}
	envelopes := make([]envelope, len(batch))
	for i := range batch {
		if err := sameCommand(&batch[0], &batch[i]); err != nil {
			return nil, err
		}
		if err := c.envelop(&envelopes[i], &batch[i]); err != nil {
			return nil, fmt.Errorf("encode %s: %w", batch[i].Type(), err)
		}
	}
	return json.Marshal(envelopes)
}

func (c *codec) envelop(env *envelope, e *Event) error {
	form, err := c.form(e.Type())
	if err != nil {
		return err
	}
	data, err := json.Marshal(e.Data)
	*env = envelope{
		SpecVersion: specVersion, ID: e.ID, Source: e.Source, Type: form.definition.Type, Subject: e.Owner, Time: e.Time,
		DataContentType: dataContentType, DataSchema: form.schema,
		OwnerVersion: e.OwnerVersion, CommandID: e.CommandID, TraceParent: e.TraceParent, Data: data,
	}
	return err
}

// DecodeBatch reads a message and brings older versions of its events to the
// current form. It refuses a message that it does not fully understand: a reader
// that skipped unknown parts would build a state that no writer decided.
func DecodeBatch(payload []byte) ([]Event, error) { return current.decodeBatch(payload) }

func (c *codec) decodeBatch(payload []byte) ([]Event, error) {
	var envelopes []envelope
	if err := json.Unmarshal(payload, &envelopes); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if len(envelopes) == 0 {
		return nil, ErrEmptyBatch
	}
	batch := make([]Event, len(envelopes))
	for i := range envelopes {
		if err := c.decodeInto(&batch[i], &envelopes[i]); err != nil {
			return nil, err
		}
		if err := sameCommand(&batch[0], &batch[i]); err != nil {
			return nil, err
		}
	}
	return batch, nil
}

func (c *codec) decodeInto(e *Event, env *envelope) error {
	if env.SpecVersion != specVersion || env.DataContentType != dataContentType {
		return fmt.Errorf("%w: specversion %q, datacontenttype %q", ErrMalformed, env.SpecVersion, env.DataContentType)
	}
	form, err := c.form(env.Type)
	if err != nil {
		return err
	}
	version, err := parseSchemaURI(env.DataSchema, env.Type)
	if err != nil {
		return err
	}
	data, err := form.definition.upcast(version, env.Data)
	if err != nil {
		return err
	}
	payload := form.definition.New()
	if err := json.Unmarshal(data, payload, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrMalformed, env.Type, err)
	}
	*e = Event{
		ID: env.ID, Source: env.Source, Owner: env.Subject, Time: env.Time,
		OwnerVersion: env.OwnerVersion, CommandID: env.CommandID, TraceParent: env.TraceParent,
		Data: payload,
	}
	return nil
}

// sameCommand checks that an event belongs to the same command of the same owner as the
// first event of its batch.
func sameCommand(first, e *Event) error {
	if e.Owner != first.Owner || e.OwnerVersion != first.OwnerVersion || e.CommandID != first.CommandID {
		return fmt.Errorf("%w: events of more than one command in a batch", ErrMalformed)
	}
	if e.OwnerVersion < 1 || e.CommandID == "" || e.ID == "" {
		return fmt.Errorf("%w: an event needs an id, a command id and an owner version from 1", ErrMalformed)
	}
	return nil
}

// secretMembers are the members of payloads that must never be shown outside the log:
// sealed bytes, and hashes of tokens, keys, and Idempotency-Keys. A test checks all
// payloads against the list.
var secretMembers = []string{"sealed", "tokenHash", "keyHash", "idempotencyKeyHash"}

// AppendPublic appends an event in the JSON format of CloudEvents, in the newest version
// of its type, without its secret members.
func AppendPublic(b []byte, e *Event) ([]byte, error) {
	var env envelope
	if err := current.envelop(&env, e); err != nil {
		return nil, err
	}
	data, err := withoutSecrets(env.Data)
	if err != nil {
		return nil, fmt.Errorf("public form of %s: %w", e.Type(), err)
	}
	env.Data = data
	text, err := json.Marshal(&env)
	return append(b, text...), err
}

// withoutSecrets copies an object without its secret members.
func withoutSecrets(data jsontext.Value) (jsontext.Value, error) {
	var public bytes.Buffer
	in, out := jsontext.NewDecoder(bytes.NewReader(data)), jsontext.NewEncoder(&public)
	for in.PeekKind() != '}' {
		token, err := in.ReadToken()
		if err != nil {
			return nil, err
		}
		if token.Kind() == '"' && slices.Contains(secretMembers, token.String()) {
			if err := in.SkipValue(); err != nil {
				return nil, err
			}
			continue
		}
		if err := out.WriteToken(token); err != nil {
			return nil, err
		}
		if token.Kind() == '"' {
			value, err := in.ReadValue()
			if err == nil {
				err = out.WriteValue(value)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if err := out.WriteToken(jsontext.EndObject); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(public.Bytes()), nil
}
