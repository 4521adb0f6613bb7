package program_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/gagliardetto/solana-go"
	"github.com/gagliardetto/solana-go/programs/system"
	"github.com/gagliardetto/solana-go/programs/token"
	"github.com/gagliardetto/solana-go/rpc"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/anchoring/staking"
)

const (
	mintLen         = 82
	tokenAccountLen = 165
)

// staker is a wallet with tokens of its own mint.
type staker struct {
	*chain
	mint   solana.PublicKey
	tokens solana.PublicKey // the wallet's token account
	vault  solana.PublicKey
}

func newStaker(t *testing.T, balance uint64) *staker {
	c := newChain(t)
	s := &staker{chain: c, mint: c.newMint(solana.TokenProgramID)}
	s.tokens = c.newTokens(s.mint, c.payer.PublicKey())
	c.mintTo(s.mint, s.tokens, balance)
	s.vault = staking.Vault(program.LocalID, s.mint, c.payer.PublicKey())
	return s
}

func (c *chain) allocate(size uint64, owner solana.PublicKey) (solana.PrivateKey, solana.Instruction) {
	c.Helper()
	key := c.newKey()
	rent, err := c.rpc.GetMinimumBalanceForRentExemption(c.Context(), size, "")
	c.must(err)
	return key, system.NewCreateAccountInstruction(rent, size, owner, c.payer.PublicKey(), key.PublicKey()).Build()
}

// newMint creates a mint with six decimals whose authority is the payer.
func (c *chain) newMint(tokenProgram solana.PublicKey) solana.PublicKey {
	c.Helper()
	key, create := c.allocate(mintLen, tokenProgram)
	authority := c.payer.PublicKey()
	initialize := token.NewInitializeMint2Instruction(6, authority, authority, key.PublicKey()).Build()
	data, err := initialize.Data()
	c.must(err)
	c.must(errorOf(c.send([]solana.PrivateKey{c.payer, key}, create, solana.NewInstruction(tokenProgram, initialize.Accounts(), data))))
	return key.PublicKey()
}

func (c *chain) newTokens(mint, owner solana.PublicKey) solana.PublicKey {
	c.Helper()
	key, create := c.allocate(tokenAccountLen, solana.TokenProgramID)
	_, err := c.send([]solana.PrivateKey{c.payer, key}, create,
		token.NewInitializeAccount3Instruction(owner, key.PublicKey(), mint).Build())
	c.must(err)
	return key.PublicKey()
}

func (c *chain) mintTo(mint, account solana.PublicKey, amount uint64) {
	c.Helper()
	_, err := c.send([]solana.PrivateKey{c.payer},
		token.NewMintToInstruction(amount, mint, account, c.payer.PublicKey(), nil).Build())
	c.must(err)
}

func (c *chain) tokensIn(account solana.PublicKey) string {
	c.Helper()
	res, err := c.rpc.GetTokenAccountBalance(c.Context(), account, rpc.CommitmentProcessed)
	c.must(err)
	return res.Value.Amount
}

func (s *staker) stake(amount uint64) (uint64, error) {
	s.Helper()
	in := staking.NewStake(program.LocalID, s.mint, s.payer.PublicKey(), s.tokens, amount)
	return s.send([]solana.PrivateKey{s.payer}, in)
}

func (s *staker) unstake(amount uint64) (uint64, error) {
	s.Helper()
	in := staking.NewUnstake(program.LocalID, s.mint, s.payer.PublicKey(), s.tokens, amount)
	return s.send([]solana.PrivateKey{s.payer}, in)
}

// holds checks both balances.
func (s *staker) holds(wallet, vault string) {
	s.Helper()
	if got := s.tokensIn(s.tokens); got != wallet {
		s.Fatalf("wallet holds %s, want %s", got, wallet)
	}
	if got := s.tokensIn(s.vault); got != vault {
		s.Fatalf("vault holds %s, want %s", got, vault)
	}
}

