package program_test

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"testing"

	"github.com/gagliardetto/solana-go"
	"github.com/gagliardetto/solana-go/programs/system"
	"github.com/gagliardetto/solana-go/rpc"

	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/infra/localchain/localchaintest"
)

func root(text string) [32]byte { return sha256.Sum256([]byte(text)) }

// committer commits to one owner's log as the chain's payer.
type committer struct {
	*chain
	owner   solana.PublicKey
	address solana.PublicKey
}

func newCommitter(t *testing.T) *committer {
	c := newChain(t)
	owner := c.newKey()
	address, _ := commitment.Address(program.LocalID, c.payer.PublicKey(), owner.PublicKey())
	return &committer{c, owner.PublicKey(), address}
}

func (c *committer) instruction(size uint64, root [32]byte) solana.Instruction {
	c.Helper()
	return commitment.NewInstruction(program.LocalID, c.payer.PublicKey(), commitment.Commit{Owner: c.owner, Size: size, Root: root})
}

func (c *committer) commit(size uint64, root [32]byte) (uint64, error) {
	c.Helper()
	return c.send([]solana.PrivateKey{c.payer}, c.instruction(size, root))
}

// held returns the account on the chain.
func (c *committer) held() commitment.Account {
	c.Helper()
	data, _, owner := c.account(c.address)
	if owner != program.LocalID {
		c.Fatalf("account belongs to %s", owner)
	}
	a, err := verify.DecodeAccount(data)
	c.must(err)
	return a
}

// unchanged runs f, which must be refused with want, and checks that the account did not
// change.
func (c *committer) unchanged(want error, f func() error) {
	c.Helper()
	before, _, _ := c.account(c.address)
	c.refused(want, f())
	after, _, _ := c.account(c.address)
	if b64(before) != b64(after) {
		c.Fatalf("a refused commit changed the account")
	}
}

func TestCommitCreatesThenUpdates(t *testing.T) {
	c := newCommitter(t)
	units, err := c.commit(3, root("three"))
	c.must(err)
	t.Logf("create: %d compute units", units)
	first := c.held()
	want := commitment.Account{Authority: c.payer.PublicKey(), Owner: c.owner, Size: 3, Root: root("three"), Slot: first.Slot, Count: 1}
	if first != want {
		t.Fatalf("got %+v, want %+v", first, want)
	}
	if first.Slot == 0 {
		t.Fatal("slot was not recorded")
	}
	units, err = c.commit(5, root("five"))
	c.must(err)
	t.Logf("update: %d compute units", units)
	second := c.held()
	if second.Size != 5 || second.Root != root("five") || second.Count != 2 || second.Slot < first.Slot {
		t.Fatalf("got %+v", second)
	}
}

// The program reads the rent from the chain, in each form that the chain uses. The test
// has its own chain, because the rent applies to a whole chain.
func TestCommitPaysTheRentOfTheDay(t *testing.T) {
	t.Parallel()
	own := localchaintest.Start(t, localchain.Config{Programs: programs})
	for _, rent := range []struct {
		rate      uint64
		threshold float64
		spare     uint64 // fractions are rounded up generously
	}{{3480, 2, 0}, {6960, 1, 0}, {696, 1, 0}, {1_000_000, 16, 0}, {3480, 1.5, 1}, {3480, 0.25, 1}} {
		c := &chain{T: t, Chain: own, rpc: rpc.New(own.URL())}
		c.payer = c.newWallet()
		c.must(c.Fault(t.Context(), localchaintest.Rent(rent.rate, rent.threshold)))
		to := &committer{chain: c, owner: c.payer.PublicKey()}
		to.address, _ = commitment.Address(program.LocalID, c.payer.PublicKey(), to.owner)
		c.must(errorOf(to.commit(1, root("one"))))
		_, lamports, _ := c.account(to.address)
		if want := uint64(256*float64(rent.rate)*rent.threshold) + rent.spare; lamports != want {
			t.Errorf("rent %+v: paid %d, want %d", rent, lamports, want)
		}
	}
}

