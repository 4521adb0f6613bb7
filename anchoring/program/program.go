// Package program has the on-chain program for Go: the built file, ready to deploy, and
// the program's refusals as errors. README.md describes the Rust source, the accounts and
// their bytes. Packages commitment and staking build the instructions.
package program

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gagliardetto/solana-go"
)

// ELF is the program that build.sh builds from the source in this folder.
//
//go:embed memory_ledger.so
var ELF []byte

// LocalID is the address at which local chains deploy the program. Its private key is
// public (see TestLocalID), so never deploy there on a cluster.
var LocalID = solana.MustPublicKeyFromBase58("8C3odsbKGYCEipcgRMnCek1xY9oXRbmqKpEkFaeoF9Cp")

// errorBase is the upper half of every refusal's code: "ML".
const errorBase = 0x4d4c0000

// The program's refusals. Codes are errorBase plus the position from one.
var (
	ErrInstruction      = errors.New("program: unknown instruction, or data of a wrong length")
	ErrAccountCount     = errors.New("program: fewer or more accounts than the instruction takes")
	ErrDuplicateAccount = errors.New("program: one account named in two roles")
	ErrWrongProgram     = errors.New("program: the system or token program at this place is another account")
	ErrNotSigned        = errors.New("program: the authority or wallet did not sign")
	ErrWrongAddress     = errors.New("program: not the canonical address derived from the seeds")
	ErrForeignAccount   = errors.New("program: the account belongs to another program")
	ErrAccountData      = errors.New("program: the account's length or magic is wrong")
	ErrWrongAuthority   = errors.New("program: the account was made by another authority")
	ErrWrongOwner       = errors.New("program: the account commits to another owner's log")
	ErrShrinks          = errors.New("program: the size is smaller than the one committed")
	ErrForks            = errors.New("program: the size is the one committed, the root is not")
	ErrZero             = errors.New("program: a size or an amount of zero")
	ErrInsufficient     = errors.New("program: the token account is not of this mint or holds less than the amount")
	ErrArithmetic       = errors.New("program: a counter or a rent calculation would leave 64 bits")
)

var refusals = []error{
	ErrInstruction, ErrAccountCount, ErrDuplicateAccount, ErrWrongProgram, ErrNotSigned,
	ErrWrongAddress, ErrForeignAccount, ErrAccountData, ErrWrongAuthority, ErrWrongOwner,
	ErrShrinks, ErrForks, ErrZero, ErrInsufficient, ErrArithmetic,
}

// ErrorOf returns the refusal for a custom program error code, or nil if the code is not
// one of this program's.
func ErrorOf(code uint32) error {
	i := code - errorBase - 1 // wraps around below errorBase+1, and is then out of range
	if i >= uint32(len(refusals)) {
		return nil
	}
	return refusals[i]
}

// InstructionError says why a transaction failed, as the chain reported it.
type InstructionError struct {
	// Index is the position of the failed instruction in its transaction, or -1 if the
	// transaction failed as a whole.
	Index int
	// Code is the custom code. Custom says whether there was one.
	Code   uint32
	Custom bool
	// Reason is the runtime's error if there was no custom code.
	Reason string
}

func (e *InstructionError) Error() string {
	switch {
	case e.Index < 0:
		return "transaction failed: " + e.Reason
	case !e.Custom:
		return fmt.Sprintf("instruction %d failed: %s", e.Index, e.Reason)
	case e.Unwrap() != nil:
		return fmt.Sprintf("instruction %d failed: %v", e.Index, e.Unwrap())
	default:
		return fmt.Sprintf("instruction %d failed: custom error %#x", e.Index, e.Code)
	}
}

// Unwrap returns the refusal if the code is one of this program's. Only the caller can
// tell whether the failed instruction belonged to this program at all.
func (e *InstructionError) Unwrap() error {
	if !e.Custom {
		return nil
	}
	return ErrorOf(e.Code)
}

// TransactionError reads the `err` of a transaction status, a preflight failure or a
// simulation, from any form of decoded JSON. It returns nil for null.
func TransactionError(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return &InstructionError{Index: -1, Reason: fmt.Sprintf("%v", v)}
	}
	if string(raw) == "null" {
		return nil
	}
	var failed struct{ InstructionError []json.RawMessage }
	if json.Unmarshal(raw, &failed) != nil || len(failed.InstructionError) != 2 {
		return &InstructionError{Index: -1, Reason: word(raw)}
	}
	e := &InstructionError{Index: -1}
	if err := json.Unmarshal(failed.InstructionError[0], &e.Index); err != nil {
		return &InstructionError{Index: -1, Reason: word(raw)}
	}
	var custom struct{ Custom *uint32 }
	if json.Unmarshal(failed.InstructionError[1], &custom) == nil && custom.Custom != nil {
		e.Code, e.Custom = *custom.Custom, true
		return e
	}
	e.Reason = word(failed.InstructionError[1])
	return e
}

// word returns a JSON string's text, or the JSON itself, cut to 1 kB: it is recorded in the
// log, whose messages are bounded, and the chain's node chose its text.
func word(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		s = string(raw)
	}
	return strings.ToValidUTF8(s[:min(len(s), 1024)], "")
}
