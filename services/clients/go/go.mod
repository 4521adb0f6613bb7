module github.com/memory-ledger/ledger/services/clients/go

go 1.26.0

require (
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3
	github.com/memory-ledger/ledger/events/verify v1.0.0
	github.com/mr-tron/base58 v1.3.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/transparency-dev/merkle v0.0.2 // indirect
)

replace github.com/memory-ledger/ledger/events/verify => ../../../events/verify
