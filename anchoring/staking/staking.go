// Package staking is the on-chain part of staking. A wallet's vault is a token account
// that only the on-chain program can move tokens out of, and only for that wallet.
// ../program/README.md describes the bytes of the instructions that fill and empty a
// vault; golden vectors are in testdata. Chain reads vaults and builds unsigned
// transactions, Watcher records the movements of vaults, and package lots does the
// arithmetic. Nothing here signs.
package staking

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gagliardetto/solana-go"
	associatedtokenaccount "github.com/gagliardetto/solana-go/programs/associated-token-account"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/staking/lots"
	"github.com/memory-ledger/ledger/events"
)

const seed = "vault"

// Kind is the tag of an instruction.
type Kind uint64

const (
	Stake Kind = 2 + iota
	Unstake
)

// instruction returns an instruction's data: tag u64, amount u64 in base units of the mint,
// little-endian.
func (k Kind) instruction(amount uint64) []byte {
	tag := binary.LittleEndian.AppendUint64(nil, uint64(k))
	return binary.LittleEndian.AppendUint64(tag, amount)
}

// Vault returns the address of a wallet's vault for a mint: the canonical address of
// ["vault", mint, wallet].
func Vault(program, mint, wallet solana.PublicKey) solana.PublicKey {
	return found(solana.FindProgramAddress([][]byte{[]byte(seed), mint[:], wallet[:]}, program))
}

// tokensOf returns the address of the wallet's associated token account.
func (c *Chain) tokensOf(wallet solana.PublicKey) solana.PublicKey {
	return found(solana.FindAssociatedTokenAddress(wallet, c.mint))
}

func found(address solana.PublicKey, _ uint8, err error) solana.PublicKey {
	if err != nil {
		panic(err) // no bump gives an address: one of 2^256 wallets
	}
	return address
}

// NewStake returns the instruction that moves amount from the wallet's token account into
// its vault. The first stake creates the vault, and the wallet pays for it.
func NewStake(program, mint, wallet, source solana.PublicKey, amount uint64) solana.Instruction {
	return solana.NewInstruction(program, solana.AccountMetaSlice{
		solana.Meta(wallet).SIGNER().WRITE(),
		solana.Meta(source).WRITE(),
		solana.Meta(Vault(program, mint, wallet)).WRITE(),
		solana.Meta(mint),
		solana.Meta(solana.TokenProgramID),
		solana.Meta(solana.SystemProgramID),
	}, Stake.instruction(amount))
}

// NewUnstake returns the instruction that moves amount from the wallet's vault
// into a token account of the same mint.
func NewUnstake(program, mint, wallet, destination solana.PublicKey, amount uint64) solana.Instruction {
	return solana.NewInstruction(program, solana.AccountMetaSlice{
		solana.Meta(wallet).SIGNER(),
		solana.Meta(destination).WRITE(),
		solana.Meta(Vault(program, mint, wallet)).WRITE(),
		solana.Meta(mint),
		solana.Meta(solana.TokenProgramID),
	}, Unstake.instruction(amount))
}

// Errors about the state of the chain.
var (
	// ErrUnreadable: the chain gave no answer, or no usable one. Every amount is then
	// unknown, not zero.
	ErrUnreadable = errors.New("the chain could not be read")
	// ErrToken2022: staking supports plain SPL tokens only. A mint of Token-2022 may take
	// fees, freeze, or let others move tokens, so a vault might not hold what was staked.
	ErrToken2022 = errors.New("the mint belongs to Token-2022, which staking does not support")
	// ErrNotMint: there is no SPL Token mint at the address.
	ErrNotMint = errors.New("no SPL Token mint at this address")
	// ErrNoProgram: there is no account at the staking program's address.
	ErrNoProgram = errors.New("no program at this address")
)

// The SPL Token accounts, as far as they are read.
type (
	mintData struct {
		_           [44]byte
		Decimals    uint8
		Initialized uint8
		_           [36]byte
	}
	tokenData struct {
		Mint   [32]byte
		Owner  [32]byte
		Amount uint64
		_      [36]byte
		State  uint8 // 0: not initialized
		_      [56]byte
	}
)

// read decodes an account's data. It reports whether they have exactly this layout's length.
func read(data []byte, into any) bool {
	n, err := binary.Decode(data, binary.LittleEndian, into)
	return err == nil && n == len(data)
}

// Chain is the on-chain state of staking for one mint and one program. It is safe for
// concurrent use.
type Chain struct {
	client        *chain.Client
	program, mint solana.PublicKey

	mu sync.Mutex
	// quiet holds transactions that named a vault and moved nothing. Everyone can make
	// such transactions, so each is read only once at each level. A transaction that is
	// not final may land again and move something.
	quiet map[quiet]bool
}

// quiet is a transaction that moved nothing in a vault, as read at a commitment level.
type quiet struct {
	vault     solana.PublicKey
	signature string
	level     chain.Commitment
}

