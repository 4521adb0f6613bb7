package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/memory-ledger/ledger/events"
)

type retractInput struct {
	ID string `json:"id" jsonschema:"id of a memory, as recall or remember shows it"`
}

type retractOutput struct {
	ID        string `json:"id"`
	Retracted bool   `json:"retracted"`
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
	if err := s.Memories.Retract(ctx, c.reader(), c.Credential, id); err != nil {
		return retractOutput{}, "", err
	}
	return retractOutput{id, true}, "Retracted. No list, search or case shows it any more.", nil
}
