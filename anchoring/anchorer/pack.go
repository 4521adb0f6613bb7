package anchorer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gagliardetto/solana-go"
	computebudget "github.com/gagliardetto/solana-go/programs/compute-budget"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
)

const (
	// packed is the maximum number of commits in a transaction.
	packed = 8
	// budgetInstructions come before the commits.
	budgetInstructions = 2

	// Compute units to request; ../program/README.md has the measured use. The priority
	// fee is paid for the requested units.
	unitsBase       = 2 * 150
	unitsUpdate     = 1_000
	unitsCreate     = 9_000
	unitsEachBump   = 1_600
	signatureCharge = 5_000 // lamports
	unitsPerLamport = 1_000_000
)

var errNotOurs = errors.New("not a transaction of the anchorer")

// signer builds and signs transactions.
type signer struct {
	key     solana.PrivateKey
	program solana.PublicKey
	price   uint64 // micro-lamports per compute unit
}

// address returns the account that an owner's commits go to.
func (s *signer) address(o *owner) solana.PublicKey {
	address, _ := commitment.Address(s.program, s.key.PublicKey(), solana.PublicKey(o.key.Bytes()))
	return address
}

// sign returns the signed transaction that commits the open batches of a pack.
func (s *signer) sign(pack []*owner, latest chain.Blockhash) (attempt, error) {
	tx, err := solana.NewTransaction(s.instructions(pack), latest.Hash, solana.TransactionPayer(s.key.PublicKey()))
	if err != nil {
		return attempt{}, fmt.Errorf("make transaction: %w", err)
	}
	if _, err := tx.Sign(func(key solana.PublicKey) *solana.PrivateKey {
		if key == s.key.PublicKey() {
			return &s.key
		}
		return nil
	}); err != nil {
		return attempt{}, fmt.Errorf("sign transaction: %w", err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		return attempt{}, fmt.Errorf("encode transaction: %w", err)
	}
	// This is the largest transaction that the network accepts, in bytes.
	if len(raw) > 1232 {
		return attempt{}, fmt.Errorf("transaction of %d bytes for %d commits", len(raw), len(pack))
	}
	return attempt{tx.Signatures[0].String(), latest.Hash.String(), latest.LastValidBlockHeight, raw}, nil
}

// signed reports whether a transaction is by this authority, for this program.
func (s *signer) signed(raw []byte) bool {
	tx, err := solana.TransactionFromBytes(raw)
	return err == nil && slices.Index(tx.Message.AccountKeys, s.key.PublicKey()) == 0 && slices.Contains(tx.Message.AccountKeys, s.program)
}

func (s *signer) instructions(pack []*owner) []solana.Instruction {
	units := uint32(unitsBase)
	list := make([]solana.Instruction, budgetInstructions, budgetInstructions+len(pack))
	for _, o := range pack {
		commit := commitment.Commit{Owner: solana.PublicKey(o.key.Bytes()), Size: o.Batch.Size, Root: o.Batch.Root}
		if !o.Created {
			_, bump := commitment.Address(s.program, s.key.PublicKey(), commit.Owner)
			units += unitsCreate + unitsEachBump*uint32(255-bump)
		} else {
			units += unitsUpdate
		}
		list = append(list, commitment.NewInstruction(s.program, s.key.PublicKey(), commit))
	}
	list[0] = computebudget.NewSetComputeUnitLimitInstruction(units).Build()
	list[1] = computebudget.NewSetComputeUnitPriceInstruction(s.price).Build()
	return list
}

// cost estimates the cost of a commit that is alone in its transaction, without its rent.
// For a first commit it assumes a bump of at least 251, as 31 of 32 owners have.
func (s *signer) cost(first bool) uint64 {
	units := uint64(unitsBase + unitsUpdate)
	if first {
		units = unitsBase + unitsCreate + 4*unitsEachBump
	}
	return signatureCharge + units*s.price/unitsPerLamport + 1
}

// contents is a decoded transaction of the anchorer.
type contents struct {
	commits []commitment.Commit
	fee     uint64 // lamports
}

// parse decodes a transaction of the anchorer.
func parse(raw []byte) (contents, error) {
	tx, err := solana.TransactionFromBytes(raw)
	if err != nil {
		return contents{}, fmt.Errorf("%w: %w", errNotOurs, err)
	}
	var out contents
	var limit, price uint64
	for _, in := range tx.Message.Instructions {
		id, err := tx.Message.Program(in.ProgramIDIndex)
		if err != nil {
			return contents{}, fmt.Errorf("%w: %w", errNotOurs, err)
		}
		if id == computebudget.ProgramID {
			if set, err := computebudget.DecodeInstruction(nil, in.Data); err == nil {
				switch set := set.Impl.(type) {
				case *computebudget.SetComputeUnitLimit:
					limit = uint64(set.Units)
				case *computebudget.SetComputeUnitPrice:
					price = set.MicroLamports
				}
			}
			continue
		}
		c, err := verify.DecodeCommit(in.Data)
		if err != nil {
			return contents{}, fmt.Errorf("%w: %w", errNotOurs, err)
		}
		out.commits = append(out.commits, c)
	}
	if len(out.commits) == 0 {
		return contents{}, errNotOurs
	}
	out.fee = signatureCharge*uint64(len(tx.Signatures)) + (limit*price+unitsPerLamport-1)/unitsPerLamport
	return out, nil
}

// shareOf bounds the cost of one owner's part of a transaction.
func shareOf(raw []byte, first bool, rent uint64) uint64 {
	c, err := parse(raw)
	if err != nil {
		return signatureCharge
	}
	n := uint64(len(c.commits))
	share := (c.fee + n - 1) / n
	if first {
		share += rent
	}
	return share
}

// packs divides owners into transactions. An owner for which alone is true gets a
// transaction that holds only its commit.
func packs(owners []*owner, alone func(events.Owner) bool) [][]*owner {
	var (
		out  [][]*owner
		pack []*owner
	)
	for _, o := range owners {
		if alone(o.key) {
			out = append(out, []*owner{o})
			continue
		}
		if pack = append(pack, o); len(pack) == packed {
			out, pack = append(out, pack), nil
		}
	}
	if len(pack) > 0 {
		out = append(out, pack)
	}
	return out
}
