// Checks the journey with nothing but Node: `node docs/journey/verify.mjs`.
import { createDecipheriv, createHash, createHmac, hkdfSync } from "node:crypto";
import { readFileSync } from "node:fs";

const read = (name) => readFileSync(new URL(name, import.meta.url), "utf8");
const json = (name) => JSON.parse(read(name));
const hex = (text) => Buffer.from(text, "hex");
const sha256 = (...parts) => createHash("sha256").update(Buffer.concat(parts)).digest("hex");
const node = (left, right) => sha256(hex("01"), hex(left), hex(right));
const u64 = (n) => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(n)); return b.toString("hex"); };
function same(what, got, want) {
  if (got !== want) throw new Error(`${what}: ${got}, want ${want}`);
  console.log("ok", what);
}

const command = json("command.json"), leaf = json("leaf.json"), tree = json("tree.json");
const chain = json("commitment.json"), receipt = json("receipt.json");
const [event] = json("message.json");

// From the request and the event to the leaf.
const secret = Buffer.from(hkdfSync("sha256", hex(leaf.dataKey), "", "memory-ledger/leaf/v1", 32));
same("leaf secret", secret.toString("hex"), leaf.leafSecret);
same("salt", createHmac("sha256", secret).update(leaf.salted).digest("hex"), leaf.salt);
same("entry", leaf.salted.replace(',"v":1}', `,"salt":"${leaf.salt}","v":1}`), leaf.entry);
same("leaf hash", sha256(hex("00"), Buffer.from(leaf.entry)), event.data.leafHash);
const sealed = Buffer.from(event.data.sealed, "base64");
let key = hex(leaf.rootKey);
for (let bit = 31; bit >= 0; bit--) key = createHmac("sha256", key).update(Buffer.of((leaf.leafIndex >>> bit) & 1)).digest();
const cipher = createDecipheriv("aes-256-gcm", key, sealed.subarray(0, 12));
cipher.setAAD(hex(leaf.associatedData)).setAuthTag(sealed.subarray(-16));
const content = Buffer.concat([cipher.update(sealed.subarray(12, -16)), cipher.final()]).toString();
same("content", content, JSON.parse(command.body).content);

// The log's leaves, and the tree over them (RFC 9162, section 2.1.1).
const root = (leaves) => {
  if (leaves.length < 2) return leaves[0] ?? sha256();
  let k = 1;
  while (k * 2 < leaves.length) k *= 2;
  return node(root(leaves.slice(0, k)), root(leaves.slice(k)));
};
const log = read("log.jsonl").trim().split("\n").map((line) => JSON.parse(line));
const versions = {};
for (const { sequence, subject, payload } of log) {
  const [family, partition] = subject.split(".");
  versions[family] = (versions[family] ?? 0) + 1;
  same(`message ${sequence}`, [partition, payload[0].ownerversion].join(),
    [sha256(Buffer.from(command.owner)).slice(0, 2), versions[family]].join());
}
const message = log.find((m) => m.subject === command.subject && m.payload[0].id === event.id);
same("message", JSON.stringify(message.payload), read("message.json"));
const events = log.flatMap((m) => m.payload);
const leaves = events.filter((e) => e.type === "MemoryWritten").map((e) => e.data.leafHash);
same("leaves", leaves.join(), tree.leaves.join());
for (const [size, want] of Object.entries(tree.roots)) same(`root of ${size}`, root(leaves.slice(0, size)), want);

// The chain's accounts.
for (const c of chain.commits) {
  same(`root of batch ${c.size}`, c.root, tree.roots[c.size]);
  same("account", c.accountData.slice(0, 16) + c.accountData.slice(144, 224 + 16),
    Buffer.from("MLCOMMT1").toString("hex") + u64(c.size) + c.root + u64(c.slot));
}
const confirmed = events.filter((e) => e.type === "BatchConfirmed").map((e) => e.data);
same("batches", confirmed.map((b) => [b.batchId, b.root, b.signature, b.size, b.slot]).join(),
  chain.commits.map((c) => [c.batchId, c.root, c.txSignature, c.size, c.slot]).join());

// What a leaf corrects is named in its metadata, which the leaf proves.
for (const { data } of events.filter((e) => e.data.supersedes?.length)) {
  same(`corrected by ${data.leafIndex}`, data.metadata.supersedes.join(),
    [...new Set(data.supersedes.map((index) => leaves[index]))].join());
}

// The receipt: fold from the leaf up.
const folded = receipt.siblings.reduce(
  (hash, sibling, i) => (receipt.directions[i] ? node(hash, sibling) : node(sibling, hash)), receipt.leafHash);
same("receipt's leaf", receipt.leafHash, leaf.leafHash);
same("receipt's batch root", folded, receipt.batchRoot);
same("committed root", receipt.anchor.committedRoot, tree.roots[receipt.anchor.committedSize]);
