// The golden vectors that every verifier of this repository is held to.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import * as ledger from "../dist/index.js";

const root = new URL("../../../../", import.meta.url);
const read = (path) => readFileSync(new URL(path, root), "utf8");
const json = (path) => JSON.parse(read(path));

test("leaves", async () => {
  for (const v of json("events/leaf/testdata/vectors.json")) {
    const entry = { content: v.content, metadata: JSON.parse(v.metadata), owner: v.owner, salt: v.salt, v: 1 };
    assert.equal(ledger.canonicalize(entry), v.entry, v.name);
    assert.equal(await ledger.entryHash(entry), v.leafHash, v.name);
  }
});

test("what I-JSON has not", () => {
  for (const value of [NaN, Infinity, "\ud800", { "\udc00": 1 }, undefined, 1n]) assert.throws(() => ledger.canonicalize(value), TypeError);
  const nested = (depth) => JSON.parse('{"a":'.repeat(depth) + "1" + "}".repeat(depth));
  ledger.canonicalize(nested(64));
  assert.throws(() => ledger.canonicalize(nested(65)), TypeError);
});

test("the journey", async () => {
  const leaf = json("docs/journey/leaf.json"), tree = json("docs/journey/tree.json");
  const chain = json("docs/journey/commitment.json"), receipt = json("docs/journey/receipt.json");
  assert.equal(ledger.canonicalize(receipt.entry), leaf.entry);
  assert.equal(await ledger.leafHash(leaf.entry), leaf.leafHash);
  const log = new ledger.RootOfLeaves();
  for (const hash of tree.leaves) {
    await log.add(hash);
    assert.equal(await log.root(), tree.roots[log.size], `root of ${log.size}`);
  }
  await ledger.verifyReceipt(read("docs/journey/receipt.json"));
  const authority = ledger.fromBase58(chain.authority, 32), owner = ledger.fromBase58(chain.owner, 32);
  assert.equal(await ledger.commitmentAddress(chain.programId, authority, owner), chain.account);
  await ledger.checkIssuer(receipt, { programId: chain.programId, authority: chain.authority });
  await assert.rejects(ledger.checkIssuer(receipt, { programId: chain.programId, authority: chain.owner }), ledger.AnchorError);
  const commit = chain.commits.at(-1);
  const tx = { slot: commit.slot, meta: { err: null }, transaction: { message: {
    accountKeys: [chain.authority, chain.account, chain.programId],
    instructions: [{ programIdIndex: 2, accounts: [0, 1], data: ledger.toBase58(Buffer.from(commit.instruction, "hex")) }] } } };
  const data = Buffer.from(commit.accountData, "hex");
  assert.deepEqual(await ledger.checkOnchain("http://rpc", receipt, { fetch: nodeOf({ genesis: chain.cluster, owner: chain.programId, account: chain.account, signature: commit.txSignature, data, tx }) }),
    { authority: chain.authority, size: commit.size, root: commit.root });
});

test("every proof between every two sizes", async () => {
  const leaves = [];
  for (let n = 0; n < 20; n++) leaves.push(await ledger.leafHash(String(n)));
  const rootOf = async (part) => {
    if (part.length < 2) return part[0] ?? ledger.emptyRoot;
    const k = 2 ** Math.floor(Math.log2(part.length - 1));
    return ledger.nodeHash(await rootOf(part.slice(0, k)), await rootOf(part.slice(k)));
  };
  // RFC 9162, section 2.1.4.1: the definition that proofs are made by.
  const proofOf = async (m, part, whole) => {
    if (m === part.length) return whole ? [] : [await rootOf(part)];
    const k = 2 ** Math.floor(Math.log2(part.length - 1));
    return m <= k ? [...await proofOf(m, part.slice(0, k), whole), await rootOf(part.slice(k))]
      : [...await proofOf(m - k, part.slice(k), false), await rootOf(part.slice(0, k))];
  };
  for (let to = 1; to <= leaves.length; to++) {
    const toRoot = await rootOf(leaves.slice(0, to));
    for (let from = 1; from <= to; from++) {
      const proof = await proofOf(from, leaves.slice(0, to), true), fromRoot = await rootOf(leaves.slice(0, from));
      assert.ok(await ledger.isConsistent(from, to, fromRoot, toRoot, proof), `${from} to ${to}`);
      for (let i = 0; i < proof.length; i++) assert.ok(!await ledger.isConsistent(from, to, fromRoot, toRoot, proof.with(i, ledger.emptyRoot)), `${from} to ${to}, hash ${i}`);
      assert.ok(!await ledger.isConsistent(from, to, fromRoot, toRoot, [...proof, toRoot]));
      assert.ok(!await ledger.isConsistent(from, to, fromRoot, toRoot, proof.slice(1)) || proof.length === 0);
    }
  }
});

