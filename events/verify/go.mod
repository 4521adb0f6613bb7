module github.com/memory-ledger/ledger/events/verify

go 1.26.0

require (
	filippo.io/edwards25519 v1.2.0
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3
	github.com/gowebpki/jcs v1.0.2
	github.com/mr-tron/base58 v1.3.0
	github.com/transparency-dev/merkle v0.0.2
)
