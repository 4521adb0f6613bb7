#!/bin/sh
# The tour of docs/tour.mjs for machines without Node: curl and bin/ledger. It makes
# a wallet, signs in, writes, reads, searches, waits until a memory is anchored, and
# leaves receipt.json, which it checks. CORE_URL says where the core API is, if not
# on port 3001.
set -eu
core=${CORE_URL:-http://127.0.0.1:3001}
patience=60 # seconds to wait for a memory to be anchored
curl -fsS "$core/health" >/dev/null || {
	echo "$core does not answer. Start it with make run; where it listens elsewhere, set CORE_URL to what it says." >&2
	exit 1
}
wallet=$(mktemp -d)
trap 'rm -rf "$wallet"' EXIT
token=$(bin/ledger sign-in --keypair "$wallet/wallet.json" --url "$core")

# call METHOD PATH [BODY]
call() {
	if [ $# -gt 2 ]; then set -- "$1" "$2" -H 'Content-Type: application/json' -d "$3"; fi
	method=$1 path=$2
	shift 2
	curl -fsS -X "$method" "$core$path" -H "Authorization: Bearer $token" "$@"
}
# field NAME: prints the first text of that name in the JSON on standard input
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

id=$(call POST /memories '{"content": "The cat sleeps on the Warm chair", "metadata": {"mood": "calm"}}' | field id)
call POST /memories '{"content": "Rain at noon", "metadata": {}}' >/dev/null
call POST /memories '{"content": "The dog would rather go out", "metadata": {}}' >/dev/null
echo "read back       $(call GET "/memories/$id" | field content)"
echo "found by search $(call POST /memories/search '{"query": "wARM"}' | grep -o '"leafIndex":' | wc -l | tr -d ' ') memory"

signature=
# Beside a local run, `ledger env` knows whether there is a chain to wait for.
if run=$(bin/ledger env 2>/dev/null) && ! echo "$run" | grep -q SOLANA_RPC_URL; then
	echo "not anchored    this run has no chain, or none yet: its start says which"
else
	printf 'anchoring       '
	waited=0
	while [ -z "$signature" ] && [ $waited -lt $patience ]; do
		sleep 1
		printf .
		signature=$(call GET "/memories/$id/proof" | field txSignature)
		waited=$((waited + 1))
	done
	if [ -n "$signature" ]; then
		printf '\nanchored by     %s\n' "$signature"
	else
		printf '\nnot anchored    after %s s; the log of the run says what the anchorer waits for\n' $patience
	fi
fi
call GET "/memories/$id/receipt" >receipt.json
echo "wrote           receipt.json. Checked with nothing of ours running, by bin/ledger verify-receipt receipt.json:"
bin/ledger verify-receipt receipt.json
