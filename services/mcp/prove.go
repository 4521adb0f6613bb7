package mcp

import (
	"context"
	"fmt"
	"net/url"

	"github.com/go-json-experiment/json"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
)

type proveInput struct {
	ID string `json:"id" jsonschema:"id of a memory, as recall or remember shows it"`
}

type proveOutput struct {
	Notice    string         `json:"notice"`
	ID        string         `json:"id"`
	Verified  bool           `json:"verified" jsonschema:"the receipt was checked before it was returned: the entry hashes to the leaf, the leaf is in the tree, the tree is a prefix of the committed one"`
	LeafHash  string         `json:"leafHash"`
	LeafIndex uint64         `json:"leafIndex"`
	TreeSize  uint64         `json:"treeSize"`
	BatchRoot string         `json:"batchRoot"`
	Anchored  bool           `json:"anchored" jsonschema:"a root that covers the memory was committed onchain"`
	Anchor    *proveAnchor   `json:"anchor,omitempty"`
	Receipt   map[string]any `json:"untrustedReceipt,omitempty" jsonschema:"the receipt, as anyone can check it with ledger verify-receipt; left out where it is long"`
	URL       string         `json:"receiptUrl" jsonschema:"where the owner's API has the receipt"`
}

type proveAnchor struct {
	Cluster       string `json:"cluster" jsonschema:"genesis hash of the chain"`
	Account       string `json:"account"`
	TxSignature   string `json:"txSignature"`
	Slot          uint64 `json:"slot"`
	CommittedSize uint64 `json:"committedSize"`
	CommittedRoot string `json:"committedRoot"`
	Explorer      string `json:"explorer,omitempty" jsonschema:"the transaction on the chain's explorer; a private chain has none"`
}

func (s *Server) addProve() {
	input := schemaOf[proveInput]()
	input.Properties["id"].MaxLength = new(100)
	addTool(s, &tool{scope: events.ScopeRead, input: input, example: idExample, Tool: sdk.Tool{
		Name: "prove", Title: "Prove a memory",
		Description: "Returns the verified proof that a memory is in the person's log, and where that log's root was committed onchain. " +
			"Use it when the person wants to show someone that a memory existed unchanged at a time.",
		Annotations: reads(),
	}}, s.prove)
}

func (s *Server) prove(ctx context.Context, c call, in proveInput) (proveOutput, string, error) {
	id, err := s.idOf(ctx, c, in.ID)
	if err != nil {
		return proveOutput{}, "", err
	}
	raw, r, err := s.receipt(ctx, c, id)
	if err != nil {
		return proveOutput{}, "", err
	}
	out := proveOutput{
		Notice: notice, ID: id, Verified: true, LeafHash: r.LeafHash.String(), LeafIndex: r.LeafIndex, TreeSize: r.TreeSize,
		BatchRoot: r.BatchRoot.String(), Anchored: r.Anchor != nil, URL: s.BaseURL + "/memories/" + url.PathEscape(id) + "/receipt",
	}
	if costOf(string(raw)) <= 6000 { // of a longer one, only the resource is named
		if err := json.Unmarshal(raw, &out.Receipt); err != nil {
			return proveOutput{}, "", err
		}
	}
	text := fmt.Sprintf("Verified: leaf %d of the log, %s, is in the tree of %d leaves with root %s.", r.LeafIndex, r.LeafHash, r.TreeSize, r.BatchRoot)
	if a := r.Anchor; a != nil {
		out.Anchor = &proveAnchor{a.Cluster, a.Account, a.TxSignature, a.Slot, a.CommittedSize, a.CommittedRoot.String(), explorer(a)}
		text += fmt.Sprintf(" That tree is a prefix of the %d leaves whose root transaction %s committed onchain.", a.CommittedSize, a.TxSignature)
		if out.Anchor.Explorer != "" {
			text += " Explorer: " + out.Anchor.Explorer
		}
	} else {
		text += " It is not anchored onchain yet. " + s.anchoring(ctx, c, "Call again in a few minutes.")
	}
	return out, text + " The receipt: " + out.URL, nil
}

// receipt returns a receipt and its JSON. It parses the receipt from the JSON and verifies
// it.
func (s *Server) receipt(ctx context.Context, c call, id string) ([]byte, *verify.Receipt, error) {
	issued, err := s.Memories.Receipt(ctx, c.reader(), id)
	if err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(issued, json.Deterministic(true))
	if err != nil {
		return nil, nil, fmt.Errorf("encode the receipt: %w", err)
	}
	r, err := verify.ParseReceipt(raw)
	if err == nil {
		err = r.Verify()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the receipt of %s does not hold: %w", id, err)
	}
	return raw, r, nil
}

// explorers maps the genesis hashes of public chains to the explorer's URL parameters.
var explorers = map[string]string{
	"5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d": "",
	"EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG": "?cluster=devnet",
	"4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY": "?cluster=testnet",
}

// explorer returns the link to an anchor's transaction, empty for a chain that is not
// public.
func explorer(a *verify.Anchor) string {
	cluster, public := explorers[a.Cluster]
	if !public {
		return ""
	}
	return "https://explorer.solana.com/tx/" + url.PathEscape(a.TxSignature) + cluster
}