// NewChain returns the Chain of a program and a mint. It does not connect.
func NewChain(client *chain.Client, program, mint solana.PublicKey) *Chain {
	return &Chain{client: client, program: program, mint: mint, quiet: make(map[quiet]bool)}
}

func (c *Chain) Mint() string { return c.mint.String() }

func (c *Chain) VaultOf(owner events.Owner) solana.PublicKey {
	return Vault(c.program, c.mint, owner.Bytes())
}

// Check makes sure that staking can work with the mint and the program. Errors:
// ErrToken2022, ErrNotMint and ErrNoProgram, which are permanent, and ErrUnreadable.
func (c *Chain) Check(ctx context.Context) error {
	accounts, _, err := c.client.Accounts(ctx, []solana.PublicKey{c.mint, c.program}, chain.Confirmed)
	if err != nil {
		return unreadable(err)
	}
	if _, err := mintDecimals(accounts[0]); err != nil {
		return fmt.Errorf("mint %s: %w", c.mint, err)
	}
	if accounts[1] == nil {
		return fmt.Errorf("program %s: %w", c.program, ErrNoProgram)
	}
	return nil
}

// Holdings are an owner's tokens, all read in one call.
type Holdings struct {
	Decimals      int
	Vault         solana.PublicKey
	Staked        uint64
	WalletBalance uint64 // in the wallet's associated token account
}

// Holdings reads the owner's vault and token account. An account that does not exist
// according to the chain holds nothing, and neither does one that was given to another
// wallet. If an amount can't be read for any other reason, the error is ErrUnreadable.
func (c *Chain) Holdings(ctx context.Context, owner events.Owner) (Holdings, error) {
	h := Holdings{Vault: c.VaultOf(owner)}
	wallet := solana.PublicKey(owner.Bytes())
	accounts, _, err := c.client.Accounts(ctx, []solana.PublicKey{c.mint, h.Vault, c.tokensOf(wallet)}, chain.Confirmed)
	if err != nil {
		return Holdings{}, unreadable(err)
	}
	if h.Decimals, err = mintDecimals(accounts[0]); err != nil {
		return Holdings{}, unreadable(err)
	}
	vault, err := c.tokens(accounts[1])
	if err != nil {
		return Holdings{}, unreadable(fmt.Errorf("vault: %w", err))
	}
	tokens, err := c.tokens(accounts[2])
	if err != nil {
		return Holdings{}, unreadable(fmt.Errorf("wallet: %w", err))
	}
	h.Staked = vault.Amount
	if tokens.Owner == wallet {
		h.WalletBalance = tokens.Amount
	}
	return h, nil
}

func mintDecimals(a *chain.Account) (int, error) {
	var m mintData
	switch {
	case a == nil:
		return 0, ErrNotMint
	case a.Owner == solana.Token2022ProgramID:
		return 0, ErrToken2022
	case a.Owner != solana.TokenProgramID || !read(a.Data, &m) || m.Initialized != 1:
		return 0, ErrNotMint
	}
	return int(m.Decimals), nil
}

// tokens reads a token account. Without one, it returns the zero value. An address that
// has only received lamports belongs to the system program and is not a token account yet.
func (c *Chain) tokens(a *chain.Account) (tokenData, error) {
	if a == nil || a.Owner == solana.SystemProgramID && len(a.Data) == 0 {
		return tokenData{}, nil
	}
	var t tokenData
	if a.Owner != solana.TokenProgramID || !read(a.Data, &t) || t.State == 0 || solana.PublicKey(t.Mint) != c.mint {
		return tokenData{}, errors.New("not a token account of the mint")
	}
	return t, nil
}

// Unsigned is a transaction that lacks only the wallet's signature.
type Unsigned struct {
	Wire                 []byte // one signature slot, all zero
	Blockhash            string
	LastValidBlockHeight uint64
}

// StakeTransaction returns a transaction that moves amount from the wallet's associated
// token account into its vault.
func (c *Chain) StakeTransaction(ctx context.Context, owner events.Owner, amount uint64) (Unsigned, error) {
	wallet := solana.PublicKey(owner.Bytes())
	return c.transaction(ctx, wallet, NewStake(c.program, c.mint, wallet, c.tokensOf(wallet), amount))
}

// UnstakeTransaction returns a transaction that moves amount out of the vault into the
// wallet's associated token account. It first creates that account if it does not exist,
// and fails if the account was given to another wallet.
func (c *Chain) UnstakeTransaction(ctx context.Context, owner events.Owner, amount uint64) (Unsigned, error) {
	wallet := solana.PublicKey(owner.Bytes())
	create := associatedtokenaccount.NewCreateIdempotentInstructionBuilder().
		SetPayer(wallet).SetWallet(wallet).SetMint(c.mint).Build()
	return c.transaction(ctx, wallet, create, NewUnstake(c.program, c.mint, wallet, c.tokensOf(wallet), amount))
}

