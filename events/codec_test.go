package events_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/testkit"
)

var must = testkit.Must

const goldenOwner = events.Owner("4Nd1mYvYzk6jNsMbXzN7XUxuJdDmHMczYbsYnyDyB1vM")

func goldenHash(b byte) events.Hash { return events.Hash(bytes.Repeat([]byte{b}, events.HashSize)) }

func goldenTime() events.Timestamp {
	return events.At(time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC))
}

// golden returns one payload of every type, with every member set.
func golden() []events.Data {
	h1, h2, expires := goldenHash(0x11), goldenHash(0x22), goldenTime()
	const id, other = "01890a5d-ac96-774b-bcce-b302099a8057", "01890a5d-ac96-774b-bcce-b302099a8058"
	return []events.Data{
		&events.OwnerRegistered{UserID: id},
		&events.SessionIssued{SessionID: id, Audience: events.AudienceExtension, TokenHash: &h1, ExpiresAt: goldenTime()},
		&events.SessionRevoked{SessionID: id},
		&events.MemoryWritten{
			MemoryID: id, LeafIndex: 7, LeafHash: h1, LeafVersion: 1,
			Metadata: jsontext.Value(`{"a":"\u0000<é>","b":[1,2]}`), Sealed: []byte{0, 1, 2, 253, 254, 255}, IdempotencyKeyHash: &h2,
			Via: &events.Via{Kind: events.ViaDrop, ID: other}, Salt: events.SaltGuest, Sealing: events.SealedByLeaf, Supersedes: []uint64{5, 2},
			Imported: &events.Imported{ID: other, CreatedAt: goldenTime(), Via: &events.Via{Kind: events.ViaKey, ID: id}},
		},
		&events.MemoryRetracted{MemoryID: id, LeafIndex: 7, Leaves: 9},
		&events.MemoryForgotten{MemoryID: id, LeafIndex: 7, Leaves: 9},
		&events.OwnerErased{Leaves: 9},
		&events.GrantMinted{GrantID: id, Kind: events.GrantDrop, TokenHash: h1, ExpiresAt: goldenTime(), MaxUses: 3, By: &events.Via{Kind: events.ViaKey, ID: other}, Namespace: "work"},
		&events.GrantConsumed{GrantID: id, Kind: events.GrantDrop, Use: 1, Remaining: 2},
		&events.GrantRevoked{GrantID: id, Kind: events.GrantCase, Reason: events.Superseded},
		&events.ApiKeyCreated{
			KeyID: id, KeyHash: h1, Prefix: "svc_abcdefgh", Label: "laptop", Scopes: []events.Scope{events.ScopeRead, events.ScopeShare}, ExpiresAt: &expires,
			CreatedBy: &events.Via{Kind: events.ViaSession, ID: other}, Namespaces: []string{"work", "home"}, App: &events.App{Name: "Assistant", RedirectHost: "assistant.example"},
		},
		&events.ApiKeyRevoked{KeyID: id},
		&events.ApiKeyUsed{KeyID: id},
		&events.BatchCut{BatchID: id, FromSize: 1, Size: 9, Root: h1},
		&events.BatchSubmitted{
			BatchID: id, Size: 9, Root: h1, Signature: "sig", Blockhash: "hash", LastValidBlockHeight: 150, Transaction: []byte{1, 2, 3},
		},
		&events.BatchConfirmed{
			BatchID: id, Size: 9, Root: h1, Signature: "sig", Slot: 77, Cluster: "genesis", ProgramID: "program", Account: "account",
		},
		&events.BatchFailed{BatchID: other, Signature: "sig", Reason: "blockhash expired"},
		&events.StakeDeposited{Mint: "mint", Vault: "vault", Amount: "18446744073709551615", Signature: "sig", Slot: 5, BlockTime: goldenTime()},
		&events.StakeWithdrawn{Mint: "mint", Vault: "vault", Amount: "1", Signature: "sig", Slot: 6, BlockTime: goldenTime()},
		&events.ImportStarted{Root: h1, Size: 9, Leaves: 7},
		&events.ImportFinished{Root: h1, Reason: events.ImportComplete, Leaves: 9},
	}
}

func goldenEvent(d events.Data) events.Event {
	return events.Event{
		ID: "01890a5d-ac96-774b-bcce-b302099a8000", Source: "/core", Owner: goldenOwner, Time: goldenTime(),
		OwnerVersion: 42, CommandID: "01890a5d-ac96-774b-bcce-b302099a8001",
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Data: d,
	}
}

func goldenPath(t events.Type, version int) string {
	return filepath.Join("testdata", "golden", fmt.Sprintf("%s.v%d.json", t, version))
}

// TestGolden checks that the bytes of the log never change. Golden files are written
// once and never again: set GOLDEN=write to add the missing ones.
func TestGolden(t *testing.T) {
	payloads := map[events.Type]events.Data{}
	for _, d := range golden() {
		payloads[d.EventType()] = d
	}
	for _, definition := range events.Catalogue() {
		t.Run(string(definition.Type), func(t *testing.T) {
			payload, ok := payloads[definition.Type]
			if !ok {
				t.Fatal("add a payload of it to golden, then run GOLDEN=write go test ./events -run TestGolden")
			}
			if unset := unsetMembers(reflect.ValueOf(payload).Elem()); len(unset) > 0 {
				t.Fatalf("golden does not set %v", unset)
			}
			if len(definition.Upcasts) != definition.Version-1 {
				t.Fatalf("version %d needs %d upcasts, has %d", definition.Version, definition.Version-1, len(definition.Upcasts))
			}
			for version := 1; version < definition.Version; version++ {
				older, err := os.ReadFile(goldenPath(definition.Type, version))
				if err != nil {
					t.Fatalf("the golden file of an older version is gone: %v", err)
				}
				if _, err := events.DecodeBatch(older); err != nil {
					t.Errorf("version %d no longer decodes: %v", version, err)
				}
			}
			checkGolden(t, goldenPath(definition.Type, definition.Version), payload)
		})
	}
}

