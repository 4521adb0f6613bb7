// Package chain is a client of a Solana JSON-RPC endpoint. It has only the few calls that
// anchoring needs, and checks replies strictly: it never reports a malformed or short
// reply, or an error, as a missing transaction or a missing account. Only an explicit
// null means missing.
//
// Heights and slots that are recorded fit into an int64, as the read models keep them: an
// event with a larger one would stop every projector for good.
//
// Every call has a deadline and a bound on the size of its reply. The URL may contain a
// secret, so no error contains the URL.
package chain

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events/verify/leaf"
)

var (
	// ErrUnreachable: there was no answer, or an unusable one. The request may or may not
	// have been carried out.
	ErrUnreachable = errors.New("chain unreachable")
	// ErrURL says that a text is not the URL of an endpoint.
	ErrURL = errors.New("not an http or https URL")
)

const (
	MaxStatuses = 256
	MaxAccounts = 100
)

// Commitment is the level of finality at which a call reads the state.
type Commitment string

const (
	Confirmed Commitment = "confirmed"
	Finalized Commitment = "finalized"
)

type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *RPCError) Error() string { return fmt.Sprintf("rpc error %d: %s", e.Code, e.Message) }

// Blockhash is a recent blockhash to sign over, and the last block height at which a
// transaction with it can land.
type Blockhash struct {
	Hash                 solana.Hash
	LastValidBlockHeight uint64
}

// Height is the position of the chain's newest finalized block.
type Height struct{ Block, Slot uint64 }

type Status struct {
	Slot       uint64
	Err        error // a *program.InstructionError; nil: it succeeded
	Commitment Commitment
}

// Account is the state of an account at the time of the read.
type Account struct {
	Owner solana.PublicKey
	Data  []byte
}

func (c *Client) GenesisHash(ctx context.Context) (string, error) {
	var hash string
	if err := c.call(ctx, &hash, "getGenesisHash"); err != nil {
		return "", err
	}
	if raw, ok := decoded(hash); !ok || raw.IsZero() {
		return "", malformed("getGenesisHash")
	}
	return hash, nil
}

func (c *Client) LatestBlockhash(ctx context.Context) (Blockhash, error) {
	var reply contextual[*struct {
		Blockhash            string
		LastValidBlockHeight uint64
	}]
	if err := c.call(ctx, &reply, "getLatestBlockhash", config{Commitment: Confirmed}); err != nil {
		return Blockhash{}, err
	}
	if reply.Value == nil || reply.Value.LastValidBlockHeight == 0 || reply.Value.LastValidBlockHeight > math.MaxInt64 {
		return Blockhash{}, malformed("getLatestBlockhash")
	}
	hash, ok := decoded(reply.Value.Blockhash)
	if !ok {
		return Blockhash{}, malformed("getLatestBlockhash")
	}
	return Blockhash{solana.Hash(hash), reply.Value.LastValidBlockHeight}, nil
}

// FinalizedHeight returns the block height and the slot of the same finalized block.
func (c *Client) FinalizedHeight(ctx context.Context) (Height, error) {
	var reply struct {
		AbsoluteSlot *uint64
		BlockHeight  *uint64
	}
	if err := c.call(ctx, &reply, "getEpochInfo", config{Commitment: Finalized}); err != nil {
		return Height{}, err
	}
	if reply.AbsoluteSlot == nil || reply.BlockHeight == nil {
		return Height{}, malformed("getEpochInfo")
	}
	return Height{*reply.BlockHeight, *reply.AbsoluteSlot}, nil
}

// Balance returns the lamports of an account, or 0 if the account does not exist.
func (c *Client) Balance(ctx context.Context, key solana.PublicKey) (uint64, error) {
	var reply contextual[*uint64]
	if err := c.call(ctx, &reply, "getBalance", key.String(), config{Commitment: Confirmed}); err != nil {
		return 0, err
	}
	if reply.Value == nil {
		return 0, malformed("getBalance")
	}
	return *reply.Value, nil
}

// Rent returns the lamports that an account of a size must hold.
func (c *Client) Rent(ctx context.Context, size int) (uint64, error) {
	var lamports *uint64
	if err := c.call(ctx, &lamports, "getMinimumBalanceForRentExemption", size); err != nil {
		return 0, err
	}
	if lamports == nil {
		return 0, malformed("getMinimumBalanceForRentExemption")
	}
	return *lamports, nil
}

// Send passes a signed transaction to the node. It returns nil if the node accepted it.
// That does not mean that the transaction will land. If preflight refused the transaction,
// the node did not forward it, and the error wraps that of program.TransactionError.
func (c *Client) Send(ctx context.Context, raw []byte, preflight bool) error {
	options := map[string]any{"encoding": "base64", "skipPreflight": !preflight, "preflightCommitment": Confirmed, "maxRetries": 0}
	var signature string
	err := c.call(ctx, &signature, "sendTransaction", base64.StdEncoding.EncodeToString(raw), options)
	var rpc *RPCError
	const preflightFailure = -32002
	if !errors.As(err, &rpc) || rpc.Code != preflightFailure {
		return err
	}
	var data struct{ Err any }
	if json.Unmarshal(rpc.Data, &data) != nil {
		return err
	}
	if failure := program.TransactionError(data.Err); failure != nil {
		return fmt.Errorf("refused by preflight: %w", failure)
	}
	return err
}