func TestStakeAndUnstake(t *testing.T) {
	s := newStaker(t, 1000)
	units, err := s.stake(300)
	s.must(err)
	t.Logf("stake, first: %d compute units", units)
	s.holds("700", "300")

	data, _, owner := s.account(s.vault)
	if owner != solana.TokenProgramID {
		t.Fatalf("vault belongs to %s", owner)
	}
	if got := solana.PublicKey(data[32:64]); got != s.vault {
		t.Fatalf("the vault's authority is %s, want itself", got)
	}
	units, err = s.stake(200)
	s.must(err)
	t.Logf("stake, later: %d compute units", units)
	s.holds("500", "500")

	units, err = s.unstake(100)
	s.must(err)
	t.Logf("unstake: %d compute units", units)
	s.holds("600", "400")
	s.must(errorOf(s.unstake(400)))
	s.holds("1000", "0")
	s.must(errorOf(s.stake(1000)))
	s.holds("0", "1000")
}

func TestStakeIntoPrefundedVault(t *testing.T) {
	s := newStaker(t, 1000)
	s.transfer(s.payer, s.vault, 1_000_000)
	s.must(errorOf(s.stake(1)))
	s.holds("999", "1")
}

func TestUnstakeWhatOthersSentToTheVault(t *testing.T) {
	s := newStaker(t, 1000)
	s.must(errorOf(s.stake(1)))
	s.mintTo(s.mint, s.vault, 50)
	s.must(errorOf(s.unstake(51)))
	s.holds("1050", "0")
}

func TestStakeOfAllThereCanBe(t *testing.T) {
	s := newStaker(t, math.MaxUint64)
	s.must(errorOf(s.stake(math.MaxUint64)))
	s.holds("0", "18446744073709551615")
	s.must(errorOf(s.unstake(math.MaxUint64)))
}

func TestStakeBeyondTheBalance(t *testing.T) {
	s := newStaker(t, 1000)
	_, err := s.stake(1001)
	s.refused(program.ErrInsufficient, err)
	_, err = s.stake(math.MaxUint64)
	s.refused(program.ErrInsufficient, err)
	if data, _, _ := s.account(s.vault); data != nil {
		t.Fatal("a refused stake made the vault")
	}
	_, err = s.unstake(1)
	s.refused(program.ErrInsufficient, err) // no vault yet
	s.must(errorOf(s.stake(1000)))
	for _, amount := range []uint64{1001, math.MaxUint64} {
		_, err = s.unstake(amount)
		s.refused(program.ErrInsufficient, err)
	}
	s.holds("0", "1000")
}

// refusal changes a staking instruction so that the program must refuse it.
type refusal struct {
	want error
	edit func(s *staker, in *parts)
}

// common are the refusals that apply to both stake and unstake.
var common = map[string]refusal{
	"amount of zero":                {program.ErrZero, func(_ *staker, in *parts) { binary.LittleEndian.PutUint64(in.data[8:], 0) }},
	"unsigned wallet":               {program.ErrNotSigned, func(_ *staker, in *parts) { in.metas[0].IsSigner = false }},
	"token program of another kind": {program.ErrWrongProgram, func(_ *staker, in *parts) { in.metas[4].PublicKey = solana.Token2022ProgramID }},
	"mint of another vault":         {program.ErrWrongAddress, func(s *staker, in *parts) { in.metas[3].PublicKey = s.newMint(solana.TokenProgramID) }},
	"a token account that is no vault": {program.ErrWrongAddress, func(s *staker, in *parts) {
		in.metas[2].PublicKey = s.newTokens(s.mint, s.payer.PublicKey())
	}},
	"one account too few": {program.ErrAccountCount, func(_ *staker, in *parts) { in.metas = in.metas[:4] }},
	"one account too many": {program.ErrAccountCount, func(_ *staker, in *parts) {
		for len(in.metas) < 7 {
			in.metas = append(in.metas, solana.Meta(solana.PublicKey{31: byte(100 + len(in.metas))}))
		}
	}},
	"vault in the token account's place": {program.ErrDuplicateAccount, func(s *staker, in *parts) { in.metas[1].PublicKey = s.vault }},
	"data one byte short":                {program.ErrInstruction, func(_ *staker, in *parts) { in.data = in.data[:15] }},
	"data eight bytes long":              {program.ErrInstruction, func(_ *staker, in *parts) { in.data = in.data[:8] }},
}

