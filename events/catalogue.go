// Package events defines the facts of the ledger: every event type, its
// versions, and the exact bytes in which the log keeps it.
//
// A message of the log is the outcome of one command: a CloudEvents 1.0 JSON
// batch, that is, a JSON array of one or more events of one owner. Because a
// message is stored whole or not at all, events that must stand or fall
// together (a GrantConsumed and the MemoryWritten that it pays for) are
// simply put in one batch.
//
// Bytes that are in the log are never changed and never encoded again. A
// change of shape is a new version with an upcast that turns the older bytes
// into the newer form when they are read; see catalogue.go.
package events

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Errors of the catalogue.
var (
	ErrUnknownType    = errors.New("unknown event type")
	ErrUnknownVersion = errors.New("unknown event version")
)

// Upcast turns the data of one version into the data of the next.
type Upcast func(jsontext.Value) (jsontext.Value, error)

// Definition is a row of the catalogue: what the code knows about one type.
type Definition struct {
	Type    Type
	Version int           // the version that is written now, from 1
	New     func() Data   // an empty payload of that version
	Upcasts []Upcast      // Upcasts[i] turns version i+1 into version i+2
	Doc     string        // one sentence, for the AsyncAPI document
	Kinds   []SubjectKind // subjects it appears on
}

// catalogue is the closed set of types. A new version of a type raises
// Version and adds the upcast from the previous version. The golden files of
// all older versions stay; a test fails without them.
var catalogue = []Definition{
	{TypeOwnerRegistered, 1, func() Data { return new(OwnerRegistered) }, nil, "A wallet signed in for the first time.", []SubjectKind{KindSession}},
	{TypeSessionIssued, 1, func() Data { return new(SessionIssued) }, nil, "A wallet proved possession of its key and got a session.", []SubjectKind{KindSession}},
	{TypeSessionRevoked, 1, func() Data { return new(SessionRevoked) }, nil, "A session was ended: by its owner, or because there were too many.", []SubjectKind{KindSession}},
	{TypeMemoryWritten, 5, func() Data { return new(MemoryWritten) }, []Upcast{withoutYet("via"), memoryWrittenV2, memoryWrittenV3, withoutYet("imported")}, "A memory became a leaf of its owner's log.", []SubjectKind{KindMemory}},
	{TypeMemoryRetracted, 1, func() Data { return new(MemoryRetracted) }, nil, "An owner took a memory back; its leaf stays.", []SubjectKind{KindMemory}},
	{TypeMemoryForgotten, 1, func() Data { return new(MemoryForgotten) }, nil, "An owner had the text of one memory made unreadable; its leaf stays.", []SubjectKind{KindMemory}},
	{TypeOwnerErased, 1, func() Data { return new(OwnerErased) }, nil, "An owner had all texts so far made unreadable; the leaves stay.", []SubjectKind{KindMemory}},
	{TypeImportStarted, 1, func() Data { return new(ImportStarted) }, nil, "An owner began to import an export.", []SubjectKind{KindMemory}},
	{TypeImportFinished, 1, func() Data { return new(ImportFinished) }, nil, "An import ended, complete or given up.", []SubjectKind{KindMemory}},
	{TypeGrantMinted, 3, func() Data { return new(GrantMinted) }, []Upcast{withoutYet("by"), withoutYet("namespace")}, "An owner handed out a capability to read or to write.", []SubjectKind{KindGrant}},
	{TypeGrantConsumed, 1, func() Data { return new(GrantConsumed) }, nil, "One use of a grant was spent.", []SubjectKind{KindGrant, KindMemory}},
	{TypeGrantRevoked, 1, func() Data { return new(GrantRevoked) }, nil, "A grant ended before it was spent or expired.", []SubjectKind{KindGrant, KindKey, KindSession}},
	{TypeApiKeyCreated, 5, func() Data { return new(ApiKeyCreated) }, []Upcast{apiKeyCreatedV1, withoutYet("createdBy"), withoutYet("namespaces"), withoutYet("app")}, "An owner made an API key.", []SubjectKind{KindKey}},
	{TypeApiKeyRevoked, 1, func() Data { return new(ApiKeyRevoked) }, nil, "An API key was revoked.", []SubjectKind{KindKey}},
	{TypeApiKeyUsed, 1, func() Data { return new(ApiKeyUsed) }, nil, "An API key was used; at most one a key a minute.", []SubjectKind{KindKey, KindMemory}},
	{TypeBatchCut, 1, func() Data { return new(BatchCut) }, nil, "The anchorer fixed a root to commit.", []SubjectKind{KindBatch}},
	{TypeBatchSubmitted, 1, func() Data { return new(BatchSubmitted) }, nil, "A signed transaction that commits the batch is about to be sent.", []SubjectKind{KindBatch}},
	{TypeBatchConfirmed, 1, func() Data { return new(BatchConfirmed) }, nil, "The commitment account was read back and holds the root.", []SubjectKind{KindBatch}},
	{TypeBatchFailed, 1, func() Data { return new(BatchFailed) }, nil, "An attempt to commit the batch is known to be dead.", []SubjectKind{KindBatch}},
	{TypeStakeDeposited, 1, func() Data { return new(StakeDeposited) }, nil, "Tokens arrived in an owner's vault.", []SubjectKind{KindStake}},
	{TypeStakeWithdrawn, 1, func() Data { return new(StakeWithdrawn) }, nil, "Tokens left an owner's vault.", []SubjectKind{KindStake}},
}

