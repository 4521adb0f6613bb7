# Memory Ledger. `make run` runs everything; `make test` tests everything.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: build run openapi lint-openapi

build: ## bin/ledger
	go build -trimpath -o bin/ledger ./services/cmd/ledger

run: build ## both APIs, projector, anchorer and the servers they need, in the foreground
	@exec bin/ledger run

openapi: ## the served OpenAPI documents, from the openapi.yaml of each API and of the door
	go generate ./services/core ./services/extension

LINT := services/internal/openapi/lint

lint-openapi: $(LINT)/node_modules ## what a linter makes of the documents
	cd $(LINT) && REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true \
	  node_modules/.bin/redocly lint --config redocly.yaml --format stylish \
	  ../../../core/openapi.json ../../../extension/openapi.json

$(LINT)/node_modules: $(LINT)/package.json $(LINT)/package-lock.json
	cd $(LINT) && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@