func TestStakingRefusals(t *testing.T) {
	for name, test := range common {
		for _, kind := range []staking.Kind{staking.Stake, staking.Unstake} {
			t.Run(map[staking.Kind]string{staking.Stake: "stake", staking.Unstake: "unstake"}[kind]+"/"+name, func(t *testing.T) {
				s := newStaker(t, 1000)
				s.must(errorOf(s.stake(500)))
				build := staking.NewStake
				if kind == staking.Unstake {
					build = staking.NewUnstake
				}
				in := build(program.LocalID, s.mint, s.payer.PublicKey(), s.tokens, 10)
				signers := []solana.PrivateKey{s.newWallet(), s.payer}
				bent := edit(in, func(in *parts) { test.edit(s, in) })
				if !bent.Accounts()[0].IsSigner {
					signers = signers[:1]
				}
				_, err := s.send(signers, bent)
				s.refused(test.want, err)
				s.holds("500", "500")
			})
		}
	}
}

func TestStakeRefusesAnotherSystemProgram(t *testing.T) {
	s := newStaker(t, 1000)
	in := staking.NewStake(program.LocalID, s.mint, s.payer.PublicKey(), s.tokens, 10)
	_, err := s.send([]solana.PrivateKey{s.payer}, edit(in, func(in *parts) { in.metas[5].PublicKey = solana.SysVarRentPubkey }))
	s.refused(program.ErrWrongProgram, err)
}

func TestOnlyTheOwnerUnstakes(t *testing.T) {
	s := newStaker(t, 1000)
	s.must(errorOf(s.stake(500)))
	thief := s.newWallet()
	loot := s.newTokens(s.mint, thief.PublicKey())

	// The thief names the victim's vault under its own signature.
	in := staking.NewUnstake(program.LocalID, s.mint, thief.PublicKey(), loot, 10)
	_, err := s.send([]solana.PrivateKey{thief}, edit(in, func(in *parts) { in.metas[2].PublicKey = s.vault }))
	s.refused(program.ErrWrongAddress, err)

	// The thief names the victim, but the victim did not sign.
	in = staking.NewUnstake(program.LocalID, s.mint, s.payer.PublicKey(), loot, 10)
	_, err = s.send([]solana.PrivateKey{thief}, edit(in, func(in *parts) { in.metas[0].IsSigner = false }))
	s.refused(program.ErrNotSigned, err)

	// The thief calls the token program directly.
	_, err = s.send([]solana.PrivateKey{thief},
		token.NewTransferInstruction(10, s.vault, loot, thief.PublicKey(), nil).Build())
	if err == nil {
		t.Fatal("the token program let a stranger empty the vault")
	}
	s.holds("500", "500")

	// The owner may send the tokens anywhere.
	in = staking.NewUnstake(program.LocalID, s.mint, s.payer.PublicKey(), loot, 10)
	s.must(errorOf(s.send([]solana.PrivateKey{s.payer}, in)))
	s.holds("500", "490")
}

func TestStakeOfAnothersTokens(t *testing.T) {
	s := newStaker(t, 1000)
	thief := s.newWallet()
	in := staking.NewStake(program.LocalID, s.mint, thief.PublicKey(), s.tokens, 10)
	if _, err := s.send([]solana.PrivateKey{thief}, in); err == nil {
		t.Fatal("a stranger staked somebody's tokens")
	}
	if got := s.tokensIn(s.tokens); got != "1000" {
		t.Fatalf("wallet holds %s", got)
	}
}

func TestStakeOfToken2022(t *testing.T) {
	s := newStaker(t, 1000)
	mint := s.newMint(solana.Token2022ProgramID)
	in := staking.NewStake(program.LocalID, mint, s.payer.PublicKey(), s.tokens, 10)
	_, err := s.send([]solana.PrivateKey{s.payer}, in)
	s.refused(program.ErrInsufficient, err)
}
