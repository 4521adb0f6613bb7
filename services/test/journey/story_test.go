package journey

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"time"

	"github.com/gagliardetto/solana-go"
	computebudget "github.com/gagliardetto/solana-go/programs/compute-budget"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/memory"
)

// The journey's memory is leaf 2. Its batch commits five leaves, and the next batch all
// seven. Leaf 5 corrects leaf 3, and with it leaf 1, which is equal. At the end the owner has
// leaf 4 forgotten.
const (
	leafIndex  = 2
	firstSize  = 5
	allSize    = 7
	wrong      = 3
	correction = 5
	forgotten  = 4
)

// requests are the bodies of POST /memories, one for each leaf.
var requests = [allSize]string{
	`{"content":"The kettle is the blue one.","metadata":{}}`,
	`{"content":"Ada prefers tea.","metadata":{"source":"chat"}}`,
	`{"content":"Grüße aus Zürich ☂, signed \"A.\"","metadata":{"tags":["travel","née"],"score":1.50,"at":{"z":1,"a":null}}}`,
	`{"content":"Ada prefers tea.","metadata":{"source":"chat"}}`,
	`{"content":"line one\nline two","metadata":{"n":10000000000000000000000}}`,
	`{"content":"Ada prefers coffee now.","metadata":{"source":"chat"}}`,
	`{"content":"🗝️","metadata":{"é":1,"e":2}}`,
}

const idempotencyKey = "journey-3"

// batch is a commitment of the story.
type batch struct {
	submitted *events.BatchSubmitted
	confirmed *events.BatchConfirmed
	commit    []byte // the instruction's data
	account   []byte // the account's data afterwards
}

// story holds everything that happens in the journey.
type story struct {
	clock     *clock
	ids       *identifiers
	log       *log
	ownerKey  ed25519.PrivateKey
	owner     events.Owner
	authority ed25519.PrivateKey
	dataKey   [32]byte
	key       *keystore.OwnerKey
	commands  *command.Executor
	memories  *memory.Service
	written   []*command.WriteMemory
	leaves    []events.Hash
	batches   []batch
}

func tell(ctx context.Context) (*story, error) {
	defer func(random io.Reader) { rand.Reader = random }(rand.Reader)
	rand.Reader = &stream{label: "keystore"} // only the keystore reads it here
	ownerSeed, authoritySeed := fixed("owner"), fixed("authority")
	s := &story{
		clock: newClock(), log: &log{heads: map[events.Family]uint64{}}, dataKey: fixed("keystore"),
		ownerKey: ed25519.NewKeyFromSeed(ownerSeed[:]), authority: ed25519.NewKeyFromSeed(authoritySeed[:]),
	}
	s.ids = &identifiers{clock: s.clock}
	s.owner = events.OwnerFromBytes([32]byte(s.ownerKey.Public().(ed25519.PublicKey)))
	if err := s.signIn(ctx); err != nil {
		return nil, err
	}
	for i, body := range requests {
		if i == firstSize {
			if err := s.anchor(ctx, firstSize); err != nil {
				return nil, err
			}
		}
		if err := s.write(ctx, i, body); err != nil {
			return nil, fmt.Errorf("memory %d: %w", i, err)
		}
	}
	if err := s.anchor(ctx, allSize); err != nil {
		return nil, err
	}
	return s, s.commands.Execute(ctx, s.owner, &command.ForgetMemory{MemoryID: s.written[forgotten].MemoryID, LeafIndex: forgotten})
}

// signIn registers the owner: first a data key, then the session.
func (s *story) signIn(ctx context.Context) error {
	keys := keystore.Open(&bucket{values: map[string][]byte{}}, keystore.Config{
		Masters: []keystore.Master{keystore.MasterKey(fixed("master"))},
	})
	s.commands = command.NewExecutor(command.Config{
		Log: s.log, Loader: command.NoReadModel{}, Source: "/core", Now: s.clock.tick, NewID: s.ids.next, CachedOwners: 9,
	})
	s.memories = memory.New(memory.Config{Commands: s.commands, Keys: keys, NewID: s.ids.next})
	var err error
	if s.key, err = keys.FindOrCreate(ctx, s.owner, 0, nil); err != nil {
		return err
	}
	return s.commands.Execute(ctx, s.owner, &command.SignIn{
		UserID: s.ids.next(), SessionID: s.ids.next(), Audience: events.AudienceCore, ExpiresAt: events.At(s.clock.now.Add(time.Hour)),
	})
}

