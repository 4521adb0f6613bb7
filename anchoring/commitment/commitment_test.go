package commitment_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/infra/testkit"
)

var must = testkit.Must

// Existing vectors must never change, because their format is deployed. Only add vectors.
var update = flag.Bool("update", false, "write missing golden vectors")

func pattern(from byte) (p [32]byte) {
	for i := range p {
		p[i] = from + byte(i)
	}
	return p
}

var (
	programID = solana.PublicKey(pattern(0x01))
	authority = solana.PublicKey(pattern(0x21))
	owner     = solana.PublicKey(pattern(0x41))
)

type accountVector struct {
	Name      string           `json:"name"`
	Authority solana.PublicKey `json:"authority"`
	Owner     solana.PublicKey `json:"owner"`
	Size      uint64           `json:"size,string"`
	Root      string           `json:"root"`
	Slot      uint64           `json:"slot,string"`
	Count     uint64           `json:"count,string"`
	Data      string           `json:"data"`
}

type commitVector struct {
	Name      string           `json:"name"`
	Program   solana.PublicKey `json:"program"`
	Authority solana.PublicKey `json:"authority"`
	Owner     solana.PublicKey `json:"owner"`
	Size      uint64           `json:"size,string"`
	Root      string           `json:"root"`
	Account   solana.PublicKey `json:"account"`
	Bump      uint8            `json:"bump"`
	Data      string           `json:"data"`
}

// golden reads a vector file. With -update it first writes the file if it is missing.
func golden[T any](t *testing.T, name string, made T) T {
	t.Helper()
	file := filepath.Join("testdata", name)
	if _, err := os.Stat(file); *update && errors.Is(err, os.ErrNotExist) {
		text, err := json.MarshalIndent(made, "", "  ")
		must(t, err)
		must(t, os.WriteFile(file, append(text, '\n'), 0o644))
	}
	text, err := os.ReadFile(file)
	must(t, err)
	var read T
	must(t, json.Unmarshal(text, &read))
	return read
}

func TestAccountVectors(t *testing.T) {
	accounts := map[string]commitment.Account{
		"account-first.json":  {Authority: authority, Owner: owner, Size: 3, Root: pattern(0x61), Slot: 7, Count: 1},
		"account-limits.json": {Authority: authority, Owner: owner, Size: math.MaxUint64, Root: pattern(0xe0), Slot: math.MaxUint64 - 1, Count: math.MaxUint64 - 2},
	}
	for name, a := range accounts {
		v := golden(t, name, accountVector{
			Name: name, Authority: a.Authority, Owner: a.Owner, Size: a.Size, Root: hex.EncodeToString(a.Root[:]),
			Slot: a.Slot, Count: a.Count, Data: hex.EncodeToString(a.Encode()),
		})
		data, err := hex.DecodeString(v.Data)
		must(t, err)
		if !bytes.Equal(a.Encode(), data) {
			t.Errorf("%s: encoded %x, want %x", name, a.Encode(), data)
		}
		decoded, err := verify.DecodeAccount(data)
		must(t, err)
		if decoded != a || v.Size != a.Size || v.Count != a.Count || v.Slot != a.Slot {
			t.Errorf("%s: decoded %+v, want %+v", name, decoded, a)
		}
	}
}

func TestCommitVectors(t *testing.T) {
	commits := map[string]commitment.Commit{
		"commit-first.json":  {Owner: owner, Size: 3, Root: pattern(0x61)},
		"commit-limits.json": {Owner: owner, Size: math.MaxUint64, Root: pattern(0xe0)},
	}
	for name, c := range commits {
		address, bump := commitment.Address(programID, authority, owner)
		v := golden(t, name, commitVector{
			Name: name, Program: programID, Authority: authority, Owner: c.Owner, Size: c.Size,
			Root: hex.EncodeToString(c.Root[:]), Account: address, Bump: bump, Data: hex.EncodeToString(c.Encode()),
		})
		if v.Account != address || v.Bump != bump {
			t.Errorf("%s: address %s bump %d, want %s bump %d", name, address, bump, v.Account, v.Bump)
		}
		in := commitment.NewInstruction(programID, authority, c)
		data, err := in.Data()
		must(t, err)
		if hex.EncodeToString(data) != v.Data {
			t.Errorf("%s: data %x, want %s", name, data, v.Data)
		}
		if metas := in.Accounts(); len(metas) != 3 || metas[1].PublicKey != v.Account || !metas[0].IsSigner || !metas[1].IsWritable {
			t.Errorf("%s: accounts %v", name, metas)
		}
		decoded, err := verify.DecodeCommit(data)
		if err != nil || decoded != c {
			t.Errorf("%s: decoded %+v, %v; want %+v", name, decoded, err, c)
		}
	}
}

// Every file in testdata/bad is hex that both decoders must refuse. The file's name says
// what is wrong.
func TestBadVectors(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.hex")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		data, err := hex.DecodeString(string(bytes.TrimSpace(text)))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if _, err := verify.DecodeAccount(data); !errors.Is(err, verify.ErrNotCommitment) {
			t.Errorf("%s: decoded as an account: %v", file, err)
		}
		if _, err := verify.DecodeCommit(data); !errors.Is(err, verify.ErrNotCommit) {
			t.Errorf("%s: decoded as a commit: %v", file, err)
		}
	}
}
