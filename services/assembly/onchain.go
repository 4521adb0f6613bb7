package assembly

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/services/config"
)

// userOf is the user in the first of the servers' URLs.
func userOf(servers string) string {
	first, _, _ := strings.Cut(servers, ",")
	u, err := url.Parse(strings.TrimSpace(first))
	if err != nil || u.User == nil {
		return ""
	}
	return u.User.Username()
}

// Onchain reads commitment accounts over JSON-RPC, for those who check what
// the anchorer says without being it.
type Onchain struct {
	URL                string
	Program, Authority solana.PublicKey
	HTTP               *http.Client // nil means one with a timeout
}

var _ audit.Chain = (*Onchain)(nil)

const (
	rpcTimeout  = 15 * time.Second
	rpcMaxBytes = 4 << 20
)

// auditChain is the configured chain, or why there is none.
func auditChain(cfg config.Config) (audit.Chain, string) {
	switch {
	case cfg.SolanaRPCURL == "":
		return nil, "SOLANA_RPC_URL is not set"
	case cfg.CommitmentProgramID == "":
		return nil, "COMMITMENT_PROGRAM_ID is not set"
	case cfg.AuthorityKeypair == "":
		return nil, "AUTHORITY_KEYPAIR is not set; an auditor names the authority's public key with --authority"
	}
	pair, err := solana.PrivateKeyFromSolanaKeygenFile(cfg.AuthorityKeypair)
	if err != nil || len(pair) != 64 {
		return nil, "AUTHORITY_KEYPAIR can't be read"
	}
	chain, err := NewOnchain(cfg, pair.PublicKey().String())
	if err != nil {
		return nil, err.Error()
	}
	return chain, ""
}

// NewOnchain reads the accounts of an authority, given in base58, on the
// configured chain.
func NewOnchain(cfg config.Config, authority string) (*Onchain, error) {
	o := &Onchain{URL: cfg.SolanaRPCURL}
	for name, key := range map[string]struct {
		text string
		to   *solana.PublicKey
	}{"COMMITMENT_PROGRAM_ID": {cfg.CommitmentProgramID, &o.Program}, "authority": {authority, &o.Authority}} {
		owner, err := events.ParseOwner(key.text) // the form is that of any public key
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		*key.to = owner.Bytes()
	}
	return o, nil
}

type rpcAccount struct {
	Owner string    `json:"owner"`
	Data  [2]string `json:"data"`
}

// Commitments implements audit.Chain with one request.
func (o *Onchain) Commitments(ctx context.Context, owners []events.Owner) ([]*audit.Commitment, error) {
	addresses := make([]string, len(owners))
	for i, owner := range owners {
		address, _, err := commitment.Address(o.Program, o.Authority, solana.PublicKey(owner.Bytes()))
		if err != nil {
			return nil, err
		}
		addresses[i] = address.String()
	}
	accounts, err := o.accounts(ctx, addresses)
	if err != nil {
		return nil, fmt.Errorf("read %d accounts: %w", len(addresses), err)
	}
	commitments := make([]*audit.Commitment, len(accounts))
	for i, account := range accounts {
		if account == nil || account.Owner != o.Program.String() {
			continue // nobody but the program can have committed
		}
		var data []byte
		if err := json.Unmarshal([]byte(`"`+account.Data[0]+`"`), &data); err != nil {
			return nil, fmt.Errorf("account %s: %w", addresses[i], err)
		}
		decoded, err := commitment.DecodeAccount(data)
		if err != nil {
			return nil, fmt.Errorf("account %s: %w", addresses[i], err)
		}
		if decoded.Owner != solana.PublicKey(owners[i].Bytes()) || decoded.Authority != o.Authority {
			return nil, fmt.Errorf("account %s is about another owner or authority", addresses[i])
		}
		commitments[i] = &audit.Commitment{Size: decoded.Size, Root: decoded.Root}
	}
	return commitments, nil
}

func (o *Onchain) accounts(ctx context.Context, addresses []string) ([]*rpcAccount, error) {
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "getMultipleAccounts",
		"params": []any{addresses, map[string]string{"encoding": "base64", "commitment": "finalized"}},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("SOLANA_RPC_URL: not a URL")
	}
	request.Header.Set("Content-Type", "application/json")
	client := o.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		// The URL may hold a provider's key, so it goes into no error.
		var named *url.Error
		if errors.As(err, &named) {
			err = named.Err
		}
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Result *struct {
			Value []*rpcAccount `json:"value"`
		} `json:"result"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, rpcMaxBytes)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("status %d: %w", response.StatusCode, err)
	}
	switch {
	case answer.Error != nil:
		return nil, fmt.Errorf("the chain says: %s", answer.Error.Message)
	case answer.Result == nil || len(answer.Result.Value) != len(addresses):
		return nil, fmt.Errorf("status %d: not an answer to getMultipleAccounts", response.StatusCode)
	}
	return answer.Result.Value, nil
}
