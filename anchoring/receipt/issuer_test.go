package receipt_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/anchoring/receipt"
)

// A receipt that another authority anchored, or that is anchored in another program, is
// valid in itself and on the chain. VerifyIssuer with the expected issuer refuses it.
func TestVerifyIssuer(t *testing.T) {
	anchored := func(to, by solana.PublicKey) *receipt.Receipt {
		r := good()
		address, _, err := commitment.Address(to, by, solana.PublicKey(owner.Bytes()))
		r.Anchor.ProgramID, r.Anchor.Account = to.String(), must(address, err).String()
		if err := receipt.Verify(r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	ours, theirs := program.LocalID, solana.PublicKey(filled(0x71))
	stranger := solana.PublicKey(filled(0x51))
	service := receipt.Issuer{ProgramID: ours.String(), Authority: authority.String()}
	waiting := good()
	waiting.Anchor = nil
	for name, c := range map[string]struct {
		receipt *receipt.Receipt
		by      receipt.Issuer
		want    string // empty: good
	}{
		"the service's":             {anchored(ours, authority), service, ""},
		"anybody's":                 {anchored(theirs, stranger), receipt.Issuer{}, ""},
		"another authority":         {anchored(ours, stranger), service, "anchor.account:"},
		"another program":           {anchored(theirs, authority), service, "anchor.programId:"},
		"the program alone":         {anchored(theirs, authority), receipt.Issuer{ProgramID: ours.String()}, "anchor.programId:"},
		"the authority alone":       {anchored(theirs, authority), receipt.Issuer{Authority: authority.String()}, "authority:"},
		"not anchored":              {waiting, service, "not anchored yet:"},
		"not anchored, nobody's":    {waiting, receipt.Issuer{}, ""},
		"an authority that is none": {anchored(ours, authority), receipt.Issuer{Authority: "l0O"}, "authority:"},
		"a program that is none":    {anchored(ours, authority), receipt.Issuer{ProgramID: signature}, "program:"},
	} {
		err := receipt.VerifyIssuer(c.receipt, c.by)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		var finding *receipt.Finding
		kinds := 0
		for _, is := range []bool{errors.As(err, &finding), errors.Is(err, receipt.ErrIssuer), errors.Is(err, receipt.ErrNotAnchored)} {
			if is {
				kinds++
			}
		}
		if err != nil && kinds != 1 {
			t.Errorf("%s: %v is of %d kinds", name, err, kinds)
		}
	}
	held, err := receipt.Check(t.Context(), node(t, committedSize), good())
	if err != nil || held.Authority != authority.String() {
		t.Errorf("committed by %+v, %v", held, err)
	}
}
