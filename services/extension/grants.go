package extension

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/grant"
	"github.com/memory-ledger/ledger/services/httpapi"
)

func isDead(err error) bool { return errors.Is(err, grant.ErrDead) }

// mintedCase and mintedDrop are the answers to minting. They differ in the names of their
// uses: reads or writes.
type mintedCase struct {
	ID                   string           `json:"id"`
	URL                  string           `json:"url"`
	ExpiresAt            events.Timestamp `json:"expiresAt"`
	MaxReads             int              `json:"maxReads"`
	RemainingReads       int              `json:"remainingReads"`
	RevokedPreviousCount int              `json:"revokedPreviousCount"`
}

type mintedDrop struct {
	ID                   string           `json:"id"`
	URL                  string           `json:"url"`
	ExpiresAt            events.Timestamp `json:"expiresAt"`
	MaxWrites            int              `json:"maxWrites"`
	RemainingWrites      int              `json:"remainingWrites"`
	RevokedPreviousCount int              `json:"revokedPreviousCount"`
}

func (a *API) mint(kind events.GrantKind) func(*fiber.Ctx, access.Caller) error {
	terms := grant.TermsOf(kind)
	return func(c *fiber.Ctx, caller access.Caller) error {
		asked, err := askedTerms(c, kind)
		if err != nil {
			return err
		}
		minutes, err := within("expiresInMinutes", asked.minutes, terms.DefaultMinutes, terms.MinMinutes, terms.MaxMinutes)
		if err != nil {
			return err
		}
		uses, err := within(terms.UsesField, asked.uses, terms.DefaultUses, terms.MinUses, terms.MaxUses)
		if err != nil {
			return err
		}
		minted, err := a.Grants.Mint(httpapi.Context(c), caller, grant.Asked{
			Kind: kind, Lifetime: time.Duration(minutes) * time.Minute, Uses: uses, Namespace: asked.namespace,
		})
		if err != nil {
			return err
		}
		c.Status(http.StatusCreated)
		if kind == events.GrantCase {
			return c.JSON(mintedCase{minted.ID, minted.URL, minted.ExpiresAt, uses, uses, minted.RevokedPrevious})
		}
		return c.JSON(mintedDrop{minted.ID, minted.URL, minted.ExpiresAt, uses, uses, minted.RevokedPrevious})
	}
}

// asked holds the terms in a request to mint; nil for an absent member.
type asked struct {
	minutes, uses *int
	namespace     *string
}

// askedTerms reads the members of the kind's own route. It refuses the other kind's
// member, like any unknown member.
func askedTerms(c *fiber.Ctx, kind events.GrantKind) (asked, error) {
	if kind == events.GrantCase {
		var body struct {
			ExpiresInMinutes *int    `json:"expiresInMinutes"`
			MaxReads         *int    `json:"maxReads"`
			Namespace        *string `json:"namespace"`
		}
		err := httpapi.DecodeOptional(c, &body)
		return asked{body.ExpiresInMinutes, body.MaxReads, body.Namespace}, err
	}
	var body struct {
		ExpiresInMinutes *int    `json:"expiresInMinutes"`
		MaxWrites        *int    `json:"maxWrites"`
		Namespace        *string `json:"namespace"`
	}
	err := httpapi.DecodeOptional(c, &body)
	return asked{body.ExpiresInMinutes, body.MaxWrites, body.Namespace}, err
}

func within(name string, asked *int, byDefault, least, most int) (int, error) {
	if asked == nil {
		return byDefault, nil
	}
	if *asked < least || *asked > most {
		return 0, httpapi.BadRequest(fmt.Sprintf("%s must be an integer from %d to %d", name, least, most))
	}
	return *asked, nil
}

type caseStatus struct {
	ReadCount      int  `json:"readCount"`
	RemainingReads int  `json:"remainingReads"`
	Revoked        bool `json:"revoked"`
	Expired        bool `json:"expired"`
}

type dropStatus struct {
	WriteCount      int  `json:"writeCount"`
	RemainingWrites int  `json:"remainingWrites"`
	Revoked         bool `json:"revoked"`
	Expired         bool `json:"expired"`
}

func (a *API) status(kind events.GrantKind) fiber.Handler {
	return func(c *fiber.Ctx) error {
		caller, err := a.reader(c)
		if err != nil {
			return err
		}
		s, err := a.Grants.Status(httpapi.Context(c), caller.Owner, kind, httpapi.Param(c, "id"))
		if err != nil {
			return err
		}
		if kind == events.GrantCase {
			return c.JSON(caseStatus{s.Used, s.Remaining, s.Revoked, s.Expired})
		}
		return c.JSON(dropStatus{s.Used, s.Remaining, s.Revoked, s.Expired})
	}
}

func (a *API) revoke(kind events.GrantKind) fiber.Handler {
	return func(c *fiber.Ctx) error {
		caller, err := a.reader(c)
		if err != nil {
			return err
		}
		revoked, err := a.Grants.Revoke(httpapi.Context(c), caller.Owner, caller.Credential, kind, httpapi.Param(c, "id"))
		if err != nil {
			return err
		}
		return c.JSON(fiber.Map{"ok": true, "revoked": revoked})
	}
}
