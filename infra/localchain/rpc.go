package localchain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// RPCError is an error that the chain answered with.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *RPCError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// calls uses a new connection for each call. The chain's server closes a connection
// that was idle for five seconds. A call at that moment would fail with EOF, and the
// caller would not know whether the server got the call.
var calls = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Call makes one JSON-RPC call and decodes its result into result, unless result is nil.
func (c *Chain) Call(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := calls.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer res.Body.Close()
	var reply struct {
		Result json.RawMessage
		Error  *RPCError
	}
	if err := json.NewDecoder(res.Body).Decode(&reply); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if reply.Error != nil {
		return fmt.Errorf("%s: %w", method, reply.Error)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(reply.Result, result)
}

// Fund airdrops as much as an account lacks to hold that many lamports.
func (c *Chain) Fund(ctx context.Context, address string, lamports uint64) error {
	var balance struct{ Value uint64 }
	processed := map[string]string{"commitment": "processed"}
	if err := c.Call(ctx, &balance, "getBalance", address, processed); err != nil {
		return err
	}
	if balance.Value >= lamports {
		return nil
	}
	return c.Call(ctx, nil, "requestAirdrop", address, lamports-balance.Value)
}

// Fault is a failure, or another change, that a test causes on purpose. See the functions
// that make one. A chain accepts faults only if Config.Faults allowed them.
type Fault map[string]any

// Drop makes the chain lose the next transactions. Their senders still get signatures.
func Drop(count int) Fault { return Fault{"op": "drop", "count": count} }

// LoseReply executes the next calls of a method, but closes their connections without a
// reply.
func LoseReply(method string, count int) Fault {
	return Fault{"op": "loseReply", "method": method, "count": count}
}

// Fail refuses the next calls of a method with an internal error, and does not execute
// them.
func Fail(method string, count int) Fault {
	return Fault{"op": "fail", "method": method, "count": count}
}

// Down makes the chain close every connection until Down(false). It neither executes nor
// answers the calls.
func Down(on bool) Fault { return Fault{"op": "down", "on": on} }

// Lag delays confirmations by that many slots.
func Lag(slots int) Fault { return Fault{"op": "lag", "slots": slots} }

// Expire makes every blockhash that the chain has returned too old.
func Expire() Fault { return Fault{"op": "expire"} }

// Advance makes that many slots pass now.
func Advance(slots int) Fault { return Fault{"op": "advance", "slots": slots} }

// Clock sets the chain's time, which runs on from there.
func Clock(unixTimestamp int64) Fault {
	return Fault{"op": "clock", "unixTimestamp": unixTimestamp}
}

// SetAccount replaces an account by force.
func SetAccount(address string, lamports uint64, owner string, data []byte) Fault {
	return Fault{"op": "setAccount", "address": address, "lamports": lamports, "owner": owner, "data": data}
}

// Rent sets the rent sysvar: rate is in lamports per byte and year, and threshold is how
// many years an account must pay ahead to be exempt. Clusters have had 3480 for 2 years
// and 6960 for 1 year, which give the same amount.
func Rent(rate uint64, threshold float64) Fault {
	return Fault{"op": "rent", "rate": rate, "threshold": threshold}
}

// Reset replaces this chain with another one, which has another genesis, no state, no
// history, and the configured programs deployed.
func Reset() Fault { return Fault{"op": "reset"} }

// Fault causes a fault.
func (c *Chain) Fault(ctx context.Context, fault Fault) error {
	return c.Call(ctx, nil, "_fault", fault)
}