func (c *Chain) transaction(ctx context.Context, wallet solana.PublicKey, instructions ...solana.Instruction) (Unsigned, error) {
	latest, err := c.client.LatestBlockhash(ctx)
	if err != nil {
		return Unsigned{}, unreadable(err)
	}
	tx, err := solana.NewTransaction(instructions, latest.Hash, solana.TransactionPayer(wallet))
	if err != nil {
		return Unsigned{}, fmt.Errorf("build transaction: %w", err)
	}
	wire, err := tx.MarshalBinary() // fills the wallet's signature with zeros
	if err != nil {
		return Unsigned{}, fmt.Errorf("encode transaction: %w", err)
	}
	return Unsigned{wire, latest.Hash.String(), latest.LastValidBlockHeight}, nil
}

// History is a sequence of a vault's movements.
type History struct {
	Movements []lots.Movement // oldest first
	// Complete is false if there are more transactions than were read, or than the chain
	// gave. The oldest ones were then read, so that the next call continues after them.
	Complete bool
}

// maxPages bounds the pages of signatures read in one look at a vault. Everyone can name
// a vault in a transaction, so we do not control their number.
const maxPages = 20

// History reads the vault's movements after a signature (empty: all), from at most limit
// transactions. Transactions for which known returns true are skipped.
func (c *Chain) History(ctx context.Context, vault solana.PublicKey, after string, limit int, level chain.Commitment, known func(signature string) bool) (History, error) {
	unread, err := c.unread(ctx, vault, after, level, known)
	if err != nil {
		return History{}, err
	}
	h := History{Complete: len(unread) <= limit}
	for i := len(unread) - 1; i >= max(0, len(unread)-limit); i-- {
		movement, moved, err := c.movement(ctx, vault, unread[i], level)
		if err != nil && len(h.Movements) > 0 {
			h.Complete = false // else an endpoint that limits calls would stop each look at the same place
			return h, nil
		}
		if err != nil {
			return History{}, err
		}
		if moved {
			h.Movements = append(h.Movements, movement)
			continue
		}
		c.hush(quiet{vault, unread[i], level})
	}
	return h, nil
}

// unread lists the transactions that may have moved something, newest first. Each is
// listed once, even if the node repeats it.
func (c *Chain) unread(ctx context.Context, vault solana.PublicKey, after string, level chain.Commitment, known func(string) bool) ([]string, error) {
	var list []string
	listed := make(map[string]bool)
	before := ""
	for range maxPages {
		page, err := c.client.Signatures(ctx, vault, before, after, chain.MaxSignatures, level)
		if err != nil {
			return nil, unreadable(err)
		}
		for _, s := range page {
			if !s.Failed && !listed[s.Text] && !known(s.Text) && !c.isQuiet(quiet{vault, s.Text, level}) {
				listed[s.Text] = true
				list = append(list, s.Text)
			}
		}
		if len(page) < chain.MaxSignatures {
			return list, nil
		}
		before = page[len(page)-1].Text
	}
	// The oldest transactions were not reached. Recording younger ones would hide the
	// oldest from the next call, which starts at the youngest recorded one.
	return nil, unreadable(fmt.Errorf("vault %s has more than %d new transactions", vault, maxPages*chain.MaxSignatures))
}

func (c *Chain) isQuiet(key quiet) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quiet[key]
}

func (c *Chain) hush(key quiet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.quiet) >= 1<<16 {
		clear(c.quiet)
	}
	c.quiet[key] = true
}

// movement returns the net change that a transaction made to the vault. Tokens that go in
// and out within one transaction were never a stake, and do not count.
func (c *Chain) movement(ctx context.Context, vault solana.PublicKey, signature string, level chain.Commitment) (lots.Movement, bool, error) {
	landed, err := c.client.Transaction(ctx, signature, level)
	if err != nil {
		return lots.Movement{}, false, unreadable(err)
	}
	if landed.Failed {
		return lots.Movement{}, false, nil
	}
	for _, t := range landed.Tokens {
		if t.Account != vault.String() || t.Mint != c.mint.String() || t.Before == t.After {
			continue
		}
		m := lots.Movement{Signature: signature, Slot: landed.Slot, At: events.At(time.Unix(landed.UnixTime, 0))}
		m.Deposit = t.After > t.Before
		m.Amount = max(t.After, t.Before) - min(t.After, t.Before)
		return m, true, nil
	}
	return lots.Movement{}, false, nil
}

// Vaults reports for each owner whether the vault was ever created.
func (c *Chain) Vaults(ctx context.Context, owners []events.Owner) ([]bool, error) {
	keys := make([]solana.PublicKey, len(owners))
	for i, o := range owners {
		keys[i] = c.VaultOf(o)
	}
	accounts, _, err := c.client.Accounts(ctx, keys, chain.Finalized)
	if err != nil {
		return nil, unreadable(err)
	}
	there := make([]bool, len(owners))
	for i, a := range accounts {
		there[i] = a != nil
	}
	return there, nil
}

func unreadable(err error) error { return fmt.Errorf("%w: %w", ErrUnreadable, err) }
