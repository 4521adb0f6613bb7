package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/recall"
)

type correctInput struct {
	ID       string `json:"id,omitempty" jsonschema:"id of the memory that is no longer true"`
	Recalled string `json:"recalled,omitempty" jsonschema:"instead of an id: its text, as recall showed it"`
	newMemory
}

type correctOutput struct {
	Stored     storedMemory `json:"stored"`
	Supersedes []string     `json:"supersedes"`
	Others     []string     `json:"others,omitempty" jsonschema:"memories that corrected the old one before and that recall still shows; correct them, too, if they are no longer true"`
}

func (s *Server) addCorrect() {
	input := schemaOf[correctInput]()
	input.Properties["id"].MaxLength, input.Properties["recalled"].MaxLength = new(100), new(memory.MaxContentBytes)
	input.Properties["content"].MinLength = new(1)
	boundMembers(input)
	no := false
	addTool(s, &tool{scope: events.ScopeWrite, input: input, example: `{"recalled": "Ada lives in Oslo.", "content": "Ada lives in Porto."}`, Tool: sdk.Tool{
		Name: "correct", Title: "Correct a memory",
		Description: "Stores what is true now in place of a memory that no longer is. Recall shows only the new one; the old one stays in the log with its proof. " +
			"The new one keeps the namespace and tags of the old one, unless you name others.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no},
	}}, s.correct)
}

func (s *Server) correct(ctx context.Context, c call, in correctInput) (correctOutput, string, error) {
	old, err := s.old(ctx, c, in)
	if err != nil {
		return correctOutput{}, "", err
	}
	ids := make([]string, len(old))
	for i := range old {
		ids[i] = old[i].ID
	}
	if err := s.nameSuperseded(ctx, c, &in.newMemory); err != nil {
		return correctOutput{}, "", err
	}
	if in.Supersedes != nil {
		ids = append(ids, *in.Supersedes...)
	}
	in.Supersedes = &ids
	inherit(&in.newMemory, &old[0])
	draft, err := draftOf(c, in.newMemory)
	if err != nil {
		return correctOutput{}, "", err
	}
	batch, err := s.write(ctx, c, []memory.Draft{draft})
	if err != nil {
		return correctOutput{}, "", err
	}
	w := batch.Memories[0].Written
	others := slices.DeleteFunc(correctionsOf(&old[0]), func(id string) bool { return id == w.MemoryID }) // a repeated call finds its own
	shown := "Recall shows only the new one."
	if len(others) > 0 {
		shown = fmt.Sprintf("Memory %s corrected it before, and recall may still show that: correct it, too, if it is no longer true.", strings.Join(others, ", memory "))
	}
	text := fmt.Sprintf("Corrected: memory %s supersedes %s. %s", w.MemoryID, strings.Join(ids, ", "), shown)
	return correctOutput{storedMemory{w.MemoryID, w.LeafIndex, w.LeafHash.String()}, ids, others}, text, nil
}

// old finds the memories to correct. A key that may not read can't find one by its text,
// which would tell it what is stored.
func (s *Server) old(ctx context.Context, c call, in correctInput) ([]memory.View, error) {
	if (in.ID == "") == (in.Recalled == "") {
		return nil, &problem{"Give either id or recalled. Fix it and call again."}
	}
	if c.Require(events.ScopeRead) != nil {
		if in.ID == "" {
			return nil, &problem{"This API key may not read: give the id of the memory."}
		}
		return []memory.View{{ID: in.ID}}, nil
	}
	if in.ID != "" {
		id, err := s.idOf(ctx, c, in.ID)
		if err != nil {
			return nil, err
		}
		v, err := s.Memories.Get(ctx, c.reader(), id)
		return []memory.View{v}, err
	}
	found, _, err := s.find(ctx, c, memory.Selection{Query: strings.TrimSpace(in.Recalled), Order: memory.Newest, Limit: 16, Current: true})
	if err != nil {
		return nil, err
	}
	var same, longer []memory.View
	for _, v := range found {
		switch text := strings.TrimSpace(v.Content); {
		case text == strings.TrimSpace(in.Recalled):
			same = append(same, v)
		case strings.HasPrefix(text, strings.TrimSpace(in.Recalled)): // recall showed its beginning
			longer = append(longer, v)
		}
	}
	switch {
	case len(same) > 0:
		return same, nil
	case len(longer) == 1:
		return longer, nil
	case len(longer) > 1:
		return nil, &problem{"Several memories begin like that. Call again with the id of one."}
	}
	return nil, &problem{"No memory has that text. Recall it first, and call again with its id or its exact text."}
}

