package mcp

import (
	"cmp"
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/memory"
)

type recentInput struct {
	Limit     int      `json:"limit,omitempty" jsonschema:"most memories in the answer, 1 to 10, 6 by default"`
	Cursor    string   `json:"cursor,omitempty" jsonschema:"nextCursor of an answer, for the page after it"`
	Tags      []string `json:"tags,omitempty" jsonschema:"only memories with all of these tags"`
	Namespace string   `json:"namespace,omitempty" jsonschema:"only memories of this namespace"`
}

func (s *Server) addRecent() {
	input := schemaOf[recentInput]()
	within(input, "limit", 1, 10)
	input.Properties["tags"].MinItems, input.Properties["tags"].MaxItems = new(1), new(16)
	input.Properties["cursor"].MaxLength, input.Properties["namespace"].MaxLength = new(1000), new(1000)
	addTool(s, &tool{scope: events.ScopeRead, input: input, example: `{"limit": 5}`, Tool: sdk.Tool{
		Name: "recent", Title: "Recent memories",
		Description: "Lists what was stored last, newest first. To answer a question, use recall.",
		Annotations: reads(),
	}}, s.recent)
}

func (s *Server) recent(ctx context.Context, c call, in recentInput) (recallOutput, string, error) {
	ask := memory.Selection{Order: memory.Newest, Limit: cmp.Or(in.Limit, 6), Cursor: in.Cursor, Current: true}
	if err := only(&ask.Filter, in.Tags, map[string]string{"namespace": in.Namespace}); err != nil {
		return recallOutput{}, "", err
	}
	found, picked, err := s.find(ctx, c, ask)
	if err != nil {
		return recallOutput{}, "", cursorProblem(err)
	}
	out := answerOf(found, picked, "")
	if len(out.Memories) == 0 && out.Damaged == 0 {
		return out, nothing(recallInput{Cursor: in.Cursor, Tags: in.Tags, Namespace: in.Namespace}), nil
	}
	return out, out.text(), nil
}
