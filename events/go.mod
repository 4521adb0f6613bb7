module github.com/memory-ledger/ledger/events

go 1.26
