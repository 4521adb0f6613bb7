package verify

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/events/verify/leaf"
)

// Onchain is the state of an anchor's account, as a Solana node reports it.
type Onchain struct {
	// Authority is the public key that committed the root. Compare it with the one that
	// the operator publishes.
	Authority string
	// Size is how many leaves the account commits to now. It may have grown since the
	// anchor.
	Size uint64
	Root Hash
}

// Issuer names the program and the authority that must have anchored a receipt. A receipt
// names its own program and account, and everyone can deploy a program and commit any root.
// So take both members from another source.
type Issuer struct {
	ProgramID string // empty: any
	// Authority needs ProgramID: another program can write anything to its accounts.
	Authority string // empty: any
}

// VerifyOnchain asks a Solana node, by its JSON-RPC URL, whether the anchor's commitment
// is on the chain. Verify the receipt first. An *Error names the wrong field.
// ErrNotAnchored means that there is no anchor yet. Any other error is ErrUnreachable
// or the context's.
func (r *Receipt) VerifyOnchain(ctx context.Context, rpcURL string) (*Onchain, error) {
	return r.Anchor.VerifyOnchain(ctx, Node{rpcURL, http.DefaultClient}, r.Entry.Owner)
}

// VerifyOnchain is like [Receipt.VerifyOnchain], for the anchor of an export.
func (h *ExportHeader) VerifyOnchain(ctx context.Context, rpcURL string) (*Onchain, error) {
	return h.Anchor.VerifyOnchain(ctx, Node{rpcURL, http.DefaultClient}, h.Owner)
}

// VerifyIssuer checks that the issuer anchored the receipt. It needs no chain. The error
// is an *Error, ErrNotAnchored, or says that the issuer is malformed.
func (r *Receipt) VerifyIssuer(by Issuer) error { return r.Anchor.VerifyIssuer(by, r.Entry.Owner) }

func notAnchored() error {
	return fmt.Errorf("%w: it was made before its anchor; fetch it again, or complete it", ErrNotAnchored)
}

// ErrIssuer says that an Issuer is malformed or incomplete.
var ErrIssuer = errors.New("an issuer is a program, or a program and an authority, in base58")

// VerifyIssuer checks an anchor of an owner's log, which may be nil.
func (a *Anchor) VerifyIssuer(by Issuer, owner string) error {
	switch {
	case by == Issuer{}:
		return nil
	case !leaf.IsBase58(by.ProgramID, 32), by.Authority != "" && !leaf.IsBase58(by.Authority, 32):
		return ErrIssuer
	case a == nil:
		return notAnchored()
	case a.ProgramID != by.ProgramID:
		return Wrong(ErrChain, "anchor.programId", "it is %s, not %s", a.ProgramID, by.ProgramID)
	case by.Authority == "":
		return nil
	}
	if at := CommitmentAddress(a.ProgramID, by.Authority, owner); at != a.Account {
		return Wrong(ErrChain, "anchor.account", "it is %s, the authority commits to this owner's log at %s", a.Account, at)
	}
	return nil
}

// VerifyOnchain checks an anchor of an owner's log, which may be nil.
func (a *Anchor) VerifyOnchain(ctx context.Context, node Node, owner string) (*Onchain, error) {
	if a == nil {
		return nil, notAnchored()
	}
	genesis, err := node.genesisHash(ctx)
	if err != nil {
		return nil, err
	}
	if genesis != a.Cluster {
		return nil, Wrong(ErrChain, "anchor.cluster", "it is %s, the node is on the chain %s", a.Cluster, genesis)
	}
	account, reached, err := node.account(ctx, a.Account)
	if err != nil {
		return nil, err
	}
	held, err := a.compareAccount(account, reached, owner)
	if err != nil {
		return nil, err
	}
	tx, err := node.transaction(ctx, a.TxSignature)
	if err != nil {
		return nil, err
	}
	return held, a.compareTransaction(tx, owner)
}

type solanaAccount struct {
	Owner string
	Data  []string
}

// unlessBehind returns what is wrong if the node has reached the anchor's slot: what it held
// before says nothing against the anchor.
func (a *Anchor) unlessBehind(reached uint64, wrong error) error {
	if 0 < reached && reached < a.Slot {
		return fmt.Errorf("%w: it has reached slot %d, the anchor is of slot %d", ErrUnreachable, reached, a.Slot)
	}
	return wrong
}