// inherit gives a correction the namespace and the tags of the old memory.
func inherit(m *newMemory, old *memory.View) {
	var had struct {
		Namespace any `json:"namespace"`
		Tags      any `json:"tags"`
	}
	if json.Unmarshal(old.Metadata, &had) != nil {
		return
	}
	if _, given := m.Metadata["namespace"]; m.Namespace == nil && !given {
		if name, ok := had.Namespace.(string); ok && memory.CheckNamespace(name) == nil {
			m.Namespace = &name
		}
	}
	if _, given := m.Metadata["tags"]; m.Tags == nil && !given {
		var tags []string
		list, _ := had.Tags.([]any)
		for _, tag := range list {
			if text, ok := tag.(string); ok {
				tags = append(tags, text)
			}
		}
		if len(tags) > 0 && len(tags) == len(list) {
			m.Tags = &tags
		}
	}
}

// similar is a memory that says nearly the same as one that is being stored.
type similar struct {
	Memory int    `json:"memory" jsonschema:"the place of the new one in the call, from 0"`
	ID     string `json:"id"`
}

// similar finds memories that say nearly the same as new ones, among those that the
// credential may read. It is only a hint: without an answer there is none.
func (s *Server) similar(ctx context.Context, c call, all []newMemory) (alike []similar) {
	if c.Require(events.ScopeRead) != nil {
		return nil
	}
	ctx, cancel := aside(ctx)
	defer cancel()
	for i, m := range all {
		found, _, err := s.read(ctx, c, memory.Selection{
			Query: recall.Plain(m.Content), Ranked: true, Order: memory.Relevance, Limit: 3, Current: true,
		})
		if err != nil {
			return alike
		}
		for _, v := range found {
			if recall.Alike(v.Content, m.Content) {
				alike = append(alike, similar{i, v.ID})
			}
		}
	}
	return alike
}

// aside bounds what an answer can do without: the call itself needs the rest of its time.
func aside(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 2*time.Second)
}

type retractInput struct {
	ID string `json:"id" jsonschema:"id of a memory, as recall or remember shows it"`
}

type retractOutput struct {
	ID        string `json:"id"`
	Retracted bool   `json:"retracted"`

	Corrected []string `json:"corrected,omitempty" jsonschema:"memories that it corrected: recall may show them again"`
}

func (s *Server) addRetract() {
	input := schemaOf[retractInput]()
	input.Properties["id"].MaxLength = new(100)
	yes, no := true, false
	addTool(s, &tool{scope: events.ScopeRetract, input: input, example: idExample, Tool: sdk.Tool{
		Name: "retract", Title: "Retract a memory",
		Description: "Takes a memory back: no list, search or case shows it any more. It can't be undone, so ask the person first. Its place in the log and its proof stay. " +
			"It needs the person's own session, or an API key with the scope retract.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no},
	}}, s.retract)
}

func (s *Server) retract(ctx context.Context, c call, in retractInput) (retractOutput, string, error) {
	id, err := s.idOf(ctx, c, in.ID)
	if err != nil {
		return retractOutput{}, "", err
	}
	var v memory.View
	if c.Require(events.ScopeRead) == nil {
		v, _ = s.Memories.Get(ctx, c.reader(), id) // without it, only what it corrected is not named
	}
	if err := s.Memories.Retract(ctx, c.reader(), c.Credential, id); err != nil {
		return retractOutput{}, "", err
	}
	text := "Retracted. No list, search or case shows it any more."
	if len(v.Supersedes) > 0 {
		text += fmt.Sprintf(" Recall may show again what it corrected, memory %s: retract that, too, if the person wants all of it gone.", strings.Join(v.Supersedes, ", memory "))
	}
	return retractOutput{id, true, v.Supersedes}, text, nil
}
