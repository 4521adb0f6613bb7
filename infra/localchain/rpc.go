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

// Call makes one JSON-RPC call and decodes its result into result, unless nil.
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

// Fund airdrops to an account what it lacks of so many lamports.
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

// Fault is something that goes wrong on purpose; see the functions that make
// one. A chain takes faults only where Config.Faults allowed them.
type Fault map[string]any

// Drop loses the next transactions, which get their signatures all the same.
func Drop(count int) Fault { return Fault{"op": "drop", "count": count} }

// LoseReply does the next calls of a method and closes the connection unanswered.
func LoseReply(method string, count int) Fault {
	return Fault{"op": "loseReply", "method": method, "count": count}
}

// Fail refuses the next calls of a method, undone, with an internal error.
func Fail(method string, count int) Fault {
	return Fault{"op": "fail", "method": method, "count": count}
}

// Down closes every connection unanswered, nothing done, until Down(false).
func Down(on bool) Fault { return Fault{"op": "down", "on": on} }

// Behind makes the node unhealthy by so many slots; 0 heals it.
func Behind(slots int) Fault { return Fault{"op": "behind", "slots": slots} }

// Lag has confirmations come so many slots later.
func Lag(slots int) Fault { return Fault{"op": "lag", "slots": slots} }

// Expire makes every blockhash that was handed out too old.
func Expire() Fault { return Fault{"op": "expire"} }

// Advance lets slots pass now.
func Advance(slots int) Fault { return Fault{"op": "advance", "slots": slots} }

// Clock moves the chain's time, from where it runs on.
func Clock(unixTimestamp int64) Fault {
	return Fault{"op": "clock", "unixTimestamp": unixTimestamp}
}

// SetAccount replaces an account by force.
func SetAccount(address string, lamports uint64, owner string, data []byte) Fault {
	return Fault{"op": "setAccount", "address": address, "lamports": lamports, "owner": owner, "data": data}
}

// Rent sets the rent sysvar: lamports a byte and year, and for how many years an
// account must pay ahead to be exempt. Clusters have had 3480 for 2 years and
// 6960 for 1, which come to the same.
func Rent(rate uint64, threshold float64) Fault {
	return Fault{"op": "rent", "rate": rate, "threshold": threshold}
}

// Reset starts another chain in the place of this one: another genesis, all
// state and history gone, the configured programs deployed.
func Reset() Fault { return Fault{"op": "reset"} }

// Fault makes something go wrong.
func (c *Chain) Fault(ctx context.Context, fault Fault) error {
	return c.Call(ctx, nil, "_fault", fault)
}
