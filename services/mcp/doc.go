// Package mcp serves an owner's memories to agents, by the Model Context Protocol.
//
// It knows tools, resources and a prompt. The routes around it (who may call, how
// long a body may be) are the core API's; `ledger mcp` carries the same messages over
// standard input and output, see [Bridge].
//
// The server is stateless. Each request stands alone and names its caller, so any
// replica answers any request. The SDK negotiates with older clients.
//
// The text of a memory is data that anyone may have written: the owner, one of the
// owner's tools, or a stranger by a drop. A model must not take it for instructions.
// So every result has it in fields whose names begin with "untrusted", and, in the
// text for the model, between marks with a random name, which the data can't close.
//
// An answer of a tool costs a model at most 4,000 tokens, see answerCost.
package mcp