// withoutYet checks data of a version from before an optional member. Everything else is
// the same as in the next version.
func withoutYet(member string) Upcast {
	return func(data jsontext.Value) (jsontext.Value, error) {
		var members map[string]jsontext.Value
		if err := json.Unmarshal(data, &members); err != nil {
			return nil, err
		}
		if _, has := members[member]; has {
			return nil, fmt.Errorf("this version has no %s", member)
		}
		return data, nil
	}
}

// memoryWrittenV2 adds the salt that all memories of version 2 had.
func memoryWrittenV2(data jsontext.Value) (jsontext.Value, error) {
	var members struct {
		MemoryID string         `json:"memoryId"`
		Salt     jsontext.Value `json:"salt"`
	}
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, err
	}
	if members.Salt != nil || members.MemoryID == "" {
		return nil, errors.New("version 2 has a memoryId and no salt")
	}
	return withMember(data, `"salt":"owner"`), nil
}

// memoryWrittenV3 adds the sealing that all memories of version 3 had.
func memoryWrittenV3(data jsontext.Value) (jsontext.Value, error) {
	var members struct {
		Salt       Salt           `json:"salt"`
		Sealing    jsontext.Value `json:"sealing"`
		Supersedes jsontext.Value `json:"supersedes"`
	}
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, err
	}
	if members.Sealing != nil || members.Supersedes != nil || members.Salt == "" {
		return nil, errors.New("version 3 has a salt, and no sealing or supersedes")
	}
	return withMember(data, `"sealing":1`), nil
}

// withMember adds a member to an object that is not empty. It leaves the other bytes as
// they are: metadata was hashed in this form.
func withMember(object jsontext.Value, member string) jsontext.Value {
	head := bytes.TrimSuffix(bytes.TrimSpace(object), []byte(`}`))
	return append(bytes.Clone(head), ","+member+"}"...)
}

// apiKeyCreatedV1 adds the scopes that all keys of version 1 had.
func apiKeyCreatedV1(data jsontext.Value) (jsontext.Value, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, err
	}
	for _, name := range []string{"scopes", "expiresAt"} {
		if _, has := members[name]; has {
			return nil, fmt.Errorf("version 1 has no %s", name)
		}
	}
	members["scopes"] = jsontext.Value(`["read","write"]`)
	return json.Marshal(members)
}

// Catalogue returns a copy of the closed set of types, in a stable order.
func Catalogue() []Definition { return slices.Clone(catalogue) }

// codec writes and reads the events of one catalogue. The log's codec is current;
// tests make other codecs, to try a later catalogue.
type codec struct {
	forms map[Type]canonicalForm
}

// canonicalForm is a row of the catalogue, with the schema URI that all events of
// the version that is written now share.
type canonicalForm struct {
	definition *Definition
	schema     string
}

var current = newCodec(catalogue)

func newCodec(definitions []Definition) *codec {
	c := &codec{forms: make(map[Type]canonicalForm, len(definitions))}
	for i := range definitions {
		d := &definitions[i]
		c.forms[d.Type] = canonicalForm{d, SchemaURI(d.Type, d.Version)}
	}
	return c
}

func (c *codec) form(t Type) (canonicalForm, error) {
	form, ok := c.forms[t]
	if !ok {
		return canonicalForm{}, fmt.Errorf("%w %q", ErrUnknownType, t)
	}
	return form, nil
}

// upcast brings data of the given version to the definition's version.
func (d *Definition) upcast(version int, data jsontext.Value) (jsontext.Value, error) {
	if version < 1 || version > d.Version {
		return nil, fmt.Errorf("%w: %s version %d, this build knows 1 to %d", ErrUnknownVersion, d.Type, version, d.Version)
	}
	for v := version; v < d.Version; v++ {
		var err error
		if data, err = d.Upcasts[v-1](data); err != nil {
			return nil, fmt.Errorf("upcast %s from version %d: %w", d.Type, v, err)
		}
	}
	return data, nil
}
