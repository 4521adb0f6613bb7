module github.com/memory-ledger/ledger/infra

go 1.26

require github.com/mr-tron/base58 v1.3.0