// A node that holds one commitment.
function nodeOf({ genesis, owner, account, signature, data, tx }) {
  return async (_url, request) => {
    const { method, params } = JSON.parse(request.body);
    const value = params[0] === account ? { owner, data: [data.toString("base64"), "base64"] } : null;
    const result = { getGenesisHash: genesis, getAccountInfo: { value }, getTransaction: params[0] === signature ? tx : null }[method];
    return new Response(JSON.stringify({ jsonrpc: "2.0", id: 1, result }));
  };
}

// The chain that the receipts' vectors are of.
function vectorChain(size) {
  const good = json("anchoring/receipt/testdata/good.json"), a = good.anchor;
  const authority = Buffer.from(Array.from({ length: 32 }, (_, i) => 0x21 + i)), owner = Buffer.from(ledger.fromBase58(good.entry.owner, 32));
  const u64 = (n) => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(n)); return b; };
  const root = Buffer.from(a.committedRoot, "hex");
  const now = size === a.committedSize;
  const data = Buffer.concat([Buffer.from("MLCOMMT1"), authority, owner, u64(size), now ? root : Buffer.alloc(32, 1), u64(now ? a.slot : a.slot + 100), u64(1)]);
  const tx = { slot: a.slot, meta: { err: null }, transaction: { message: {
    accountKeys: [ledger.toBase58(authority), a.account, a.programId],
    instructions: [{ programIdIndex: 2, accounts: [0, 1], data: ledger.toBase58(Buffer.concat([u64(1), owner, u64(a.committedSize), root])) }] } } };
  return { genesis: a.cluster, owner: a.programId, account: a.account, signature: a.txSignature, data, tx };
}

test("good receipts", async () => {
  await ledger.verifyReceipt(read("anchoring/receipt/testdata/good-not-anchored.json"));
  const receipt = await ledger.verifyReceipt(read("anchoring/receipt/testdata/good.json"));
  for (const size of [11, 16]) {
    assert.equal((await ledger.checkOnchain("http://rpc", receipt, { fetch: nodeOf(vectorChain(size)) })).size, size);
  }
  await assert.rejects(ledger.checkOnchain("http://rpc", receipt, { fetch: nodeOf(vectorChain(10)) }), { name: "AnchorError", field: "anchor.committedSize" });
  await assert.rejects(ledger.checkOnchain("http://rpc", receipt, { fetch: async () => new Response("<html>") }), ledger.ChainUnreachableError);
});

