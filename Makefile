# Memory Ledger. `make run` runs everything, `make test` tests it, `make verify` tests the rest.
# `make help` lists the rest.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

MODULES  := events projections anchoring services services/clients/go infra
PACKAGES := $(addprefix ./,$(addsuffix /...,$(MODULES)))
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
# git refuses to speak of a folder of another user's, and go build then fails.
VCS := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo auto || echo false)
build: ## bin/ledger
	@echo "compiling bin/ledger$$([ -e bin/ledger ] || echo ', which takes a minute or two the first time') …"
	@set -o pipefail; go build -trimpath -buildvcs=$(VCS) -o bin/ledger ./services/cmd/ledger 2>&1 | { grep -v '^go: downloading ' >&2 || true; }

.PHONY: run
run: build postgres ## both APIs, projector, anchorer and the servers they need, in the foreground
	@exec bin/ledger run

.PHONY: postgres
postgres: ## a PostgreSQL server program, installed if none is found
	@infra/install postgres

.PHONY: deps
deps: ## everything that the tests need beside Go, installed where it is missing
	@infra/install postgres node chromium bpf strace nginx

.PHONY: test
test: deps fmt-check vet rules unit ## what to run at every change: formatting, rules and all tests but the slow ones

# What is slow stands in tests that -short skips, and in the packages that need a
# browser or a cluster of processes.
.PHONY: unit
unit: ## all Go tests but the slow ones
	go test -short -timeout 10m $$(go list $(PACKAGES) | grep -v -e '/services/test/deployed$$' -e '/services/test/browser$$')

.PHONY: verify
verify: deps staticcheck vulncheck generated lint-openapi client dashboard-current webextension slow plain race fuzz ## the rest: linters, slow tests, race detector, crashes, clusters, browser, fuzzing

