module github.com/memory-ledger/ledger/anchoring

go 1.26
