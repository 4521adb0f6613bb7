package receipt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"time"

	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/events"
)

// ErrUnreachable says that the node gave no usable answer.
var ErrUnreachable = errors.New("the Solana node gave no usable answer")

const (
	callTimeout = 15 * time.Second
	maxReply    = 4 << 20
)

// Onchain is the state of a receipt's account, as reported by a node.
type Onchain struct {
	// Authority is the committer. The chain does not say whether that is the expected
	// issuer of the receipt. See Issuer.
	Authority string
	// Size is the number of leaves that the account holds now. If the account has moved
	// on, the transaction proves the receipt's own commitment.
	Size uint64
	Root events.Hash
}

// Check asks a Solana node (a JSON-RPC URL) whether the receipt's anchor is on the chain.
// Verify the receipt first. A *Finding says what is wrong. An error that wraps
// ErrUnreachable, or ErrNotAnchored, says nothing about the receipt.
func Check(ctx context.Context, endpoint string, r *Receipt) (*Onchain, error) {
	if r.Anchor == nil {
		return nil, ErrNotAnchored
	}
	return CheckAnchor(ctx, endpoint, r.Anchor, r.Entry.Owner)
}

// CheckAnchor is Check for an anchor of an owner's log from any source.
func CheckAnchor(ctx context.Context, endpoint string, a *Anchor, owner events.Owner) (*Onchain, error) {
	n := &solanaNode{endpoint}
	var genesis string
	if err := n.call(ctx, &genesis, "getGenesisHash"); err != nil {
		return nil, err
	}
	if genesis != a.Cluster {
		return nil, wrong("anchor.cluster", "it is %s, the node is on the chain %s", a.Cluster, genesis)
	}
	account, err := n.account(ctx, a.Account)
	if err != nil {
		return nil, err
	}
	held, err := a.matches(account, owner)
	if err != nil {
		return nil, err
	}
	if err := n.committed(ctx, a, owner); err != nil {
		return nil, err
	}
	return held, nil
}

// solanaAccount is an account as the node returns it.
type solanaAccount struct {
	Owner string
	Data  []string
}

// The account's layout; anchoring/program/README.md describes it.
const (
	accountMagic = "MLCOMMT1"
	accountLen   = 128
)

// matches compares the account with the anchor.
func (a *Anchor) matches(account *solanaAccount, owner events.Owner) (*Onchain, error) {
	if account == nil {
		return nil, wrong("anchor.account", "there is no account %s on the chain", a.Account)
	}
	if account.Owner != a.ProgramID {
		return nil, wrong("anchor.programId", "it is %s, the account belongs to %s", a.ProgramID, account.Owner)
	}
	if len(account.Data) != 2 || account.Data[1] != "base64" {
		return nil, fmt.Errorf("%w: malformed account", ErrUnreachable)
	}
	data, err := base64.StdEncoding.DecodeString(account.Data[0])
	if err != nil || len(data) != accountLen || string(data[:8]) != accountMagic {
		return nil, wrong("anchor.account", "%s holds no commitment", a.Account)
	}
	if key := owner.Bytes(); !bytes.Equal(data[40:72], key[:]) {
		return nil, wrong("anchor.account", "%s commits to the log of %s", a.Account, base58.Encode(data[40:72]))
	}
	if derived := derive(a.ProgramID, data[8:40], data[40:72]); derived != a.Account {
		return nil, wrong("anchor.account", "the program keeps this owner's commitment at %s", derived)
	}
	held := &Onchain{Authority: base58.Encode(data[8:40]), Size: binary.LittleEndian.Uint64(data[72:]), Root: events.Hash(data[80:112])}
	slot := binary.LittleEndian.Uint64(data[112:])
	switch {
	case held.Size < a.CommittedSize:
		return nil, wrong("anchor.committedSize", "it is %d, the account holds %d leaves", a.CommittedSize, held.Size)
	case held.Size > a.CommittedSize:
		return held, nil
	case held.Root != a.CommittedRoot:
		return nil, wrong("anchor.committedRoot", "it is %s, the account holds %s", a.CommittedRoot, held.Root)
	case slot != a.Slot:
		return nil, wrong("anchor.slot", "it is %d, the account was last written in slot %d", a.Slot, slot)
	}
	return held, nil
}

