# Memory Ledger. `make run` runs everything; `make test` tests everything.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: build run

build: ## bin/ledger
	go build -trimpath -o bin/ledger ./services/cmd/ledger

run: build ## both APIs, projector, anchorer and the servers they need, in the foreground
	@exec bin/ledger run

# The browser tests (services/browser) drive Debian's Chromium.
.PHONY: browser-deps
browser-deps: ## Chromium for the browser tests, where it is missing
	@command -v chromium chromium-browser >/dev/null || { \
		command -v apt-get >/dev/null || { echo "install Chromium, or name it in CHROMIUM"; exit 1; }; \
		sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
		$$sudo apt-get update -q && $$sudo apt-get install -qy --no-install-recommends chromium; }
