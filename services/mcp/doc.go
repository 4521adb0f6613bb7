// Package mcp serves an owner's memories to agents with the Model Context Protocol.
//
// It offers tools, resources and a prompt. The core API owns the routes around it, which
// authenticate the caller and limit the body. `ledger mcp` carries the same messages over
// standard input and output, see [Bridge].
//
// The server is stateless. Each request is independent and names its caller, so any
// replica can answer any request. The SDK negotiates with older clients.
//
// The text of a memory is data that anyone may have written: the owner, one of the
// owner's tools, or a stranger through a drop. A model must not follow it as
// instructions. So every result holds it in fields whose names begin with "untrusted".
// In the text for the model it is between marks with a random name, which the data can't
// close.
//
// An answer of a tool costs a model at most 4,000 tokens, see answerCost.
package mcp