// What each altered receipt is refused with. A malformed member is a MalformedError
// that names it, which is read off the file's name.
const altered = {
  "version-unknown": ["MalformedError", "version"],
  "entry-content-altered": ["ContentMismatchError", "entry"],
  "entry-metadata-altered": ["ContentMismatchError", "entry"],
  "entry-owner-of-somebody-else": ["ContentMismatchError", "entry"],
  "entry-owner-no-key": ["MalformedError", "entry.owner"],
  "entry-salt-altered": ["ContentMismatchError", "entry"],
  "entry-v-unknown": ["MalformedError", "entry.v"],
  "entry-salt-in-capitals": ["MalformedError", "entry.salt"],
  "leafhash-altered": ["LeafMismatchError", "leafHash"],
  "leafindex-of-another-leaf": ["InclusionError", "leafIndex"],
  "leafindex-outside-the-tree": ["InclusionError", "leafIndex"],
  "leafindex-outside-a-tree-of-one": ["InclusionError", "leafIndex"],
  "treesize-larger": ["InclusionError", "treeSize"],
  "treesize-smaller": ["InclusionError", "treeSize"],
  "siblings-one-altered": ["InclusionError", "siblings"],
  "siblings-one-missing": ["InclusionError", "siblings"],
  "directions-one-altered": ["InclusionError", "directions"],
  "directions-one-missing": ["InclusionError", "directions"],
  "batchroot-altered": ["RootMismatchError", "batchRoot"],
  "consistency-one-altered": ["ConsistencyError", "consistency"],
  "consistency-one-missing": ["ConsistencyError", "consistency"],
  "consistency-without-anchor": ["ConsistencyError", "consistency"],
  "consistency-where-nothing-is-to-prove": ["ConsistencyError", "consistency"],
  "anchor-committedroot-is-not-batchroot": ["AnchorError", "anchor.committedRoot"],
  "anchor-committedroot-altered": ["AnchorError", "anchor.committedRoot"],
  "anchor-committedsize-larger": ["ConsistencyError", "consistency"],
  "anchor-committedsize-smaller-than-treesize": ["AnchorError", "anchor.committedSize"],
  "anchor-slot-zero": ["AnchorError", "anchor.slot"],
  "anchor-cluster-no-hash": ["AnchorError", "anchor.cluster"],
  "anchor-programid-no-address": ["AnchorError", "anchor.programId"],
  "anchor-account-no-address": ["AnchorError", "anchor.account"],
  "anchor-txsignature-no-signature": ["AnchorError", "anchor.txSignature"],
  "onchain-cluster-another": ["AnchorError", "anchor.cluster"],
  "onchain-programid-another": ["AnchorError", "anchor.programId"],
  "onchain-account-not-there": ["AnchorError", "anchor.account"],
  "onchain-txsignature-not-there": ["AnchorError", "anchor.txSignature"],
  "onchain-slot-another": ["AnchorError", "anchor.slot"],
};

test("bad receipts", async (t) => {
  const files = readdirSync(new URL("anchoring/receipt/testdata/bad/", root));
  for (const name of Object.keys(altered)) assert.ok(files.includes(`${name}.json`), name);
  for (const file of files) {
    const name = file.replace(/\.json$/, "");
    await t.test(name, async () => {
      const text = read(`anchoring/receipt/testdata/bad/${file}`);
      const check = async () => {
        const receipt = await ledger.verifyReceipt(text);
        assert.ok(name.startsWith("onchain-"), "it passed offline");
        await ledger.checkOnchain("http://rpc", receipt, { fetch: nodeOf(vectorChain(11)) });
      };
      const err = await check().then(() => assert.fail("it passed"), (err) => err);
      assert.ok(err instanceof ledger.VerificationError, String(err));
      assert.equal(err.liar, "issuer");
      if (altered[name]) assert.deepEqual([err.name, err.field], altered[name]);
      else {
        assert.equal(err.name, "MalformedError");
        const words = name.split("-"), field = err.field.toLowerCase().split(".");
        assert.equal(words[0], field[0]);
        if (field[1]) assert.equal(words[1], field[1]);
      }
    });
  }
});

test("what is no receipt", async () => {
  const good = read("anchoring/receipt/testdata/good.json");
  for (const text of ["", "receipt", "[]", "null", '{"a":1}', good + "{}", good.replace('"treeSize": 5,', ""), good.replace('"version"', '"extra": 1, "version"'),
    good.replace('"leafHash": "', '"leafHash": "AB'), good.replace('"treeSize": 5', '"treeSize": 5.5'), good.replace('"treeSize": 5', '"treeSize": 1e30')]) {
    await assert.rejects(ledger.verifyReceipt(text), ledger.MalformedError, text.slice(0, 20));
  }
});

test("base58", () => {
  for (const bytes of [new Uint8Array(32), Uint8Array.from({ length: 32 }, (_, i) => i), new Uint8Array(32).fill(255)]) {
    assert.deepEqual(ledger.fromBase58(ledger.toBase58(bytes), 32), bytes);
  }
  for (const text of ["", "1", "l0O", "1".repeat(33), "z".repeat(44), "1".repeat(1e6), 5]) assert.equal(ledger.fromBase58(text, 32), undefined);
});
