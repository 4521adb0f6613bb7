package assembly

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/services/run/config"
)

// userOf returns the user in the first of the servers' URLs.
func userOf(servers string) string {
	first, _, _ := strings.Cut(servers, ",")
	u, err := url.Parse(strings.TrimSpace(first))
	if err != nil || u.User == nil {
		return ""
	}
	return u.User.Username()
}

// Onchain reads commitment accounts over JSON-RPC, to check the anchorer.
type Onchain struct {
	client             *chain.Client
	program, authority solana.PublicKey
}

var _ audit.Chain = (*Onchain)(nil)

// auditChain returns the configured chain, or why there is none. If the chain's
// configuration is wrong, every request to the returned chain fails with that error.
func auditChain(cfg config.Config) (audit.Chain, string) {
	switch {
	case cfg.SolanaRPCURL == "":
		return nil, "SOLANA_RPC_URL is not set"
	case cfg.CommitmentProgramID == "":
		return nil, "COMMITMENT_PROGRAM_ID is not set"
	case cfg.AuthorityKeypair == "":
		return nil, "AUTHORITY_KEYPAIR is not set; an auditor names the authority's public key with --authority"
	}
	pair, err := cfg.Authority()
	if err != nil {
		return unaskable{err}, ""
	}
	onchain, err := NewOnchain(cfg, pair.PublicKey().String())
	if err != nil {
		return unaskable{err}, ""
	}
	return onchain, ""
}

// unaskable is a chain whose configuration is wrong.
type unaskable struct{ why error }

func (u unaskable) GenesisHash(context.Context) (string, error) { return "", u.why }

func (u unaskable) Commitments(context.Context, []events.Owner) ([]*audit.Commitment, error) {
	return nil, u.why
}

// NewOnchain returns a reader of the accounts of an authority, given in base58, on the
// configured chain.
func NewOnchain(cfg config.Config, authority string) (*Onchain, error) {
	client, errURL := cfg.Chain()
	program, errProgram := cfg.Program()
	key, errKey := events.ParseOwner(authority) // all public keys have the same form
	if errKey != nil {
		errKey = fmt.Errorf("authority: %w", errKey)
	}
	if err := errors.Join(errURL, errProgram, errKey); err != nil {
		return nil, err
	}
	return &Onchain{client, program, key.Bytes()}, nil
}

// GenesisHash implements audit.Chain.
func (o *Onchain) GenesisHash(ctx context.Context) (string, error) {
	genesis, err := o.client.GenesisHash(ctx)
	if err != nil {
		return "", fmt.Errorf("ask which chain it is: %w", err)
	}
	return genesis, nil
}

// Commitments implements audit.Chain with two requests. It requests the genesis hash
// last, to learn which chain answered.
func (o *Onchain) Commitments(ctx context.Context, owners []events.Owner) ([]*audit.Commitment, error) {
	addresses := make([]solana.PublicKey, len(owners))
	for i, owner := range owners {
		var err error
		if addresses[i], _, err = commitment.Address(o.program, o.authority, owner.Bytes()); err != nil {
			return nil, err
		}
	}
	accounts, _, err := o.client.Accounts(ctx, addresses, chain.Finalized)
	if err != nil {
		return nil, fmt.Errorf("read %d accounts: %w", len(addresses), err)
	}
	cluster, err := o.client.GenesisHash(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask which chain it is: %w", err)
	}
	commitments := make([]*audit.Commitment, len(accounts))
	for i, account := range accounts {
		if account == nil || account.Owner != o.program {
			continue // only the program can commit
		}
		decoded, err := verify.DecodeAccount(account.Data)
		if err != nil {
			return nil, fmt.Errorf("account %s: %w", addresses[i], err)
		}
		if decoded.Owner != solana.PublicKey(owners[i].Bytes()) || decoded.Authority != o.authority {
			return nil, fmt.Errorf("account %s is about another owner or authority", addresses[i])
		}
		commitments[i] = &audit.Commitment{
			Size: decoded.Size, Root: decoded.Root, Slot: decoded.Slot,
			Cluster: cluster, ProgramID: o.program.String(), Account: addresses[i].String(),
		}
	}
	return commitments, nil
}