func TestCommitAgainIsIdempotent(t *testing.T) {
	c := newCommitter(t)
	c.must(errorOf(c.commit(3, root("three"))))
	before := c.held()
	other := c.newWallet() // a second fee payer, else it would be the same transaction
	c.must(errorOf(c.send([]solana.PrivateKey{other, c.payer}, c.instruction(3, root("three")))))
	if after := c.held(); after != before {
		t.Fatalf("got %+v, want %+v", after, before)
	}
}

func TestCommitToPrefundedAddress(t *testing.T) {
	for name, lamports := range map[string]uint64{
		"less than the rent": 900_000,
		"more than the rent": 5_000_000,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCommitter(t)
			c.transfer(c.payer, c.address, lamports)
			units, err := c.commit(1, root("one"))
			c.must(err)
			t.Logf("create at a prefunded address: %d compute units", units)
			if a := c.held(); a.Size != 1 || a.Count != 1 {
				t.Fatalf("got %+v", a)
			}
		})
	}
}

// commitRefusals change a commit of size 4 to an account that holds size 3.
var commitRefusals = map[string]struct {
	want error
	edit func(c *committer, in *parts)
}{
	"unsigned authority":              {program.ErrNotSigned, func(_ *committer, in *parts) { in.metas[0].IsSigner = false }},
	"commitment of another authority": {program.ErrWrongAuthority, func(c *committer, in *parts) { in.metas[1].PublicKey = c.foreign(c.owner) }},
	"commitment of another owner": {program.ErrWrongOwner, func(c *committer, in *parts) {
		other := *c
		other.owner = c.newKey().PublicKey()
		c.must(errorOf(other.commit(1, root("other"))))
		in.metas[1].PublicKey = other.instruction(1, root("other")).Accounts()[1].PublicKey
	}},
	"an address that is not derived": {program.ErrWrongAddress, func(c *committer, in *parts) { in.metas[1].PublicKey = c.newKey().PublicKey() }},
	"address of another bump":        {program.ErrWrongAddress, func(c *committer, in *parts) { in.metas[1].PublicKey = c.secondBump() }},
	"account of another program": {program.ErrForeignAccount, func(c *committer, in *parts) {
		key := c.newKey()
		c.put(key.PublicKey(), solana.TokenProgramID, make([]byte, verify.AccountLen))
		in.metas[1].PublicKey = key.PublicKey()
	}},
	"account of this program without the magic": {program.ErrAccountData, func(c *committer, in *parts) {
		key := c.newKey()
		create := system.NewCreateAccountInstruction(solana.LAMPORTS_PER_SOL, verify.AccountLen, program.LocalID, c.payer.PublicKey(), key.PublicKey())
		c.must(errorOf(c.send([]solana.PrivateKey{c.payer, key}, create.Build())))
		in.metas[1].PublicKey = key.PublicKey()
	}},
	"account of this program of another length": {program.ErrAccountData, func(c *committer, in *parts) {
		key := c.newKey()
		c.put(key.PublicKey(), program.LocalID, append(c.held().Encode(), 0))
		in.metas[1].PublicKey = key.PublicKey()
	}},
	"another program in the system program's place": {program.ErrWrongProgram, func(_ *committer, in *parts) { in.metas[2].PublicKey = solana.TokenProgramID }},
	"one account too many": {program.ErrAccountCount, func(_ *committer, in *parts) {
		in.metas = append(in.metas, solana.Meta(solana.TokenProgramID))
	}},
	"one account too few": {program.ErrAccountCount, func(_ *committer, in *parts) { in.metas = in.metas[:2] }},
	"one account in two roles": {program.ErrDuplicateAccount, func(_ *committer, in *parts) {
		in.metas[1].PublicKey = in.metas[0].PublicKey
	}},
	"data one byte short":         {program.ErrInstruction, func(_ *committer, in *parts) { in.data = in.data[:len(in.data)-1] }},
	"no data":                     {program.ErrInstruction, func(_ *committer, in *parts) { in.data = nil }},
	"unknown tag":                 {program.ErrInstruction, func(_ *committer, in *parts) { in.data[0] = 9 }},
	"smaller size":                {program.ErrShrinks, func(_ *committer, in *parts) { binary.LittleEndian.PutUint64(in.data[40:], 2) }},
	"same size with another root": {program.ErrForks, func(_ *committer, in *parts) { binary.LittleEndian.PutUint64(in.data[40:], 3) }},
	"size of zero":                {program.ErrZero, func(_ *committer, in *parts) { binary.LittleEndian.PutUint64(in.data[40:], 0) }},
}

