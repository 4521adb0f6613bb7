package program_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/infra/testkit"
)

var must, slow, errorOf = testkit.Must, testkit.Slow, testkit.ErrorOf

func TestELFHasItsHash(t *testing.T) {
	want, err := os.ReadFile("memory_ledger.so.sha256")
	must(t, err)
	sum := sha256.Sum256(program.ELF)
	if got := hex.EncodeToString(sum[:]); !strings.HasPrefix(string(want), got+"  memory_ledger.so") {
		t.Fatalf("memory_ledger.so is %s, its hash file says %s", got, want)
	}
}

// The source builds to the committed file, byte for byte.
func TestELFIsReproducible(t *testing.T) {
	slow(t) // needs a compiler
	toolchain, err := exec.Command("./build.sh", "--check").CombinedOutput()
	if err != nil {
		t.Skipf("the build tools are not here: %s", toolchain)
	}
	want, err := os.ReadFile("TOOLCHAIN")
	must(t, err)
	if string(toolchain) != string(want) {
		t.Skipf("other build tools are here, the bytes may differ:\n%s instead of\n%s", toolchain, want)
	}
	built := filepath.Join(t.TempDir(), "built.so")
	if out, err := exec.Command("./build.sh", built).CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	got, err := os.ReadFile(built)
	must(t, err)
	if !bytes.Equal(got, program.ELF) {
		t.Fatal("the source builds to other bytes than memory_ledger.so holds: run build.sh, and commit both files")
	}
}

func TestLocalID(t *testing.T) {
	seed := sha256.Sum256([]byte("memory-ledger local program"))
	key := ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)
	if program.LocalID != solana.PublicKey(key) {
		t.Fatalf("LocalID is not the key of its published seed")
	}
}

// errors.rs and this package list the same refusals in the same order.
func TestErrorsMatchTheSource(t *testing.T) {
	source, err := os.ReadFile("src/errors.rs")
	must(t, err)
	codes := regexp.MustCompile(`pub const (\w+): u64 = BASE \+ (\d+);`).FindAllStringSubmatch(string(source), -1)
	names := map[string]error{
		"INSTRUCTION": program.ErrInstruction, "ACCOUNT_COUNT": program.ErrAccountCount,
		"DUPLICATE_ACCOUNT": program.ErrDuplicateAccount, "WRONG_PROGRAM": program.ErrWrongProgram,
		"NOT_SIGNED": program.ErrNotSigned, "WRONG_ADDRESS": program.ErrWrongAddress,
		"FOREIGN_ACCOUNT": program.ErrForeignAccount, "ACCOUNT_DATA": program.ErrAccountData,
		"WRONG_AUTHORITY": program.ErrWrongAuthority, "WRONG_OWNER": program.ErrWrongOwner,
		"SHRINKS": program.ErrShrinks, "FORKS": program.ErrForks, "ZERO": program.ErrZero,
		"INSUFFICIENT": program.ErrInsufficient, "ARITHMETIC": program.ErrArithmetic,
	}
	if len(codes) != len(names) {
		t.Fatalf("errors.rs has %d codes, this package %d", len(codes), len(names))
	}
	for i, c := range codes {
		if got := program.ErrorOf(0x4d4c0000 + uint32(i) + 1); got == nil || got != names[c[1]] {
			t.Errorf("code %d is %v, errors.rs calls it %s", i+1, got, c[1])
		}
	}
	for _, code := range []uint32{0, 1, 0x4d4c0000, 0x4d4c0000 + uint32(len(codes)) + 1, 1<<32 - 1} {
		if err := program.ErrorOf(code); err != nil {
			t.Errorf("code %#x is %v", code, err)
		}
	}
}

func TestTransactionError(t *testing.T) {
	for _, test := range []struct{ json, want string }{
		{`null`, "<nil>"},
		{`"BlockhashNotFound"`, "transaction failed: BlockhashNotFound"},
		{`{"InstructionError":[2,{"Custom":1296826379}]}`, "instruction 2 failed: program: the size is smaller than the one committed"},
		{`{"InstructionError":[0,{"Custom":1}]}`, "instruction 0 failed: custom error 0x1"},
		{`{"InstructionError":[1,"InvalidAccountData"]}`, "instruction 1 failed: InvalidAccountData"},
		{`{"InsufficientFundsForRent":{"account_index":1}}`, `transaction failed: {"InsufficientFundsForRent":{"account_index":1}}`},
		{`{"InstructionError":["x","y"]}`, `transaction failed: {"InstructionError":["x","y"]}`},
	} {
		var v any
		must(t, json.Unmarshal([]byte(test.json), &v))
		got := "<nil>"
		err := program.TransactionError(v)
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.json, got, test.want)
		}
		if strings.Contains(test.json, "1296826379") && !errors.Is(err, program.ErrShrinks) {
			t.Errorf("%s is not ErrShrinks", test.json)
		}
	}
}

// A reason is recorded in the log, so the chain's node must not choose its length. A
// character is not cut in half: such a text can't be recorded at all.
func TestReasonsAreBounded(t *testing.T) {
	long := strings.Repeat("€", 1<<20)
	for _, v := range []any{long, map[string]any{long: 1}, map[string]any{"InstructionError": []any{0, long}}, map[string]any{"InstructionError": []any{0, map[string]any{"x": long}}}} {
		got := program.TransactionError(v).Error()
		if len(got) > 1100 || !utf8.ValidString(got) {
			t.Errorf("a reason of %d bytes", len(got))
		}
	}
}
