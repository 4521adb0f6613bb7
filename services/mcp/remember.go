package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/memory"
)

// defaultSource is the source of a memory if the writer names no source.
const defaultSource = "mcp"

type rememberInput struct {
	Memories       []newMemory `json:"memories" jsonschema:"the memories to store, in order"`
	IdempotencyKey string      `json:"idempotencyKey,omitempty" jsonschema:"any unique text; a call that is repeated with the same key and memories stores nothing twice, also after an hour"`
}

type newMemory struct {
	Content string `json:"content" jsonschema:"one fact, in a sentence that can be understood alone"`
	memory.Members
	Metadata map[string]any `json:"metadata,omitempty" jsonschema:"anything else to keep with it; unlike the content it is not encrypted"`
}

type rememberOutput struct {
	Stored        []storedMemory `json:"stored"`
	Similar       []similar      `json:"similar,omitempty" jsonschema:"memories from before that say nearly the same; if one is no longer true, correct it"`
	StableStorage bool           `json:"stableStorage" jsonschema:"true: the memories survive a power cut"`
}

type storedMemory struct {
	ID        string `json:"id"`
	LeafIndex uint64 `json:"leafIndex" jsonschema:"position in the owner's log"`
	LeafHash  string `json:"leafHash"`
}

func (s *Server) addRemember() {
	input := schemaOf[rememberInput]()
	list := input.Properties["memories"]
	list.MinItems, list.MaxItems = new(1), new(32)
	list.Items.Properties["content"].MinLength = new(1)
	boundMembers(list.Items)
	list.Items.Properties["metadata"].Properties = map[string]*jsonschema.Schema{
		"topic": {Type: "string", Description: "an example; any other members can stand beside it"},
	}
	input.Properties["idempotencyKey"].MaxLength = new(200)
	no := false
	addTool(s, &tool{scope: events.ScopeWrite, input: input, example: `{"memories": [{"content": "Ada's manager is Helena."}]}`, Tool: sdk.Tool{
		Name: "remember", Title: "Remember",
		Description: "Stores one or several memories of the person. Store what stays true and will matter in later conversations: " +
			"preferences, decisions, names, dates, facts about the work. One fact a memory. Nothing can be changed later; never store secrets such as passwords or keys. " +
			"If no answer comes, repeat the call with the same idempotencyKey, or unchanged within an hour: nothing is stored twice.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no},
	}}, s.remember)
}

// remember stores the memories in one message of the log: all of them, or none.
func (s *Server) remember(ctx context.Context, c call, in rememberInput) (rememberOutput, string, error) {
	drafts := make([]memory.Draft, len(in.Memories))
	for i, m := range in.Memories {
		err := s.nameSuperseded(ctx, c, &m)
		if err == nil {
			drafts[i], err = draftOf(c, m)
		}
		if err != nil {
			return rememberOutput{}, "", fmt.Errorf("memories[%d]: %w", i, err)
		}
	}
	if in.IdempotencyKey != "" {
		drafts[0].IdempotencyKey = new(events.Hash(sha256.Sum256([]byte("memory-ledger/mcp-key/v1\x00" + in.IdempotencyKey))))
	}
	alike := s.similar(ctx, c, in.Memories)
	batch, err := s.write(ctx, c, drafts)
	if err != nil {
		return rememberOutput{}, "", err
	}
	out := rememberOutput{StableStorage: true}
	var ids []string
	for _, m := range batch.Memories {
		w := m.Written
		out.Stored = append(out.Stored, storedMemory{w.MemoryID, w.LeafIndex, w.LeafHash.String()})
		ids = append(ids, w.MemoryID)
	}
	text := fmt.Sprintf("Stored on stable storage. Ids: %s. %s", strings.Join(ids, ", "),
		s.anchoring(ctx, c, "They are anchored onchain within minutes; `prove` shows it."))
	for _, one := range alike {
		if !slices.Contains(ids, one.ID) { // a repeated call
			out.Similar = append(out.Similar, one)
			text += fmt.Sprintf(" memories[%d] says nearly the same as memory %s, which was there before: if that is no longer true, call `correct`.", one.Memory, one.ID)
		}
	}
	return out, text, nil
}

// nameSuperseded puts ids in the place of the short ones, which recall shows.
func (s *Server) nameSuperseded(ctx context.Context, c call, m *newMemory) error {
	if m.Supersedes == nil {
		return nil
	}
	for i, id := range *m.Supersedes {
		var err error
		if (*m.Supersedes)[i], err = s.idOf(ctx, c, id); err != nil {
			return err
		}
	}
	return nil
}

// anchoring returns what to expect of the chain: usually, or that it is late. An error must
// not turn a call that has succeeded into one that failed.
func (s *Server) anchoring(ctx context.Context, c call, usually string) string {
	ctx, cancel := aside(ctx)
	defer cancel()
	head, err := s.Memories.Head(ctx, c.reader())
	if err != nil || !head.Delayed {
		return usually
	}
	return fmt.Sprintf("Anchoring onchain is delayed since %s; nothing is lost; the operator was told.", head.WaitingSince)
}

// write stores the drafts. Models repeat calls without an idempotencyKey, too.
func (s *Server) write(ctx context.Context, c call, drafts []memory.Draft) (*command.WriteBatch, error) {
	if drafts[0].IdempotencyKey != nil {
		return s.Memories.WriteBatch(ctx, drafts)
	}
	return s.Memories.WriteOnce(ctx, c.reader(), drafts, s.Now())
}

func draftOf(c call, m newMemory) (memory.Draft, error) {
	text := []byte("{}")
	if m.Metadata != nil {
		var err error
		if text, err = json.Marshal(m.Metadata); err != nil {
			return memory.Draft{}, &problem{"metadata can't be read: " + err.Error()}
		}
	}
	metadata, err := canonical.Admit(text)
	if err != nil {
		return memory.Draft{}, err
	}
	members := m.Members.Trimmed()
	if members.Source != nil && *members.Source == "" {
		members.Source = nil
	}
	if _, given := m.Metadata["source"]; members.Source == nil && !given {
		members.Source = new(defaultSource)
	}
	return memory.Draft{
		Owner: c.Owner, Content: m.Content, Metadata: metadata, Members: members, Credential: c.Credential, Namespaces: c.Namespaces,
	}, nil
}

// boundMembers sets the bounds of a memory's members.
func boundMembers(schema *jsonschema.Schema) {
	for _, name := range []string{"source", "namespace"} {
		schema.Properties[name].MaxLength = new(80)
	}
	for _, name := range []string{"tags", "supersedes"} {
		schema.Properties[name].MinItems, schema.Properties[name].MaxItems = new(1), new(16)
	}
}

// schemaOf returns the JSON schema of a type. It does not allow null for lists and for what
// is left out.
func schemaOf[T any]() *jsonschema.Schema {
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err) // the type has no JSON form
	}
	visit(schema, func(s *jsonschema.Schema) {
		if len(s.Types) == 2 && s.Types[0] == "null" {
			s.Type, s.Types = s.Types[1], nil
		}
	})
	return schema
}

// within sets the minimum and maximum of a number.
func within(schema *jsonschema.Schema, name string, least, most int) {
	schema.Properties[name].Minimum, schema.Properties[name].Maximum = new(float64(least)), new(float64(most))
}
