package lots

import (
	"errors"
	"strconv"
)

// Refusals.
var (
	ErrAmount          = errors.New("amount must be a decimal string of base units, from 1 to 18446744073709551615")
	ErrMoreThanStaked  = errors.New("amount exceeds what is staked")
	ErrBelowMinimum    = errors.New("amount is below the minimum of a partial unstake")
	ErrBalanceUnknown  = errors.New("the balance onchain could not be read; try again")
	ErrChainUnreadable = errors.New("the chain could not be reached; try again")
)

// Parse reads an amount: decimal digits without a leading zero, from 1 to the largest
// u64. Other forms that a number parser accepts, such as a sign, are refused: two texts
// for one amount would hide a mistake.
func Parse(text string) (uint64, error) {
	const longest = 20
	if text == "" || len(text) > longest || text[0] == '0' {
		return 0, ErrAmount
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, ErrAmount
		}
	}
	amount, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, ErrAmount
	}
	return amount, nil
}

// Unstake checks whether amount may be withdrawn from the staked amount. A withdrawal of
// everything is always allowed. A partial one must be at least minPartial.
func Unstake(amount, staked, minPartial uint64) error {
	switch {
	case amount > staked:
		return ErrMoreThanStaked
	case amount < staked && amount < minPartial:
		return ErrBelowMinimum
	}
	return nil
}
