module github.com/memory-ledger/ledger/infra

go 1.26