// Statuses returns the status of each signature, nil if the node does not know it, and
// the slot that the node had reached. With history it also searches beyond the last few
// minutes.
func (c *Client) Statuses(ctx context.Context, signatures []string, history bool) ([]*Status, uint64, error) {
	if len(signatures) > MaxStatuses {
		return nil, 0, fmt.Errorf("%d signatures in one call", len(signatures))
	}
	var reply contextual[[]*struct {
		Slot               *uint64
		Err                any
		ConfirmationStatus *string
	}]
	options := map[string]any{"searchTransactionHistory": history}
	if err := c.call(ctx, &reply, "getSignatureStatuses", signatures, options); err != nil {
		return nil, 0, err
	}
	if len(reply.Value) != len(signatures) || reply.Context.Slot == nil {
		return nil, 0, malformed("getSignatureStatuses")
	}
	statuses := make([]*Status, len(signatures))
	for i, v := range reply.Value {
		if v == nil {
			continue
		}
		if v.Slot == nil {
			return nil, 0, malformed("getSignatureStatuses")
		}
		statuses[i] = &Status{Slot: *v.Slot, Err: program.TransactionError(v.Err)}
		if v.ConfirmationStatus != nil {
			statuses[i].Commitment = Commitment(*v.ConfirmationStatus)
		}
	}
	return statuses, *reply.Context.Slot, nil
}

// Accounts returns the accounts, nil for those that do not exist, and the slot at which
// they were read.
func (c *Client) Accounts(ctx context.Context, keys []solana.PublicKey, commitment Commitment) ([]*Account, uint64, error) {
	if len(keys) > MaxAccounts {
		return nil, 0, fmt.Errorf("%d accounts in one call", len(keys))
	}
	var reply contextual[[]*struct {
		Owner string
		Data  []string
	}]
	options := map[string]any{"encoding": "base64", "commitment": commitment}
	if err := c.call(ctx, &reply, "getMultipleAccounts", keys, options); err != nil {
		return nil, 0, err
	}
	if len(reply.Value) != len(keys) || reply.Context.Slot == nil {
		return nil, 0, malformed("getMultipleAccounts")
	}
	accounts := make([]*Account, len(keys))
	for i, v := range reply.Value {
		if v == nil {
			continue
		}
		if len(v.Data) != 2 || v.Data[1] != "base64" {
			return nil, 0, malformed("getMultipleAccounts")
		}
		owner, ok := decoded(v.Owner)
		data, err := base64.StdEncoding.DecodeString(v.Data[0])
		if err != nil || !ok {
			return nil, 0, malformed("getMultipleAccounts")
		}
		accounts[i] = &Account{owner, data}
	}
	return accounts, *reply.Context.Slot, nil
}

// config is the last parameter of many calls.
type config struct {
	Commitment Commitment `json:"commitment"`
}

// contextual is a value and the slot at which it was read.
type contextual[T any] struct {
	Context struct{ Slot *uint64 }
	Value   T
}

// decoded decodes a key or hash. solana-go's decoders take hours for a text as long as a
// reply may be, so the form is checked first.
func decoded(text string) (key solana.PublicKey, ok bool) {
	if !leaf.IsBase58(text, solana.PublicKeyLength) {
		return key, false
	}
	key, err := solana.PublicKeyFromBase58(text)
	return key, err == nil
}

func malformed(method string) error {
	return fmt.Errorf("%s: %w: malformed reply", method, ErrUnreachable)
}

// maxReply bounds the bytes of a reply.
const maxReply = 8 << 20

// Client talks to one endpoint. It is safe for concurrent use.
type Client struct {
	url     string
	http    *http.Client
	timeout time.Duration
}

// New returns a client. It does not connect.
func New(endpoint string) (*Client, error) {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, ErrURL
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 16
	// A call that ran into its deadline leaves an HTTP/2 connection in use. If the other end
	// has forgotten the connection, only a ping shows that.
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second}
	return &Client{url: endpoint, http: &http.Client{Transport: transport}, timeout: 10 * time.Second}, nil
}

func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) call(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	reply, err := c.post(ctx, body)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", method, ErrUnreachable, err)
	}
	var envelope struct {
		Result json.RawMessage `json:"result"`
		Error  *RPCError       `json:"error"`
	}
	if err := json.Unmarshal(reply, &envelope); err != nil {
		return malformed(method)
	}
	if envelope.Error != nil {
		return fmt.Errorf("%s: %w", method, envelope.Error)
	}
	if len(envelope.Result) == 0 {
		return malformed(method)
	}
	if err := json.Unmarshal(envelope.Result, result); err != nil {
		return malformed(method)
	}
	return nil
}

func (c *Client) post(ctx context.Context, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("bad request")
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		// The transport's error quotes the URL; the error inside it does not.
		if quoted, ok := errors.AsType[*url.Error](err); ok {
			err = quoted.Err
		}
		return nil, err
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	switch {
	case err != nil:
		return nil, err
	case len(reply) > maxReply:
		return nil, fmt.Errorf("reply of more than %d bytes", maxReply)
	case response.StatusCode != http.StatusOK && !json.Valid(reply):
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	return reply, nil
}
