module github.com/memory-ledger/ledger/services

go 1.26
