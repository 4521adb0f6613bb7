# Memory Ledger. `make run` runs everything; `make test` tests everything.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: build run

build: ## bin/ledger
	go build -trimpath -o bin/ledger ./services/cmd/ledger

run: build ## both APIs, projector, anchorer and the servers they need, in the foreground
	@exec bin/ledger run
