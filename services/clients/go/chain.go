package memoryledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"filippo.io/edwards25519"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mr-tron/base58"
)

const (
	callTimeout = 15 * time.Second
	maxReply    = 4 << 20

	// The account's layout, see docs/verify.md.
	accountMagic = "MLCOMMT1"
	accountSize  = 128
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
// names its own program and account, so take both members from another source.
type Issuer struct {
	ProgramID string // empty: any
	// Authority needs ProgramID: another program can write anything to its accounts.
	Authority string // empty: any
}

// VerifyOnchain asks a Solana node, by its JSON-RPC URL, whether the anchor's commitment
// is on the chain. Verify the receipt first. A *VerificationError names the wrong field.
// ErrNotAnchored means that there is no anchor yet. Any other error is ErrChainUnreachable
// or the context's.
func (r *Receipt) VerifyOnchain(ctx context.Context, rpcURL string) (*Onchain, error) {
	return r.Anchor.verifyOnchain(ctx, solanaNode{rpcURL, http.DefaultClient}, r.Entry.Owner)
}

// VerifyOnchain is like [Receipt.VerifyOnchain], for the anchor of an export.
func (h *ExportHeader) VerifyOnchain(ctx context.Context, rpcURL string) (*Onchain, error) {
	return h.Anchor.verifyOnchain(ctx, solanaNode{rpcURL, http.DefaultClient}, h.Owner)
}

// VerifyIssuer checks that the issuer anchored the receipt. It needs no chain. The error
// is a *VerificationError, ErrNotAnchored, or says that the issuer is malformed.
func (r *Receipt) VerifyIssuer(by Issuer) error { return r.Anchor.verifyIssuer(by, r.Entry.Owner) }

// VerifyIssuer is like [Receipt.VerifyIssuer], for the anchor of an export.
func (h *ExportHeader) VerifyIssuer(by Issuer) error { return h.Anchor.verifyIssuer(by, h.Owner) }

func notAnchored() error {
	return fmt.Errorf("%w: it was made before its anchor; fetch it again, or complete it", ErrNotAnchored)
}

func (a *Anchor) verifyIssuer(by Issuer, owner string) error {
	if by.ProgramID != "" && !isBase58(by.ProgramID, 32) || by.Authority != "" && (!isBase58(by.Authority, 32) || by.ProgramID == "") {
		return errors.New("memoryledger: an issuer is a program, or a program and an authority, in base58")
	}
	switch {
	case a == nil:
		return notAnchored()
	case by.ProgramID != "" && a.ProgramID != by.ProgramID:
		return wrong(ErrChain, "anchor.programId", "it is %s, not %s", a.ProgramID, by.ProgramID)
	case by.Authority == "":
		return nil
	}
	if at := commitmentAddress(a.ProgramID, by.Authority, owner); at != a.Account {
		return wrong(ErrChain, "anchor.account", "it is %s, the authority commits to this owner's log at %s", a.Account, at)
	}
	return nil
}

func (a *Anchor) verifyOnchain(ctx context.Context, node solanaNode, owner string) (*Onchain, error) {
	if a == nil {
		return nil, notAnchored()
	}
	var genesis string
	if err := node.call(ctx, &genesis, "getGenesisHash"); err != nil {
		return nil, err
	}
	if genesis != a.Cluster {
		return nil, wrong(ErrChain, "anchor.cluster", "it is %s, the node is on the chain %s", a.Cluster, genesis)
	}
	var account struct{ Value *solanaAccount }
	if err := node.call(ctx, &account, "getAccountInfo", a.Account, map[string]any{"encoding": "base64", "commitment": "finalized"}); err != nil {
		return nil, err
	}
	held, err := a.compareAccount(account.Value, owner)
	if err != nil {
		return nil, err
	}
	var tx *solanaTransaction
	options := map[string]any{"encoding": "json", "commitment": "confirmed", "maxSupportedTransactionVersion": 0}
	if err := node.call(ctx, &tx, "getTransaction", a.TxSignature, options); err != nil {
		return nil, err
	}
	return held, a.compareTransaction(tx, owner)
}

type solanaAccount struct {
	Owner string
	Data  []string
}

func (a *Anchor) compareAccount(account *solanaAccount, owner string) (*Onchain, error) {
	if account == nil {
		return nil, wrong(ErrChain, "anchor.account", "there is no account %s on the chain", a.Account)
	}
	if account.Owner != a.ProgramID {
		return nil, wrong(ErrChain, "anchor.programId", "it is %s, the account belongs to %s", a.ProgramID, account.Owner)
	}
	if len(account.Data) != 2 || account.Data[1] != "base64" {
		return nil, fmt.Errorf("%w: malformed account", ErrChainUnreachable)
	}
	data, err := base64.StdEncoding.DecodeString(account.Data[0])
	if err != nil || len(data) != accountSize || string(data[:8]) != accountMagic {
		return nil, wrong(ErrChain, "anchor.account", "%s holds no commitment", a.Account)
	}
	held := &Onchain{Authority: base58.Encode(data[8:40]), Size: binary.LittleEndian.Uint64(data[72:]), Root: Hash(data[80:112])}
	slot := binary.LittleEndian.Uint64(data[112:])
	if of := base58.Encode(data[40:72]); of != owner {
		return nil, wrong(ErrChain, "anchor.account", "%s commits to the log of %s", a.Account, of)
	}
	if at := commitmentAddress(a.ProgramID, held.Authority, owner); at != a.Account {
		return nil, wrong(ErrChain, "anchor.account", "the program keeps this owner's commitment at %s", at)
	}
	switch {
	case held.Size < a.CommittedSize:
		return nil, wrong(ErrChain, "anchor.committedSize", "it is %d, the account holds %d leaves", a.CommittedSize, held.Size)
	case held.Size > a.CommittedSize:
		return held, nil
	case held.Root != a.CommittedRoot:
		return nil, wrong(ErrChain, "anchor.committedRoot", "it is %s, the account holds %s", a.CommittedRoot, held.Root)
	case slot != a.Slot:
		return nil, wrong(ErrChain, "anchor.slot", "it is %d, the account was last written in slot %d", a.Slot, slot)
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
		return wrong(ErrChain, "anchor.txSignature", "the node knows no such transaction; if it keeps no long history, ask one that does")
	}
	if tx.Meta.Err != nil {
		return wrong(ErrChain, "anchor.txSignature", "that transaction failed")
	}
	for size, root := range tx.commitments(a, owner) {
		if size != a.CommittedSize || root != a.CommittedRoot {
			continue
		}
		if tx.Slot != a.Slot {
			return wrong(ErrChain, "anchor.slot", "it is %d, the transaction landed in slot %d", a.Slot, tx.Slot)
		}
		return nil
	}
	return wrong(ErrChain, "anchor.txSignature", "that transaction does not commit anchor.committedRoot at anchor.committedSize to anchor.account")
}

// commitmentAddress returns the program-derived address of ["commitment", authority,
// owner]. It is empty if a key is malformed.
func commitmentAddress(program, authority, owner string) string {
	return programAddress(program, "commitment", authority, owner)
}

// programAddress returns a program's canonical derived address of a word, if it is not
// empty, and keys. It is empty if a key is malformed.
func programAddress(program, word string, keys ...string) string {
	seeds := [][]byte{[]byte(word)}
	for _, key := range append(keys, program) {
		if !isBase58(key, 32) {
			return ""
		}
		raw, _ := base58.Decode(key) // checked above
		seeds = append(seeds, raw)
	}
	last := len(seeds) - 1
	seeds = append(seeds[:last:last], nil, seeds[last], []byte("ProgramDerivedAddress"))
	for bump := 255; bump >= 0; bump-- {
		seeds[last] = []byte{byte(bump)}
		sum := sha256.Sum256(bytes.Join(seeds, nil))
		if _, err := new(edwards25519.Point).SetBytes(sum[:]); err != nil { // not on the curve
			return base58.Encode(sum[:])
		}
	}
	return ""
}

// solanaNode is a JSON-RPC endpoint. The URL may hold a key, so errors leave it out.
type solanaNode struct {
	url  string
	http *http.Client
}

func (n solanaNode) call(ctx context.Context, result any, method string, params ...any) error {
	reply, err := n.post(ctx, map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": append([]any{}, params...)})
	if err != nil {
		var quoted *url.Error
		if errors.As(err, &quoted) {
			err = quoted.Err
		}
		return fmt.Errorf("%w: %s: %w", ErrChainUnreachable, method, err)
	}
	var answer struct {
		Result jsontext.Value
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(reply, &answer, json.MatchCaseInsensitiveNames(true)); err != nil {
		return fmt.Errorf("%w: %s: malformed reply", ErrChainUnreachable, method)
	}
	if answer.Error != nil {
		return fmt.Errorf("%w: %s: %s", ErrChainUnreachable, method, answer.Error.Message)
	}
	if err := json.Unmarshal(answer.Result, result, json.MatchCaseInsensitiveNames(true)); err != nil {
		return fmt.Errorf("%w: %s: malformed reply", ErrChainUnreachable, method)
	}
	return nil
}

func (n solanaNode) post(ctx context.Context, call any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body, err := json.Marshal(call)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := n.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(io.LimitReader(response.Body, maxReply))
}
