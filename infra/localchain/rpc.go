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

// Fault causes a failure, or another change: see package localchaintest. A chain accepts
// faults only if Config.Faults allowed them.
func (c *Chain) Fault(ctx context.Context, fault map[string]any) error {
	return c.Call(ctx, nil, "_fault", fault)
}
