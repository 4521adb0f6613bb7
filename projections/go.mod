module github.com/memory-ledger/ledger/projections

go 1.26
