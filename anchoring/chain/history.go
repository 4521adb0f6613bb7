package chain

import (
	"context"
	"errors"
	"math"
	"strconv"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/events/verify/leaf"
)

// MaxSignatures is the largest page that Signatures returns.
const MaxSignatures = 1000

// ErrNotYet: the node listed a transaction but does not have it, or does not have all of
// the requested data. A later call may succeed.
var ErrNotYet = errors.New("transaction not available yet")

// Signature is an entry of an account's history.
type Signature struct {
	Text   string
	Slot   uint64
	Failed bool // the transaction landed, but only its fee was charged
}

// Signatures returns the transactions that named an account, newest first, at most limit
// of them. It returns only transactions older than before (empty: start with the newest)
// and newer than until (empty: no bound).
func (c *Client) Signatures(ctx context.Context, account solana.PublicKey, before, until string, limit int, level Commitment) ([]Signature, error) {
	options := map[string]any{"commitment": level, "limit": limit}
	if before != "" {
		options["before"] = before
	}
	if until != "" {
		options["until"] = until
	}
	var reply []*struct {
		Signature string
		Slot      *uint64
		Err       any
	}
	if err := c.call(ctx, &reply, "getSignaturesForAddress", account.String(), options); err != nil {
		return nil, err
	}
	if reply == nil || len(reply) > limit {
		return nil, malformed("getSignaturesForAddress")
	}
	list := make([]Signature, len(reply))
	for i, v := range reply {
		if v == nil || v.Slot == nil || !leaf.IsBase58(v.Signature, solana.SignatureLength) {
			return nil, malformed("getSignaturesForAddress")
		}
		list[i] = Signature{v.Signature, *v.Slot, v.Err != nil}
	}
	return list, nil
}

// TokenChange is a transaction's effect on a token account.
type TokenChange struct {
	Account       string
	Mint          string
	Before, After uint64
}

type Landed struct {
	Slot     uint64
	UnixTime int64
	Failed   bool
	Tokens   []TokenChange
}

// tokenBalance is an entry of a transaction's pre- and postTokenBalances.
type tokenBalance struct {
	AccountIndex  int
	Mint          string
	UITokenAmount struct{ Amount string }
}

// Transaction returns a transaction's effects on token accounts.
func (c *Client) Transaction(ctx context.Context, signature string, level Commitment) (Landed, error) {
	const method = "getTransaction"
	var reply *struct {
		Slot        *uint64
		BlockTime   *int64
		Transaction struct {
			Message struct{ AccountKeys []string }
		}
		Meta *struct {
			Err               any
			PreTokenBalances  []tokenBalance
			PostTokenBalances []tokenBalance
			LoadedAddresses   struct{ Writable, Readonly []string }
		}
	}
	// Everyone can name an account in a transaction of any version. If the node may not show
	// one, the account's history can't be read.
	options := map[string]any{"commitment": level, "encoding": "json", "maxSupportedTransactionVersion": 1}
	if err := c.call(ctx, &reply, method, signature, options); err != nil {
		return Landed{}, err
	}
	// A validator may have a transaction but not its time: not yet, or no longer.
	if reply == nil || reply.Meta == nil || reply.BlockTime == nil {
		return Landed{}, ErrNotYet
	}
	if reply.Slot == nil || *reply.Slot > math.MaxInt64 || *reply.BlockTime < 0 {
		return Landed{}, malformed(method)
	}
	// A node omits balances that it did not record. The movement is unknown then.
	if reply.Meta.Err == nil && (reply.Meta.PreTokenBalances == nil || reply.Meta.PostTokenBalances == nil) {
		return Landed{}, malformed(method)
	}
	landed := Landed{Slot: *reply.Slot, UnixTime: *reply.BlockTime, Failed: reply.Meta.Err != nil}
	keys := append(reply.Transaction.Message.AccountKeys, reply.Meta.LoadedAddresses.Writable...)
	keys = append(keys, reply.Meta.LoadedAddresses.Readonly...)
	changes := make(map[int]*TokenChange)
	note := func(balances []tokenBalance, into func(*TokenChange) *uint64) bool {
		for _, b := range balances {
			amount, err := strconv.ParseUint(b.UITokenAmount.Amount, 10, 64)
			if err != nil || b.AccountIndex < 0 || b.AccountIndex >= len(keys) {
				return false
			}
			if changes[b.AccountIndex] == nil {
				changes[b.AccountIndex] = &TokenChange{Account: keys[b.AccountIndex], Mint: b.Mint}
			}
			*into(changes[b.AccountIndex]) = amount
		}
		return true
	}
	if !note(reply.Meta.PreTokenBalances, func(t *TokenChange) *uint64 { return &t.Before }) ||
		!note(reply.Meta.PostTokenBalances, func(t *TokenChange) *uint64 { return &t.After }) {
		return Landed{}, malformed(method)
	}
	for _, change := range changes {
		landed.Tokens = append(landed.Tokens, *change)
	}
	return landed, nil
}