// committed checks that the anchor's transaction committed its root. Once the account has
// moved on, only the transaction proves that.
func (n *solanaNode) committed(ctx context.Context, a *Anchor, owner events.Owner) error {
	var tx *struct {
		Slot uint64
		Meta *struct{ Err any }

		Transaction struct {
			Message struct {
				AccountKeys  []string
				Instructions []struct {
					ProgramIDIndex int `json:"programIdIndex"`
					Accounts       []int
					Data           string
				}
			}
		}
	}
	options := map[string]any{"encoding": "json", "commitment": "confirmed", "maxSupportedTransactionVersion": 0}
	if err := n.call(ctx, &tx, "getTransaction", a.TxSignature, options); err != nil {
		return err
	}
	if tx == nil || tx.Meta == nil {
		return wrong("anchor.txSignature", "the node knows no such transaction; if it keeps no long history, ask one that does")
	}
	if tx.Meta.Err != nil {
		return wrong("anchor.txSignature", "that transaction failed")
	}
	key := owner.Bytes()
	want := binary.LittleEndian.AppendUint64(nil, 1)
	want = append(want, key[:]...)
	want = binary.LittleEndian.AppendUint64(want, a.CommittedSize)
	want = append(want, a.CommittedRoot[:]...)
	keys := tx.Transaction.Message.AccountKeys
	name := func(i int) string {
		if i < 0 || i >= len(keys) {
			return ""
		}
		return keys[i]
	}
	for _, in := range tx.Transaction.Message.Instructions {
		if name(in.ProgramIDIndex) != a.ProgramID || len(in.Accounts) < 2 || name(in.Accounts[1]) != a.Account || in.Data != base58.Encode(want) {
			continue
		}
		if tx.Slot != a.Slot {
			return wrong("anchor.slot", "it is %d, the transaction landed in slot %d", a.Slot, tx.Slot)
		}
		return nil
	}
	return wrong("anchor.txSignature", "that transaction does not commit anchor.committedRoot at anchor.committedSize to anchor.account")
}

// solanaNode is a JSON-RPC endpoint.
type solanaNode struct{ url string }

func (n *solanaNode) account(ctx context.Context, address string) (*solanaAccount, error) {
	var reply struct{ Value *solanaAccount }
	options := map[string]any{"encoding": "base64", "commitment": "finalized"}
	err := n.call(ctx, &reply, "getAccountInfo", address, options)
	return reply.Value, err
}

func (n *solanaNode) call(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: not a URL", ErrUnreachable)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		var quoted *url.Error // it quotes the URL, which may contain a key
		if errors.As(err, &quoted) {
			err = quoted.Err
		}
		return fmt.Errorf("%w: %s: %w", ErrUnreachable, method, err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnreachable, method, err)
	}
	var reply struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(raw, &reply); err != nil {
		return fmt.Errorf("%w: %s: status %d", ErrUnreachable, method, response.StatusCode)
	}
	if reply.Error != nil {
		return fmt.Errorf("%w: %s: %s", ErrUnreachable, method, reply.Error.Message)
	}
	if err := json.Unmarshal(reply.Result, result); err != nil {
		return fmt.Errorf("%w: %s: malformed reply", ErrUnreachable, method)
	}
	return nil
}

// derive computes the address at which a program keeps an authority's commitment to an
// owner's log: the canonical program-derived address of ["commitment", authority, owner].
// It returns "" if there is none.
func derive(program string, authority, owner []byte) string {
	id, err := base58.Decode(program)
	if err != nil {
		return ""
	}
	for bump := 255; bump >= 0; bump-- {
		h := sha256.New()
		h.Write([]byte("commitment"))
		h.Write(authority)
		h.Write(owner)
		h.Write([]byte{byte(bump)})
		h.Write(id)
		h.Write([]byte("ProgramDerivedAddress"))
		if sum := h.Sum(nil); !onCurve(sum) {
			return base58.Encode(sum)
		}
	}
	return ""
}

var (
	one       = big.NewInt(1)
	curveP    = new(big.Int).Sub(new(big.Int).Lsh(one, 255), big.NewInt(19))
	curveD, _ = new(big.Int).SetString("37095705934669439343138083508754565189542113879843219016388785533085940283555", 10)
)

// onCurve reports whether 32 bytes are a point of ed25519: whether
// x² = (y² - 1) / (dy² + 1) has a solution.
func onCurve(point []byte) bool {
	big32 := make([]byte, 32)
	for i := range big32 {
		big32[i] = point[31-i]
	}
	big32[0] &= 0x7f // the sign of x
	y2 := new(big.Int).SetBytes(big32)
	y2.Mul(y2, y2)
	numerator := new(big.Int).Sub(y2, one)
	denominator := new(big.Int).Mul(y2, curveD)
	denominator.Add(denominator, one).Mod(denominator, curveP)
	x2 := new(big.Int).ModInverse(denominator, curveP)
	x2.Mul(x2, numerator).Mod(x2, curveP)
	return big.Jacobi(x2, curveP) >= 0
}
