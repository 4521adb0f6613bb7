package receipt

import (
	"errors"
	"fmt"

	"github.com/mr-tron/base58"
)

// ErrIssuer says that the given Issuer is malformed or incomplete.
var ErrIssuer = errors.New("no issuer is named by it")

// Issuer selects the program and authority that must have anchored a receipt. A receipt
// names its own program and account. Everyone can deploy a program and commit any root
// with their own key. So a verifier must know program and authority from another source.
// Otherwise the receipt proves that the root was committed, but not by whom.
type Issuer struct {
	ProgramID string // empty: any
	// Authority is empty for any authority. If it is set, ProgramID must be set too:
	// another program can write any data to the account that it derives from an
	// authority's public key, without that authority's signature.
	Authority string
}

// VerifyIssuer checks that the issuer anchored the receipt. It needs no chain: the
// account's address follows from program, authority and owner. It returns nil, a
// *Finding, ErrNotAnchored, or ErrIssuer.
func VerifyIssuer(r *Receipt, by Issuer) error {
	for name, key := range map[string]string{"program": by.ProgramID, "authority": by.Authority} {
		if key != "" && !isBase58(key, 32) {
			return fmt.Errorf("%s: not a public key in base58: %w", name, ErrIssuer)
		}
	}
	if by.Authority != "" && by.ProgramID == "" {
		return fmt.Errorf("authority: name its program, too: %w", ErrIssuer)
	}
	a := r.Anchor
	switch {
	case by == Issuer{}:
		return nil
	case a == nil:
		return ErrNotAnchored
	case by.ProgramID != "" && a.ProgramID != by.ProgramID:
		return wrong("anchor.programId", "it is %s, not %s", a.ProgramID, by.ProgramID)
	case by.Authority == "":
		return nil
	}
	authority, err := base58.Decode(by.Authority)
	if err != nil {
		return fmt.Errorf("authority: %w: %w", ErrIssuer, err)
	}
	owner := r.Entry.Owner.Bytes()
	if at := derive(a.ProgramID, authority, owner[:]); at != a.Account {
		return wrong("anchor.account", "it is %s, the authority %s commits to this owner's log at %s", a.Account, by.Authority, at)
	}
	return nil
}
