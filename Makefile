# Memory Ledger. `make run` runs everything, `make test` tests it, `make verify` tests the rest.
# `make help` lists all targets.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

MODULES  := events events/verify projections projections/internal/fixture anchoring services services/clients/go services/test infra
E2E      := ./services/test/e2e
PACKAGES := $(E2E) $(addprefix ./,$(addsuffix /...,$(MODULES)))
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# All targets but the race detector compile without cgo: so a machine with a C compiler
# builds what one without it builds, and every target finds what another has compiled.
export CGO_ENABLED := 0

.PHONY: build
build: ## bin/ledger
	@infra/build bin/ledger ./services/cmd/ledger

.PHONY: pkcs11
pkcs11: export CGO_ENABLED := 1
pkcs11: ## bin/ledger-pkcs11, for a master key in a PKCS #11 device; needs a C compiler
	@infra/build bin/ledger-pkcs11 ./services/cmd/ledger-pkcs11

.PHONY: run
run: build ## both APIs, projector, anchorer and the servers they need, in the foreground
	@exec bin/ledger run

.PHONY: tour
tour: ## the tour of a running service, with the machine's Node or a fetched one
	@"$$(go run ./infra/fetch node)" docs/tour.mjs

.PHONY: fetch
fetch: ## what the local run and the tests need beside Go, in the user's cache
	@go run ./infra/fetch

.PHONY: deps
deps: ## what make verify needs beside that, installed with apt
	@infra/install postgres node python chromium headless firefox fonts bpf strace nginx xxd debootstrap iptables softhsm ssh

.PHONY: test
test: fetch fmt-check vet rules unit $(if $(CI),race) ## what to run at every change: formatting, rules and all tests except the slow ones

# Most tests wait for a server or a chain. Running more of them at a time than there are
# processors halves the total time. vet runs for all packages beforehand, not once more
# for each test.
WAITING := 6
GOTEST := go test -vet=off -parallel $(WAITING)

# The slow tests are the tests that -short skips, and the packages that need a browser
# or a cluster of processes. CI runs make verify after make test: there, what the race
# detector tests is tested once, with it.
.PHONY: unit
unit: ## all Go tests except the slow ones; the longest begin first, so that the rest runs beside them
	$(GOTEST) -short -timeout 10m $(UNIT)

# apt uses one processor, so staticcheck, which needs nothing of it, runs beside it. An empty
# Debian mostly waits for downloads and servers, so the parts that only compile and compare run
# beside that, one after the other. What is sensitive to load runs alone.
BESIDE := vulncheck generated lint-openapi client frameworks python release-check dashboard-current webextension fuzz
.PHONY: verify beside
verify: ## the rest: linters, slow tests, race detector, crashes, clusters, cut networks, browser, fuzzing
	@$(MAKE) --no-print-directory -j2 deps staticcheck
	@$(MAKE) --no-print-directory -j2 -Otarget empty-root beside
	@$(MAKE) --no-print-directory slow $(if $(CI),,race) clusters
beside:
	@for part in $(BESIDE); do $(MAKE) --no-print-directory $$part || exit; done