func (a *Anchor) compareAccount(account *solanaAccount, reached uint64, owner string) (*Onchain, error) {
	if account == nil {
		return nil, a.unlessBehind(reached, Wrong(ErrChain, "anchor.account", "there is no account %s on the chain", a.Account))
	}
	if account.Owner != a.ProgramID {
		return nil, Wrong(ErrChain, "anchor.programId", "it is %s, the account belongs to %s", a.ProgramID, account.Owner)
	}
	if len(account.Data) != 2 || account.Data[1] != "base64" {
		return nil, fmt.Errorf("%w: malformed account", ErrUnreachable)
	}
	data, err := base64.StdEncoding.DecodeString(account.Data[0])
	decoded, notCommitment := DecodeAccount(data)
	if err != nil || notCommitment != nil {
		return nil, Wrong(ErrChain, "anchor.account", "%s holds no commitment", a.Account)
	}
	held := &Onchain{Authority: base58.Encode(decoded.Authority[:]), Size: decoded.Size, Root: decoded.Root}
	if of := base58.Encode(decoded.Owner[:]); of != owner {
		return nil, Wrong(ErrChain, "anchor.account", "%s commits to the log of %s", a.Account, of)
	}
	if at := CommitmentAddress(a.ProgramID, held.Authority, owner); at != a.Account {
		return nil, Wrong(ErrChain, "anchor.account", "the program keeps this owner's commitment at %s", at)
	}
	switch {
	case held.Size < a.CommittedSize:
		return nil, a.unlessBehind(reached, Wrong(ErrChain, "anchor.committedSize", "it is %d, the account holds %d leaves", a.CommittedSize, held.Size))
	case held.Size > a.CommittedSize:
		return held, nil
	case held.Root != a.CommittedRoot:
		return nil, Wrong(ErrChain, "anchor.committedRoot", "it is %s, the account holds %s", a.CommittedRoot, held.Root)
	case decoded.Slot != a.Slot:
		return nil, Wrong(ErrChain, "anchor.slot", "it is %d, the account was last written in slot %d", a.Slot, decoded.Slot)
	}
	return held, nil
}

type solanaTransaction struct {
	Slot uint64
	Meta *struct{ Err any }

	Transaction struct {
		Message struct {
			AccountKeys  []string `json:"accountKeys"`
			Instructions []struct {
				Program  int `json:"programIdIndex"`
				Accounts []int
				Data     string
			}
		}
	}
}

// compareTransaction checks that the transaction committed the anchor's root. If the
// account has committed to a newer root since, only this check proves the anchor.
func (a *Anchor) compareTransaction(tx *solanaTransaction, owner string) error {
	if tx == nil || tx.Meta == nil {
		return Wrong(ErrChain, "anchor.txSignature", "the node knows no such transaction; if it keeps no long history, ask one that does")
	}
	if tx.Meta.Err != nil {
		return Wrong(ErrChain, "anchor.txSignature", "that transaction failed")
	}
	for size, root := range tx.commitments(a, owner) {
		if size != a.CommittedSize || root != a.CommittedRoot {
			continue
		}
		if tx.Slot != a.Slot {
			return Wrong(ErrChain, "anchor.slot", "it is %d, the transaction landed in slot %d", a.Slot, tx.Slot)
		}
		return nil
	}
	return Wrong(ErrChain, "anchor.txSignature", "that transaction does not commit anchor.committedRoot at anchor.committedSize to anchor.account")
}

// Node is a JSON-RPC endpoint. The URL may hold a key, so errors leave it out.
type Node struct {
	URL  string
	HTTP *http.Client
}

func (n Node) call(ctx context.Context, result any, method string, params ...any) error {
	reply, err := n.post(ctx, map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": append([]any{}, params...)})
	if err != nil {
		if quoted, ok := errors.AsType[*url.Error](err); ok {
			err = quoted.Err
		}
		return fmt.Errorf("%w: %s: %w", ErrUnreachable, method, err)
	}
	var answer struct {
		Result jsontext.Value
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(reply, &answer, json.MatchCaseInsensitiveNames(true)); err != nil {
		return malformedReply(method)
	}
	if answer.Error != nil {
		return fmt.Errorf("%w: %s: %s", ErrUnreachable, method, answer.Error.Message)
	}
	if err := json.Unmarshal(answer.Result, result, json.MatchCaseInsensitiveNames(true)); err != nil {
		return malformedReply(method)
	}
	return nil
}

func (n Node) genesisHash(ctx context.Context) (hash string, err error) {
	const method = "getGenesisHash"
	if err := n.call(ctx, &hash, method); err != nil {
		return "", err
	}
	if !leaf.IsBase58(hash, 32) {
		return "", malformedReply(method)
	}
	return hash, nil
}

// account returns nil only if the node says that there is no such account, and the slot that
// the node had reached.
func (n Node) account(ctx context.Context, address string) (account *solanaAccount, reached uint64, err error) {
	const method = "getAccountInfo"
	var reply struct {
		Context struct{ Slot uint64 }
		Value   jsontext.Value
	}
	if err := n.call(ctx, &reply, method, address, map[string]any{"encoding": "base64", "commitment": "finalized"}); err != nil {
		return nil, 0, err
	}
	if err := json.Unmarshal(reply.Value, &account, json.MatchCaseInsensitiveNames(true)); err != nil {
		return nil, 0, malformedReply(method)
	}
	return account, reply.Context.Slot, nil
}

// transaction returns nil if the node does not know it.
func (n Node) transaction(ctx context.Context, signature string) (tx *solanaTransaction, err error) {
	options := map[string]any{"encoding": "json", "commitment": "confirmed", "maxSupportedTransactionVersion": 1}
	err = n.call(ctx, &tx, "getTransaction", signature, options)
	return tx, err
}

func malformedReply(method string) error {
	return fmt.Errorf("%w: %s: malformed reply", ErrUnreachable, method)
}

func (n Node) post(ctx context.Context, call any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	body, err := json.Marshal(call)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := n.HTTP.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(io.LimitReader(response.Body, 4<<20))
}