func (s *story) write(ctx context.Context, index int, body string) error {
	content, metadata, err := parseRequest(body)
	if err != nil {
		return err
	}
	draft := memory.Draft{Owner: s.owner, Content: content, Metadata: metadata}
	if index == leafIndex {
		hash := events.Hash(sha256.Sum256([]byte(idempotencyKey)))
		draft.IdempotencyKey = &hash
	}
	var superseded []command.Superseded
	if index == correction { // what the API makes of the id of leaf 3
		superseded = []command.Superseded{{Leaf: wrong, Hash: s.leaves[wrong]}}
		draft.Metadata, err = canonical.Canonicalize(fmt.Appendf(nil, `{"source":"chat","supersedes":[%q]}`, s.leaves[wrong]))
		if err != nil {
			return err
		}
	}
	written, err := s.memories.Prepare(ctx, draft)
	if err != nil {
		return err
	}
	written.Supersedes = superseded
	if err := s.commands.Execute(ctx, s.owner, written); err != nil {
		return err
	}
	s.written, s.leaves = append(s.written, written), append(s.leaves, written.LeafHash)
	return nil
}

// parseRequest parses a body as the API does.
func parseRequest(body string) (content string, metadata canonical.Object, err error) {
	var request struct {
		Content  string         `json:"content"`
		Metadata jsontext.Value `json:"metadata"`
	}
	if err := unmarshal([]byte(body), &request); err != nil {
		return "", metadata, err
	}
	metadata, err = canonical.Canonicalize(request.Metadata)
	return request.Content, metadata, err
}

// anchor commits the first size leaves: cut, submitted, confirmed.
func (s *story) anchor(ctx context.Context, size uint64) error {
	var from uint64
	if n := len(s.batches); n > 0 {
		from = s.batches[n-1].confirmed.Size
	}
	count := uint64(len(s.batches)) + 1
	root, slot, id := s.root(size), 4000+count*100, s.ids.next()
	if err := s.append(ctx, &events.BatchCut{BatchID: id, FromSize: from, Size: size, Root: root}); err != nil {
		return err
	}
	authority := solana.PublicKey(s.authority.Public().(ed25519.PublicKey))
	owner := solana.PublicKey(s.owner.Bytes())
	commit := commitment.Commit{Owner: owner, Size: size, Root: root}
	blockhash := solana.Hash(fixed(fmt.Sprintf("blockhash-%d", count)))
	tx, err := s.transaction(authority, commit, blockhash)
	if err != nil {
		return err
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		return err
	}
	b := batch{commit: commit.Encode()}
	b.submitted = &events.BatchSubmitted{
		BatchID: id, Size: size, Root: root, Signature: tx.Signatures[0].String(),
		Blockhash: blockhash.String(), LastValidBlockHeight: slot + 150, Transaction: raw,
	}
	if err := s.append(ctx, b.submitted); err != nil {
		return err
	}
	address, _ := commitment.Address(program.LocalID, authority, owner)
	b.account = commitment.Account{Authority: authority, Owner: owner, Size: size, Root: root, Slot: slot, Count: count}.Encode()
	b.confirmed = &events.BatchConfirmed{
		BatchID: id, Size: size, Root: root, Signature: b.submitted.Signature, Slot: slot,
		Cluster: solana.Hash(fixed("genesis")).String(), ProgramID: program.LocalID.String(), Account: address.String(),
	}
	s.batches = append(s.batches, b)
	return s.append(ctx, b.confirmed)
}

func (s *story) transaction(authority solana.PublicKey, commit commitment.Commit, blockhash solana.Hash) (*solana.Transaction, error) {
	instructions := []solana.Instruction{
		computebudget.NewSetComputeUnitLimitInstruction(20_000).Build(),
		computebudget.NewSetComputeUnitPriceInstruction(0).Build(),
		commitment.NewInstruction(program.LocalID, authority, commit),
	}
	tx, err := solana.NewTransaction(instructions, blockhash, solana.TransactionPayer(authority))
	if err != nil {
		return nil, err
	}
	key := solana.PrivateKey(s.authority)
	_, err = tx.Sign(func(solana.PublicKey) *solana.PrivateKey { return &key })
	return tx, err
}

// append writes an event as the anchorer would: one event in each message, in the chain's
// family, which has its own versions.
func (s *story) append(ctx context.Context, data events.Data) error {
	version := 1
	err := s.log.OwnerTail(ctx, events.FamilyChain, s.owner, 0, func(eventlog.Record) error { version++; return nil })
	if err != nil {
		return err
	}
	event := events.Event{
		ID: s.ids.next(), Source: "/anchorer", Owner: s.owner, Time: events.At(s.clock.tick()),
		OwnerVersion: version, CommandID: s.ids.next(), Data: data,
	}
	payload, err := events.EncodeBatch([]events.Event{event})
	if err != nil {
		return err
	}
	_, err = s.log.Append(ctx, eventlog.Append{
		Family: events.FamilyChain, Owner: s.owner, Kind: events.KindBatch,
		CommandID: event.CommandID, Expected: s.log.heads[events.FamilyChain], Payload: payload,
	})
	return err
}