# The packages that start goroutines or share memory, in their code or their tests,
# but for the cluster's, which runs alone, and the browser's, whose services the
# end-to-end tests run with the race detector. Both lists are read from the files, so
# that none is forgotten.
folders = $(sort $(patsubst %/,./%,$(dir $(shell grep -rlE --include='$(2)' '$(1)' $(MODULES)))))
CLUSTER := ./services/test/deployed
CONCURRENT := "sync(/atomic)?"|"testing/synctest"|\.Go\(|^\s*go (func|[a-z])
SKIPS := testing\.Short\(\)
BROWSER := ./services/test/browser
RACE = $(filter-out $(CLUSTER) $(BROWSER),$(call folders,$(CONCURRENT),*.go))
SLOW = $(filter-out $(CLUSTER) $(RACE),$(call folders,$(SKIPS),*_test.go))

# Most end-to-end tests wait, for a server or a chain: more of them at a time than there
# are processors halve the time.
WAITING := 6

.PHONY: slow
slow: ## slow tests of the packages that the race detector does not run
	$(if $(SLOW),go test -timeout 15m $(SLOW))

.PHONY: plain
plain: ## the end-to-end tests with every accelerator of the log off
	ACCELERATORS=off go test -count=1 -short -timeout 10m -parallel $(WAITING) ./services/test/e2e

.PHONY: race
race: ## the packages that share memory between goroutines, with the race detector
	go test -race -timeout 15m -parallel $(WAITING) $(RACE)
	go test -race -timeout 10m $(CLUSTER) # a cluster of many processes: nothing beside it

.PHONY: network
network: ## 10,000 writes through a bad network with each client, each stored once
	NETWORK_WRITES=10000 go test -count=1 -timeout 15m -run '^(TestTypeScriptClient|TestGoClientBadNetwork)$$' ./services/test/e2e

.PHONY: fuzz
# Executions, not seconds: with a deadline go test fails now and then because it
# is over (go.dev/issue/75804). What is interesting is not made as short as can
# be, which took most of the time.
FUZZTIME ?= 20000x
FUZZ = go test -run '^$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 100x -fuzz
fuzz: ## each fuzz target for a short time
	$(FUZZ) '^FuzzDecodeBatch$$' ./events
	$(FUZZ) '^FuzzDecodeCanonical$$' ./events
	$(FUZZ) '^FuzzCanonicalize$$' ./events/canonical
	$(FUZZ) '^FuzzMatch$$' ./services/search
	$(FUZZ) '^FuzzFind$$' ./services/search
	$(FUZZ) '^FuzzParseQuery$$' ./services/recall
	$(FUZZ) '^FuzzParse$$' ./projections/readmodel/bodysegments

.PHONY: fmt-check
fmt-check:
	@out=$$(gofmt -l $(MODULES)); if [ -n "$$out" ]; then echo "gofmt is not happy with:"; echo "$$out"; exit 1; fi

.PHONY: vet
vet:
	go vet $(PACKAGES)

# Never from the cache: the rules read files of other modules, whose changes the
# cache does not see.
.PHONY: rules
rules: ## imports, names, and the links of docs/invariants.md
	go test -count=1 ./infra/archtest

.PHONY: staticcheck
staticcheck:
	go run $(STATICCHECK) $(PACKAGES)

.PHONY: vulncheck
vulncheck: ## known vulnerabilities, where the database can be reached
	@infra/vulncheck $(GOVULNCHECK) $(MODULES)

.PHONY: generate
generate: ## everything that is made from something else
	node events/leaf/testdata/vectors.mjs
	go generate ./services/core ./services/extension ./services/run/config
	go generate ./events/schema ./services/test/journey
	go test ./anchoring/receipt -run 'TestGood|TestAltered|TestThePageIsInStep' -update >/dev/null
	go test ./anchoring/export -run 'TestGood|TestBad' -update >/dev/null

.PHONY: generated
generated: ## fails where a generated file is out of date
	@infra/generated

CLIENT := services/clients/typescript

.PHONY: client
client: $(CLIENT)/node_modules ## the TypeScript client: its types are up to date, it passes the golden vectors, packs and is small
	cd $(CLIENT) && npm run -s generate && npm run -s build && npm test
	@git diff --exit-code -- $(CLIENT)/src/schema
	$(CLIENT)/test/pack

$(CLIENT)/node_modules: $(CLIENT)/package.json $(CLIENT)/package-lock.json
	cd $(CLIENT) && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

DASHBOARD := services/dashboard/vendor

.PHONY: dashboard
dashboard: $(DASHBOARD)/node_modules ## what the dashboard imports, made of its libraries and of the TypeScript client
	cd $(DASHBOARD) && node bundle.mjs

.PHONY: dashboard-current
dashboard-current: dashboard ## fails where what the dashboard imports is out of date
	@git diff --exit-code --stat -- services/dashboard/app $(DASHBOARD)

$(DASHBOARD)/node_modules: $(DASHBOARD)/package.json $(DASHBOARD)/package-lock.json
	cd $(DASHBOARD) && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

WEBEXTENSION := services/clients/webextension

.PHONY: webextension
webextension: $(CLIENT)/node_modules ## the browser extension, to be loaded from bin/webextension
	cd $(CLIENT) && npm run -s build
	@rm -rf bin/webextension
	$(WEBEXTENSION)/build $(CLIENT)/dist bin/webextension
	cd $(WEBEXTENSION) && npm test

LINT := services/httpapi/openapi/lint

.PHONY: lint-openapi
ifeq ($(shell command -v npm),)
lint-openapi:
	@echo "npm is missing: the OpenAPI documents are not linted" >&2
else
lint-openapi: $(LINT)/node_modules ## what a linter makes of the OpenAPI documents
	@cd $(LINT) && REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true \
	  node_modules/.bin/redocly lint --config redocly.yaml --format stylish \
	  ../../../core/openapi.json ../../../extension/openapi.json
endif

$(LINT)/node_modules: $(LINT)/package.json $(LINT)/package-lock.json
	cd $(LINT) && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

.PHONY: bench
BENCHFLAGS ?=
EVENTS ?= 1000000
bench: build ## the figures of docs/performance.md
	go build -trimpath -o bin/bench ./services/test/bench
	bin/bench $(BENCHFLAGS)
	go test ./projections/projector -run '^$$' -bench Replay -benchtime 1x -timeout 60m
	EVENTS=$(EVENTS) go test ./projections/audit -run '^$$' -bench RebuildAndVerify -benchtime 1x -timeout 60m
	go test ./anchoring/anchorer -run '^$$' -bench Sweep -benchtime 1x -timeout 60m
	go test ./services/memory -run '^$$' -bench Recall -benchtime 1x -timeout 60m
	go test ./services/recall -count=1 -run Quality -v

.PHONY: image
image: ## the container image of all services (needs Docker)
	docker build -f infra/deploy/Dockerfile -t memory-ledger .

.PHONY: clean
clean: ## what was built; never the data
	rm -rf bin