# RACE lists the packages that share memory, and start goroutines in their code or their
# tests, and the end-to-end tests, which run all services. Their slow tests run without the
# race detector: they compare much, or start programs, which do not have it. SLOW lists the
# packages with slow tests, but for those of the cluster and of cut networks, which run alone.
# Both begin with what takes longest, so that the rest runs beside it.
# All lists are computed from the files, so that no package and no test is forgotten.
folders = $(sort $(patsubst %/,./%,$(dir $(shell grep -rlE $(2) '$(1)' $(MODULES)))))
CLUSTER := ./services/test/deployed
CUTS := ./services/test/cuts
BROWSER := ./services/test/browser
STARTS := "testing/synctest"|\.Go\(|^\s*go (func|[a-z])
CONCURRENT := "sync(/atomic)?"|$(STARTS)
SKIPS := slow\(t\)|testing\.Short\(\)
EMPTY := ./infra/emptyroot
RACE = $(E2E) $(foreach p,$(filter $(call folders,$(STARTS),--include='*.go'),$(call folders,$(CONCURRENT),--include='*.go' --exclude='*_test.go')),$(if $(wildcard $p/*_test.go),$p))
UNIT = $(filter-out $(BROWSER) $(CLUSTER) $(if $(CI),$(RACE)),$(patsubst github.com/memory-ledger/ledger/%,./%,$(shell CGO_ENABLED=0 go list $(PACKAGES))))
SLOW = $(BROWSER) $(filter-out $(BROWSER) $(CLUSTER) $(CUTS) $(EMPTY),$(call folders,$(SKIPS),--include='*_test.go'))
SLOW_TESTS = $(shell awk '/^func / { name = "" } /^func Test/ { name = $$2; sub(/[^A-Za-z0-9].*/, "", name) } \
	/$(SKIPS)/ && name { print name }' $$(grep -rlE '$(SKIPS)' --include='*_test.go' $(MODULES)) | sort -u | paste -sd'|')

# Tests compile these clients. What they need is installed before, since two of npm in one
# folder remove each other's files. Without npm, these tests skip.
CLIENT := services/clients/typescript
FRAMEWORKS := services/clients/frameworks
INSTALLED := $(if $(shell command -v npm),$(CLIENT)/node_modules $(FRAMEWORKS)/node_modules)

.PHONY: slow
slow: $(INSTALLED) ## the slow tests
	$(GOTEST) -timeout 15m -run '^($(SLOW_TESTS))$$' $(SLOW)

# The first command compiles, with the compiler's garbage collection as for vet, and runs
# nothing: the tests keep their own.
.PHONY: race
race: export CGO_ENABLED := 1
race: ## the packages that share memory between goroutines, with the race detector, without the slow tests
	@$(LAZYGC) go list -race -test -export $(RACE) >/dev/null
	$(GOTEST) -race -short -timeout 15m $(RACE)

# Both wait more than they compute, for elections and restarts.
.PHONY: clusters
clusters: ## deployments of many processes, and machines that lose each other, in network namespaces: four minutes (the latter skip without root, ip or iptables)
	go test -vet=off -count=1 -timeout 10m $(CUTS) $(CLUSTER)

.PHONY: empty-root
empty-root: ## README's two commands, and one machine's setup, on an empty Debian; EMPTY_ROOT=all runs all of make test there, for each user
	go test -vet=off -count=1 -v -parallel 3 -timeout 80m $(EMPTY)

.PHONY: network
network: $(INSTALLED) ## 10,000 writes through a bad network with each client, each stored once
	NETWORK_WRITES=10000 go test -count=1 -timeout 15m -run '^(TestTypeScriptClient|TestGoClientBadNetwork|TestPythonClient)$$' ./services/test/e2e

.PHONY: fuzz
# FUZZTIME counts executions, not seconds: with a deadline, go test sometimes fails
# only because the deadline has passed (go.dev/issue/75804). -fuzzminimizetime limits
# how far an interesting input is shortened, because that took most of the time.
FUZZTIME ?= 20000x
FUZZ = go test -vet=off -run '^$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 100x -fuzz
fuzz: ## each fuzz target for a short time
	$(FUZZ) '^FuzzDecodeBatch$$' ./events
	$(FUZZ) '^FuzzCanonicalize$$' ./events/verify/canonical
	$(FUZZ) '^FuzzMatch$$' ./services/search
	$(FUZZ) '^FuzzFind$$' ./services/search
	$(FUZZ) '^FuzzParseQuery$$' ./services/recall
	$(FUZZ) '^FuzzTerms$$' ./services/recall

.PHONY: fmt-check
fmt-check:
	@out=$$(gofmt -l $(MODULES)); if [ -n "$$out" ]; then echo "gofmt is not happy with:"; echo "$$out"; exit 1; fi

# The compiler collects garbage less often, so that a cold build takes a tenth less time.
LAZYGC := GOGC=400

.PHONY: vet
vet:
	$(LAZYGC) go vet $(PACKAGES)

# -count=1 skips the test cache: the rules read files of other modules, and the cache
# does not see their changes.
.PHONY: rules
rules: ## imports, names, and the documents
	go test -count=1 ./infra/archtest

.PHONY: staticcheck
staticcheck:
	$(LAZYGC) go run $(STATICCHECK) $(PACKAGES)

.PHONY: vulncheck
vulncheck: ## known vulnerabilities, if the database can be reached
	@infra/vulncheck $(GOVULNCHECK) $(MODULES)

.PHONY: generate
generate: ## all files that are generated from other files
	go test -count=1 ./infra/archtest -run TestOneVersion -update >/dev/null
	node events/verify/leaf/testdata/vectors.mjs
	go generate ./services/core ./services/extension ./services/run/config ./events/schema
	go test ./events/verify -run 'TestGood|TestAltered|TestBad|TestThePageIsInStep' -update >/dev/null
	go test ./anchoring/staking -run TestTransactionsForClients -update >/dev/null
	go test ./services/test/journey -run TestFilesAreCurrent -update >/dev/null

.PHONY: related
related: ## the table of related words, from word vectors that it fetches (118 MB)
	go run ./services/test/relatedwords

.PHONY: generated
generated: ## fails if a generated file is out of date
	@infra/generated

.PHONY: client
client: $(CLIENT)/node_modules ## the TypeScript client: up-to-date types, golden vectors, package and size
	cd $(CLIENT) && npm run -s generate && npm run -s build && npm test
	@git diff --exit-code -- $(CLIENT)/src/schema
	$(CLIENT)/test/pack

$(CLIENT)/node_modules: $(CLIENT)/package.json $(CLIENT)/package-lock.json
	cd $(CLIENT) && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

.PHONY: frameworks
frameworks: $(CLIENT)/node_modules $(FRAMEWORKS)/node_modules ## the packages for agent frameworks: types, by all versions of the AI SDK
	cd $(CLIENT) && npm run -s build
	cd $(FRAMEWORKS) && npm run -s build && npm run -s types

$(FRAMEWORKS)/node_modules: $(wildcard $(FRAMEWORKS)/package*.json $(FRAMEWORKS)/*/package.json)
	cd $(FRAMEWORKS) && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

.PHONY: python
python: ## the Python client: up-to-date types, golden vectors, mypy, wheel and sdist
	services/clients/python/check

DASHBOARD := services/dashboard/vendor

.PHONY: dashboard
dashboard: $(DASHBOARD)/node_modules ## the modules that the dashboard imports, made from its libraries and the TypeScript client
	cd $(DASHBOARD) && node bundle.mjs

.PHONY: dashboard-current
dashboard-current: dashboard ## fails if a module that the dashboard imports is out of date
	@git diff --exit-code --stat -- services/dashboard/app $(DASHBOARD)

.PHONY: pictures
pictures: fetch ## the dashboard's pictures and recording in docs/images, taken anew
	@infra/install node chromium fonts webp
	LEDGER_PICTURES=$(CURDIR)/docs/images go test -vet=off -count=1 -v -run '^TestPictures$$' ./services/test/browser

$(DASHBOARD)/node_modules: $(DASHBOARD)/package.json $(DASHBOARD)/package-lock.json
	cd $(DASHBOARD) && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

WEBEXTENSION := services/clients/webextension

.PHONY: webextension
webextension: $(CLIENT)/node_modules ## the browser extension, built in bin/webextension, and its tests
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
lint-openapi: $(LINT)/node_modules ## lints the OpenAPI documents
	@cd $(LINT) && REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true \
	  node_modules/.bin/redocly lint --config redocly.yaml --format stylish \
	  ../../../core/openapi.json ../../../extension/openapi.json
endif

$(LINT)/node_modules: $(LINT)/package.json $(LINT)/package-lock.json
	cd $(LINT) && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

.PHONY: bench
BENCHFLAGS ?=
bench: build ## the figures of docs/performance.md
	go build -o bin/bench ./services/test/bench
	bin/bench $(BENCHFLAGS)
	$(if $(BENCHFLAGS),,go test -tags bleve -count=1 -v -run Bleve ./services/test/quality)
	go test -run '^$$' -bench Sealing ./services/keystore # a key a memory beside one key an owner

.PHONY: image
image: ## the container image of all services (needs Docker)
	docker build -f infra/deploy/Dockerfile -t memory-ledger .

# A release is made of a commit. VERSION on the command line must be what the file VERSION says.
VERSION = $(shell cat VERSION)

.PHONY: release
release: ## all that a release publishes, in bin/release; SIGNING_KEY=file signs it
	@[ "$(VERSION)" = "$$(cat VERSION)" ] || { echo "write $(VERSION) in the file VERSION, run make generate, and commit"; exit 1; }
	@[ -z "$$(git status --porcelain)" ] || { git status --short; echo "commit or remove this first"; exit 1; }
	@rm -rf $(CLIENT)/dist $(FRAMEWORKS)/*/dist $(FRAMEWORKS)/*/*.tsbuildinfo
	@$(MAKE) --no-print-directory frameworks
	infra/release/build bin/release

.PHONY: release-check
release-check: frameworks
	infra/release/check

.PHONY: clean
clean: ## removes what was built; never the data
	rm -rf bin
