package core

import (
	"context"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/httpapi"
)

// StakingStatus is the answer of GET /staking/status. Amounts are decimal
// strings of base units.
type StakingStatus struct {
	Live              bool              `json:"live"`
	Mint              *string           `json:"mint"`
	Decimals          int               `json:"decimals"`
	Staked            string            `json:"staked"`
	Mature            string            `json:"mature"`
	Cooling           string            `json:"cooling"`
	NextMatureAt      *events.Timestamp `json:"nextMatureAt"`
	Lots              []Lot             `json:"lots"`
	Vault             *string           `json:"vault"`
	WalletBalance     string            `json:"walletBalance"`
	MinPartialUnstake string            `json:"minPartialUnstake"`
	MaturityMs        int64             `json:"maturityMs"`
	// Reconciled means that the observed deposits and withdrawals explain Staked. If they
	// do not, Staked is still correct: an unexplained amount counts as cooling, and a
	// missing amount is taken from the youngest lots.
	Reconciled bool `json:"reconciled"`
}

// Lot is a deposit with its own maturity clock.
type Lot struct {
	Amount      string           `json:"amount"`
	DepositedAt events.Timestamp `json:"depositedAt"`
	MaturesAt   events.Timestamp `json:"maturesAt"`
	Mature      bool             `json:"mature"`
	TxSignature *string          `json:"txSignature"` // nil: the deposit was not observed yet
}

// UnsignedTransaction is a transaction that the wallet must sign and send.
type UnsignedTransaction struct {
	Transaction          string `json:"transaction"` // base64
	Blockhash            string `json:"blockhash"`
	LastValidBlockHeight uint64 `json:"lastValidBlockHeight"`
}

// Staking is the chain side of staking.
type Staking interface {
	Status(ctx context.Context, owner events.Owner) (StakingStatus, error)
	Stake(ctx context.Context, owner events.Owner, amount string) (UnsignedTransaction, error)
	Unstake(ctx context.Context, owner events.Owner, amount string) (UnsignedTransaction, error)
}

var errDormant = httpapi.Refuse(http.StatusServiceUnavailable, "staking is not live")

// dormant is the status without a mint and a program.
var dormant = StakingStatus{
	Staked: "0", Mature: "0", Cooling: "0", Lots: []Lot{}, WalletBalance: "0",
	MinPartialUnstake: "0", MaturityMs: (24 * time.Hour).Milliseconds(), Reconciled: true,
}

func (a *API) stakingStatus(c *fiber.Ctx, caller access.Caller) error {
	if a.Staking == nil {
		return c.JSON(dormant)
	}
	status, err := a.Staking.Status(httpapi.Context(c), caller.Owner)
	return httpapi.Answered(c, status, err)
}

func (a *API) stake(c *fiber.Ctx, caller access.Caller) error {
	return a.move(c, caller, Staking.Stake)
}

func (a *API) unstake(c *fiber.Ctx, caller access.Caller) error {
	return a.move(c, caller, Staking.Unstake)
}

func (a *API) move(c *fiber.Ctx, caller access.Caller, build func(Staking, context.Context, events.Owner, string) (UnsignedTransaction, error)) error {
	if a.Staking == nil { // whatever the body is
		return errDormant
	}
	var body struct {
		Amount *string `json:"amount"`
	}
	if err := httpapi.Decode(c, &body); err != nil {
		return err
	}
	if body.Amount == nil {
		return httpapi.BadRequest("amount must be a decimal string of base units")
	}
	transaction, err := build(a.Staking, httpapi.Context(c), caller.Owner, *body.Amount)
	return httpapi.Answered(c, transaction, err)
}