// unsetMembers names the members of a payload, and of structs in it, that are not set.
func unsetMembers(payload reflect.Value) (names []string) {
	for i := range payload.NumField() {
		name, member := payload.Type().Field(i).Name, payload.Field(i)
		if member.IsZero() {
			names = append(names, name)
			continue
		}
		if member.Kind() == reflect.Pointer && member.Elem().Kind() == reflect.Struct && member.Elem().Type() != reflect.TypeFor[events.Timestamp]() {
			for _, inner := range unsetMembers(member.Elem()) {
				names = append(names, name+"."+inner)
			}
		}
	}
	return names
}

func checkGolden(t *testing.T, path string, payload events.Data) {
	encoded, err := events.EncodeBatch([]events.Event{goldenEvent(payload)})
	must(t, err)
	want, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && os.Getenv("GOLDEN") == "write" {
		must(t, os.WriteFile(path, encoded, 0o644))
		must(t, addSum(filepath.Base(path), encoded))
		return
	}
	must(t, err)
	if !bytes.Equal(encoded, want) {
		t.Errorf("bytes changed; a version keeps its form, see docs/events.md, A new version:\n%s\nwant\n%s", encoded, want)
	}
	batch, err := events.DecodeBatch(want)
	must(t, err)
	again, err := events.EncodeBatch(batch)
	must(t, err)
	if !bytes.Equal(again, want) {
		t.Errorf("does not survive decoding:\n%s\nwant\n%s", again, want)
	}
}

func TestBatchOfTwo(t *testing.T) {
	batch := []events.Event{goldenEvent(golden()[8]), goldenEvent(golden()[3])}
	payload, err := events.EncodeBatch(batch)
	must(t, err)
	got, err := events.DecodeBatch(payload)
	must(t, err)
	if len(got) != 2 || got[0].Type() != events.TypeGrantConsumed || got[1].Type() != events.TypeMemoryWritten {
		t.Errorf("got %v", got)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, err := events.EncodeBatch([]events.Event{goldenEvent(golden()[0])})
	must(t, err)
	replace := func(old, with string) string {
		if !strings.Contains(string(good), old) {
			t.Fatalf("%q is not in %s", old, good)
		}
		return strings.Replace(string(good), old, with, 1)
	}
	for _, c := range []struct {
		name, payload string
		want          error
	}{
		{"nothing", "", events.ErrMalformed},
		{"empty batch", "[]", events.ErrEmptyBatch},
		{"not an array", "{}", events.ErrMalformed},
		{"another specversion", replace(`"1.0"`, `"0.3"`), events.ErrMalformed},
		{"unknown type", strings.ReplaceAll(string(good), "OwnerRegistered", "OwnerVanished"), events.ErrUnknownType},
		{"a later version", replace("OwnerRegistered:1", "OwnerRegistered:2"), events.ErrUnknownVersion},
		{"version zero", replace("OwnerRegistered:1", "OwnerRegistered:0"), events.ErrUnknownVersion},
		{"version with a leading zero", replace("OwnerRegistered:1", "OwnerRegistered:01"), events.ErrMalformed},
		{"schema of another type", replace("event:OwnerRegistered:1", "event:GrantMinted:1"), events.ErrMalformed},
		{"unknown member", replace(`"userId"`, `"extra":1,"userId"`), events.ErrMalformed},
		{"no owner version", replace(`"ownerversion":42`, `"ownerversion":0`), events.ErrMalformed},
		{"two owners", "[" + string(good[1:len(good)-1]) + "," + strings.Replace(string(good[1:len(good)-1]), string(goldenOwner), "11111111111111111111111111111111", 1) + "]", events.ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := events.DecodeBatch([]byte(c.payload)); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// FuzzDecodeBatch: a payload that decodes can be encoded again, and decoding and
// encoding the result changes nothing.
func FuzzDecodeBatch(f *testing.F) {
	for _, d := range golden() {
		payload, err := events.EncodeBatch([]events.Event{goldenEvent(d)})
		must(f, err)
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		batch, err := events.DecodeBatch(payload)
		if err != nil {
			return
		}
		once, err := events.EncodeBatch(batch)
		if err != nil {
			t.Fatalf("decoded, but does not encode: %v", err)
		}
		again, err := events.DecodeBatch(once)
		if err != nil {
			t.Fatalf("encoded, but does not decode: %v", err)
		}
		twice, err := events.EncodeBatch(again)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("not stable: %s then %s, %v", once, twice, err)
		}
	})
}

func TestSubjects(t *testing.T) {
	s := events.Subject{Family: events.FamilyLedger, Owner: goldenOwner, Kind: events.KindMemory}
	got, err := events.ParseSubject(s.String())
	if err != nil || got != s {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "ledger", "ledger.00." + string(goldenOwner) + ".memory", "other" + s.String(), s.String() + ".x"} {
		if _, err := events.ParseSubject(bad); !errors.Is(err, events.ErrSubject) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}