func TestCommitRefusals(t *testing.T) {
	for name, test := range commitRefusals {
		t.Run(name, func(t *testing.T) {
			c := newCommitter(t)
			c.must(errorOf(c.commit(3, root("three"))))
			feePayer := c.newWallet()
			in := edit(c.instruction(4, root("four")), func(in *parts) { test.edit(c, in) })
			signers := []solana.PrivateKey{feePayer}
			for _, m := range in.Accounts() {
				if m.IsSigner {
					signers = append(signers, c.payer)
					break
				}
			}
			c.unchanged(test.want, func() error {
				_, err := c.send(signers, in)
				return err
			})
		})
	}
}

// foreign commits to an owner's log under a new authority and returns that account's
// address.
func (c *committer) foreign(owner solana.PublicKey) solana.PublicKey {
	c.Helper()
	other := c.newWallet()
	in := commitment.NewInstruction(program.LocalID, other.PublicKey(), commitment.Commit{Owner: owner, Size: 1, Root: root("theirs")})
	c.must(errorOf(c.send([]solana.PrivateKey{other}, in)))
	return in.Accounts()[1].PublicKey
}

// secondBump returns an address with the right seeds that is not the canonical one.
func (c *committer) secondBump() solana.PublicKey {
	c.Helper()
	authority := c.payer.PublicKey()
	_, canonical := commitment.Address(program.LocalID, authority, c.owner)
	for bump := int(canonical) - 1; bump >= 0; bump-- {
		seeds := [][]byte{[]byte("commitment"), authority[:], c.owner[:], {byte(bump)}}
		if address, err := solana.CreateProgramAddress(seeds, program.LocalID); err == nil {
			return address
		}
	}
	c.Fatal("no second bump")
	return solana.PublicKey{}
}

func TestCommitMissingAuthoritySignature(t *testing.T) {
	// A different key signs and takes the authority's place.
	c := newCommitter(t)
	c.must(errorOf(c.commit(3, root("three"))))
	other := c.newWallet()
	in := edit(c.instruction(4, root("four")), func(in *parts) { in.metas[0].PublicKey = other.PublicKey() })
	c.unchanged(program.ErrWrongAuthority, func() error {
		_, err := c.send([]solana.PrivateKey{other}, in)
		return err
	})
}

func TestCommitLimits(t *testing.T) {
	c := newCommitter(t)
	c.must(errorOf(c.commit(math.MaxUint64, root("all there can be"))))
	c.unchanged(program.ErrShrinks, func() error {
		_, err := c.commit(math.MaxUint64-1, root("less"))
		return err
	})
	c.unchanged(program.ErrForks, func() error {
		_, err := c.commit(math.MaxUint64, root("other"))
		return err
	})
}

func TestCommitCounterDoesNotWrap(t *testing.T) {
	c := newCommitter(t)
	full := commitment.Account{Authority: c.payer.PublicKey(), Owner: c.owner, Size: 3, Root: root("three"), Slot: 1, Count: math.MaxUint64}
	c.put(c.address, program.LocalID, full.Encode())
	c.unchanged(program.ErrArithmetic, func() error {
		_, err := c.commit(4, root("four"))
		return err
	})
}

func TestEightCommitsInOneTransaction(t *testing.T) {
	c := newCommitter(t)
	for _, round := range []uint64{1, 2} {
		var instructions []solana.Instruction
		for i := range 8 {
			instructions = append(instructions, commitment.NewInstruction(program.LocalID, c.payer.PublicKey(), commitment.Commit{
				Owner: solana.PublicKey{0: 1, 31: byte(i)}, Size: round, Root: root("packed"),
			}))
		}
		units, err := c.send([]solana.PrivateKey{c.payer}, instructions...)
		c.must(err)
		t.Logf("eight commits, round %d: %d compute units", round, units)
	}
}
