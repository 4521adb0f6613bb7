package localchaintest

// Fault is a failure, or another change, that a test causes on purpose. See the functions
// that make one.
type Fault map[string]any

// Drop makes the chain lose the next transactions. Their senders still get signatures.
func Drop(count int) Fault { return Fault{"op": "drop", "count": count} }

// LoseReply executes the next calls of a method, but closes their connections without a
// reply.
func LoseReply(method string, count int) Fault {
	return Fault{"op": "loseReply", "method": method, "count": count}
}

// Fail refuses the next calls of a method with an internal error, and does not execute
// them.
func Fail(method string, count int) Fault {
	return Fault{"op": "fail", "method": method, "count": count}
}

// Down makes the chain close every connection until Down(false). It neither executes nor
// answers the calls.
func Down(on bool) Fault { return Fault{"op": "down", "on": on} }

// Lag delays confirmations by that many slots.
func Lag(slots int) Fault { return Fault{"op": "lag", "slots": slots} }

// Expire makes every blockhash that the chain has returned too old.
func Expire() Fault { return Fault{"op": "expire"} }

// Advance makes that many slots pass now.
func Advance(slots int) Fault { return Fault{"op": "advance", "slots": slots} }

// Clock sets the chain's time, which runs on from there.
func Clock(unixTimestamp int64) Fault {
	return Fault{"op": "clock", "unixTimestamp": unixTimestamp}
}

// SetAccount replaces an account by force.
func SetAccount(address string, lamports uint64, owner string, data []byte) Fault {
	return Fault{"op": "setAccount", "address": address, "lamports": lamports, "owner": owner, "data": data}
}

// Rent sets the rent sysvar: rate is in lamports per byte and year, and threshold is how
// many years an account must pay ahead to be exempt. Clusters have had 3480 for 2 years
// and 6960 for 1 year, which give the same amount.
func Rent(rate uint64, threshold float64) Fault {
	return Fault{"op": "rent", "rate": rate, "threshold": threshold}
}

// Reset replaces this chain with another one, which has another genesis, no state, no
// history, and the configured programs deployed.
func Reset() Fault { return Fault{"op": "reset"} }
