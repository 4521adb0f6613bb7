// A tour of Memory Ledger without dependencies: makes a wallet, signs in, writes,
// reads, searches, proves, checks the proof, waits until it is anchored, and leaves
// receipt.json. Node 20 or newer; without it, docs/tour.sh does the same.
// CORE_URL says where the core API is, if not on port 3001.
import { execFileSync } from "node:child_process";
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { writeFileSync } from "node:fs";
import { expected } from "./challenge.mjs";

const core = process.env.CORE_URL ?? "http://127.0.0.1:3001";
const patience = 60; // seconds to wait for a memory to be anchored
const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
function base58(bytes) {
  let n = BigInt("0x" + Buffer.from(bytes).toString("hex")), text = "";
  for (; n > 0n; n /= 58n) text = alphabet[Number(n % 58n)] + text;
  for (const b of bytes) { if (b !== 0) break; text = "1" + text; }
  return text;
}
async function call(method, path, body, token) {
  const headers = { ...(body && { "Content-Type": "application/json" }), ...(token && { Authorization: `Bearer ${token}` }) };
  const response = await fetch(core + path, { method, headers, body: body && JSON.stringify(body) })
    .catch((err) => { console.error(`${core} does not answer (${err.cause?.code ?? err.message}). Start it with make run; where it listens elsewhere, set CORE_URL to what it says.`); process.exit(1); });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${answer.error}`);
  return answer;
}
const sha256 = (...parts) => createHash("sha256").update(Buffer.concat(parts)).digest();

const wallet = generateKeyPairSync("ed25519");
const publicKey = base58(wallet.publicKey.export({ format: "der", type: "spki" }).subarray(-32));
const message = expected((await call("POST", "/auth/challenge", { publicKey })).message, core, publicKey);
const signature = base58(sign(null, Buffer.from(message), wallet.privateKey));
const { token } = await call("POST", "/auth/verify", { publicKey, message, signature });
console.log("signed in as   ", publicKey);

const { id } = await call("POST", "/memories", { content: "The cat sleeps on the Warm chair", metadata: { mood: "calm" } }, token);
await call("POST", "/memories", { content: "Rain at noon", metadata: {} }, token);
await call("POST", "/memories", { content: "The dog would rather go out", metadata: {} }, token);
console.log("read back      ", (await call("GET", `/memories/${id}`, null, token)).content);
console.log("found by search", (await call("POST", "/memories/search", { query: "wARM" }, token)).length, "memory");

const { proof, batchRoot } = await call("GET", `/memories/${id}/proof`, null, token);
let node = Buffer.from(proof.leaf, "hex");
proof.siblings.forEach((hex, i) => {
  const sibling = Buffer.from(hex, "hex");
  node = proof.directions[i] ? sha256(Buffer.from([1]), node, sibling) : sha256(Buffer.from([1]), sibling, node);
});
if (node.toString("hex") !== batchRoot) throw new Error("the proof does not lead to the root");
console.log("proof leads to ", batchRoot);

// Beside a local run, `ledger env` knows whether there is a chain to wait for.
function chain() {
  try {
    return execFileSync("bin/ledger", ["env"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).includes("SOLANA_RPC_URL");
  } catch { return true; } // no local run here: wait and see
}
let anchoredBy = null;
if (!chain()) console.log("not anchored    this run has no chain, or none yet: its start says which (a chain needs Node 20.18 or newer with npm)");
else {
  process.stdout.write("anchoring       ");
  for (let waited = 0; !anchoredBy && waited < patience; waited++) {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    process.stdout.write(".");
    anchoredBy = (await call("GET", `/memories/${id}/proof`, null, token)).txSignature;
  }
  console.log(anchoredBy ? `\nanchored by     ${anchoredBy}` : `\nnot anchored    after ${patience} s; the log of the run says what the anchorer waits for`);
}
writeFileSync("receipt.json", JSON.stringify(await call("GET", `/memories/${id}/receipt`, null, token)));
console.log("wrote           receipt.json. Check it, with nothing of ours running: bin/ledger verify-receipt receipt.json");
if (anchoredBy) console.log('and on the chain: eval "$(bin/ledger env)"; bin/ledger verify-receipt receipt.json --rpc "$SOLANA_RPC_URL"');
