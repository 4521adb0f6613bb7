// A service whose answers contradict each other. Its honest log has the memories a to d.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as ledger from "../dist/index.js";
import { all } from "./assert.mjs";

const owner = "4Nd1mYvYzk6jNsMbXzN7XUxuJdDmHMczYbsYnyDyB1vM", hash = "ab".repeat(32);
const { nodeHash } = ledger;
const entry = (content, metadata = {}) => ({ content, metadata, owner, salt: hash, v: 1 });
const leaf = (content, metadata) => ledger.entryHash(entry(content, metadata));
const [a, b, c, d, never] = await Promise.all(["a", "b", "c", "d", "never written"].map((text) => leaf(text)));
const ab = await nodeHash(a, b), cd = await nodeHash(c, d);
const honest = { 2: ab, 3: await nodeHash(ab, c), 4: await nodeHash(ab, cd) };
const fork = await nodeHash(ab, never); // three leaves, which the log never has

const head = (treeSize, anchoredSize = 0) => ({ owner, treeSize, root: honest[treeSize], anchoredSize, anchoredRoot: honest[anchoredSize] ?? null });
const proof = (from, to, ...proof) => ({ from, to, fromRoot: hash, toRoot: hash, proof });
const receiptOf = (content, more) => ({ version: 1, entry: entry(content), anchor: null, consistency: [], ...more });
const anchorOf = (committedSize, committedRoot) => ({
  cluster: owner, programId: owner, account: owner, txSignature: ledger.toBase58(new Uint8Array(64).fill(9)), slot: 7, committedSize, committedRoot,
});
const memory = (leafIndex, leafHash) => ({ id: `m${leafIndex}`, content: "x", metadata: {}, leafHash, leafIndex });

// Makes a client of a service that gives each path's answers in turn, and then repeats the last.
function client(answers, options) {
  const given = {}; // how many answers, by path
  const fetch = async (url) => {
    const path = Object.keys(answers).find((path) => url.endsWith(path)) ?? assert.fail(`no answer to ${url}`);
    given[path] = (given[path] ?? 0) + 1;
    let answer = answers[path][Math.min(given[path], answers[path].length) - 1];
    if (typeof answer === "function") answer = answer(given);
    return typeof answer === "string" ? new Response(answer) : Response.json(answer);
  };
  return new ledger.MemoryLedger({ url: "http://service", owner, fetch, retries: 0, ...options });
}

test("a leaf index that is no number hides no memory", async () => {
  const listed = (leafIndex) => client({ "/log": [head(3)], "order=newest": [[memory(leafIndex, hash)]] }).memories.list({ order: "newest" });
  for (const leafIndex of ["x", undefined, 1.5, -1]) await assert.rejects(all(listed(leafIndex)), ledger.MalformedError, `${leafIndex}`);
});

test("a write whose answer has no leaf index is not taken for stored", async () => {
  for (const leafIndex of ["x", undefined, 1.5, -1]) {
    const written = { id: "m", leafHash: hash, leafIndex }, { memories } = client({ "/memories": [written], "/memories/batch": [[written]] });
    for (const call of [memories.write("x"), memories.writeBatch([{ content: "x" }])]) await assert.rejects(call, { name: "MalformedError", field: "leafIndex" });
  }
});

test("a receipt of an anchored leaf has its anchor", async () => {
  const receipt = receiptOf("a", { leafHash: a, leafIndex: 0, treeSize: 4, siblings: [b, cd], directions: [true, true], batchRoot: honest[4] });
  await client({ "/log": [head(4)], "/receipt": [receipt] }).memories.receipt("m");
  await assert.rejects(client({ "/log": [head(4, 4)], "/receipt": [receipt] }).memories.receipt("m"), { name: "StaleProofError", field: "anchor" });
  const text = JSON.stringify(JSON.stringify({ ...receipt, consistency: [], anchor: anchorOf(4, honest[4]) })); // no check of its anchor may be left out
  const served = client({ "/log": [head(4, 4)], "/receipt": [text] }, { issuer: { programId: "another" } });
  await assert.rejects(served.memories.receipt("m"), { name: "MalformedError", liar: "service" });
});

test("what a proof and a head say has its form", async () => {
  const moved = { leaf: a, leafIndex: 1, siblings: [b], directions: ["false"] }; // the first leaf as the second one
  for (const change of [{ proof: moved }, { proof: null }, { txSignature: undefined }]) {
    const answer = { proof: { ...moved, leafIndex: 0, directions: [true] }, batchRoot: ab, treeSize: 2, txSignature: null, ...change };
    await assert.rejects(client({ "/log": [head(2)], "/proof": [answer] }).memories.prove("m"), { name: "MalformedError", liar: "service" });
  }
  await assert.rejects(client({ "/log": [{ ...head(2), owner: undefined }] }, { owner: undefined }).log.head(), { name: "MalformedError", field: "owner" });
  const { log, memories, events } = client({ "": ["null"] }), pages = (answer) => client({ "": [answer] }, { verify: false }).events.pages().next();
  const follow = client({ "": ["data: null\n\n"] }).events.follow().next();
  const calls = [log.head(), memories.write("x"), events.pages().next(), pages([]), pages({ cursor: "1", events: [null] }), follow];
  for (const { memories } of [{}, [null]].map((lie) => client({ "/log": [head(2)], "": [lie] }))) {
    calls.push(memories.page(0, 1), all(memories.list()), all(memories.search("x")), memories.writeBatch([{ content: "x" }]));
  }
  for (const lie of [{ fromRoot: null }, { proof: b }]) calls.push(client({ "": [{ from: 1, to: 2, fromRoot: a, toRoot: ab, proof: [b], ...lie }] }).log.consistency(1, 2));
  await Promise.all(calls.map((call) => assert.rejects(call, { name: "MalformedError", liar: "service" })));
});

test("the committed log of a receipt is this one", async () => {
  const other = await nodeHash(never, d), consistency = (root) => ({ consistency: [root === honest[4] ? cd : other], anchor: anchorOf(4, root) });
  const receipt = (root) => receiptOf("a", { leafHash: a, leafIndex: 0, treeSize: 2, siblings: [b], directions: [true], batchRoot: ab, ...consistency(root) });
  const serving = (root) => client({ "/log": [head(4, 4)], "/receipt": [receipt(root)], "from=2&to=4": [proof(2, 4, cd)] });
  await serving(honest[4]).memories.receipt("m");
  await assert.rejects(serving(await nodeHash(ab, other)).memories.receipt("m"), { name: "AnchorError", field: "anchor.committedRoot" });
});

// The client has seen two leaves, and is then shown a log of three that ends with the leaf
// that was never written. Any later head is of the honest log.
const forking = (answers, later) => client({
  ...answers, "/log": [head(2), later], "from=2&to=3": [({ "/log": heads }) => proof(2, 3, heads > 1 ? c : never)],
  "from=2&to=4": [proof(2, 4, cd)], "from=3&to=4": [proof(3, 4, c, d, ab)],
});

for (const later of [head(2), head(3), head(4)]) {
  test(`a receipt of a fork that a log of ${later.treeSize} does not continue`, async () => {
    const receipt = receiptOf("never written", { leafHash: never, leafIndex: 2, treeSize: 3, siblings: [ab], directions: [false], batchRoot: fork });
    await assert.rejects(forking({ "/receipt": [receipt] }, later).memories.receipt("m"), ledger.RootMismatchError);
  });
}

test("a list of a fork", async () => {
  const service = forking({ "order=oldest": [[memory(0, a), memory(1, b), memory(2, never)]] }, head(3));
  await assert.rejects(all(service.memories.list()), ledger.RootMismatchError);
});

// An export of three leaves, without the texts of some.
const exported = (root, third, ...gone) => [
  { format: "memory-ledger/export/1", owner, treeSize: 3, root, anchor: null },
  ...[["a", a], ["b", b], third].map(([content, leafHash], index) => ({ index, id: `m${index}`, createdAt: "2026-01-01T00:00:00Z", via: null, leafHash, entry: gone.includes(index) ? null : entry(content) })),
  { complete: true, leaves: 3 },
].map((line) => `${JSON.stringify(line)}\n`).join("");

test("an export of a fork", async () => {
  const service = forking({ "/export": [exported(fork, ["never written", never])] }, head(3));
  await assert.rejects(all(service.log.export()), ledger.LogForkedError);
});

test("a memory that is retracted while it is listed", async () => {
  for (const [order, first] of [["oldest", 0], ["newest", 2]]) {
    const exports = [[first], [0, 2]].map((gone) => exported(honest[3], ["c", c], ...gone));
    const service = client({ "/log": [head(3)], [`order=${order}`]: [[memory(1, b)]], "/export": exports });
    assert.equal((await all(service.memories.list({ order }))).length, 1);
  }
});

test("a stream of events does not go back", async () => {
  const page = 'id: 8\ndata: {"events":[],"cursor":"8"}\n\n';
  const events = client({ "/events": [`id: 7\n\n${page}id: 0\n\n${page}`] }).events.follow();
  assert.equal((await events.next()).value.cursor, "8");
  await assert.rejects(events.next(), { name: "MalformedError", field: "cursor" });
});

test("metadata counts as JSON sends it", async () => {
  const sent = { when: "1970-01-01T00:00:00.000Z" }, leafHash = await leaf("x", sent);
  const written = { id: "m", leafHash, leafIndex: 0 };
  const receipt = receiptOf("x", { entry: entry("x", sent), leafHash, leafIndex: 0, treeSize: 1, siblings: [], directions: [], batchRoot: leafHash });
  const service = client({ "/memories": [written], "/log": [{ ...head(2), treeSize: 1, root: leafHash }], "/receipt": [receipt] });
  await service.memories.receipt(await service.memories.write("x", { when: new Date(0) }));
  for (const lost of [undefined, NaN, () => {}, Symbol("x")]) await assert.rejects(service.memories.write("x", { lost }), TypeError);
});

test("a source counts as metadata", async () => {
  const leafHash = await leaf("x", { n: 1, source: "diary" });
  const receipt = receiptOf("x", { entry: entry("x", { n: 1, source: "diary" }), leafHash, leafIndex: 0, treeSize: 1, siblings: [], directions: [], batchRoot: leafHash });
  const service = client({ "/memories/batch": [[{ id: "m", leafHash, leafIndex: 0 }]], "/log": [{ ...head(2), treeSize: 1, root: leafHash }], "/receipt": [receipt] });
  const [written] = await service.memories.writeBatch([{ content: "x", metadata: { n: 1, source: "another" }, source: " diary " }]);
  await service.memories.receipt(written);
});

// Writes a memory, and gets a receipt with some metadata for it, after memories a and b.
async function receiptFor(memory, metadata, options) {
  const leafHash = await leaf("x", metadata), one = (leafHash) => ({ leafHash, leafIndex: 0, treeSize: 1, siblings: [], directions: [], batchRoot: leafHash });
  const service = client({
    "/memories/batch": [[{ id: "a", leafHash: a, leafIndex: 5 }, { id: "b", leafHash: b, leafIndex: 6 }]], "/memories": [{ id: "m", leafHash, leafIndex: 0 }],
    "/log": [{ ...head(2), treeSize: 1, root: leafHash }], "/receipt": [receiptOf("x", { entry: entry("x", metadata), ...one(leafHash) })],
  }, options);
  await service.memories.writeBatch([{ content: "a" }, { content: "b" }]);
  return service.memories.receipt(await service.memories.store({ content: "x", ...memory }));
}

test("members count as metadata, and nothing else", async () => {
  const members = { occurredAt: "1999-05-01", tags: ["t"], namespace: "home" }, key = { apiKey: "svc_x" };
  const honest = [
    [{ ...members, source: "\u{85}diary", metadata: { n: 1 } }, { ...members, source: "diary", n: 1 }], [{ supersedes: ["a"] }, { supersedes: [a] }],
    [{ supersedes: ["a", "b"] }, { supersedes: [a, b] }], [{ supersedes: ["a", "?"] }, { supersedes: [a, c] }], [{}, { namespace: "work" }, key], [{}, {}, key],
    [{}, { namespace: "work" }, { ...key, namespaces: ["work"] }],
  ];
  for (const [memory, metadata, options] of honest) await receiptFor(memory, metadata, options);
  const lies = [
    [members, { ...members, tags: ["u"] }], [members, { ...members, occurredAt: "1999-05-02" }], [members, { ...members, namespace: "work" }, key], [members, { ...members, supersedes: [a] }],
    [{ supersedes: ["a"] }, { supersedes: [b] }], [{ supersedes: ["a", "b"] }, { supersedes: [a] }], [{ supersedes: ["a"] }, { supersedes: [a, c] }], [{ supersedes: ["?"] }, {}],
    [{}, { namespace: "work" }], [{}, { namespace: "home" }, { ...key, namespaces: ["work"] }], [{}, {}, { ...key, namespaces: ["work"] }],
  ];
  for (const [memory, metadata, options] of lies) await assert.rejects(receiptFor(memory, metadata, options), ledger.ContentMismatchError, JSON.stringify([memory, metadata]));
});

test("a correction is proven by two receipts", async () => {
  const corrected = await leaf("new", { supersedes: [a] }), batchRoot = await nodeHash(a, corrected);
  const older = receiptOf("a", { leafHash: a, leafIndex: 0, treeSize: 2, siblings: [corrected], directions: [true], batchRoot });
  const newer = receiptOf("new", { entry: entry("new", { supersedes: [a] }), leafHash: corrected, leafIndex: 1, treeSize: 2, siblings: [a], directions: [false], batchRoot });
  await ledger.verifyCorrection(newer, older);
  await assert.rejects(ledger.verifyCorrection(older, newer), ledger.NoCorrectionError);
  const fork = await nodeHash(a, b);
  await assert.rejects(ledger.verifyCorrection(newer, { ...older, siblings: [b], batchRoot: fork }), ledger.LogForkedError);
  await assert.rejects(ledger.verifyCorrection(newer, { ...older, entry: entry("b") }), ledger.ContentMismatchError);
  await assert.rejects(ledger.verifyCorrection({ ...newer, entry: entry("new", { supersedes: [b] }) }, older), ledger.ContentMismatchError);
});

test("a list of a limited key", async () => {
  const one = (leafIndex, namespace = "work") => ({ ...memory(leafIndex, hash), metadata: { namespace } });
  const list = (...memories) => all(client({ "order=oldest": [memories] }, { namespaces: ["work"] }).memories.list());
  assert.equal((await list(one(2), one(7))).length, 2);
  for (const memories of [[one(7), one(2)], [one(2), one(2)], [one(2, "home")], [memory(2, hash)]]) await assert.rejects(list(...memories), ledger.VerificationError, JSON.stringify(memories));
});

test("a consistency proof from the empty log", async () => {
  const asked = (change) => client({ "from=0&to=3": [{ ...proof(0, 3), fromRoot: ledger.emptyRoot, ...change }] }).log.consistency(0, 3);
  await asked({});
  for (const change of [{ fromRoot: hash }, { proof: [hash] }, { to: 4 }]) await assert.rejects(asked(change), ledger.VerificationError, JSON.stringify(change));
});

test("a wallet is handed only the move that was asked for", async () => {
  const { readFile } = await import("node:fs/promises");
  const { Program: programId, Mint: mint, Owner, Transactions } = JSON.parse(await readFile(new URL("../../../../anchoring/staking/testdata/transactions.json", import.meta.url), "utf8"));
  const transaction = (name) => ({ transaction: Transactions.find((t) => t.Name === name).Transaction, blockhash: "b", lastValidBlockHeight: 1 });
  const serving = (name, stakingProgram = { programId, mint }) => new ledger.MemoryLedger({
    url: "http://service", owner: Owner, retries: 0, stakingProgram, fetch: async () => Response.json(transaction(name)),
  }).staking;
  const { Amount: amount } = Transactions[0];
  assert.equal((await serving("stake").stake(amount)).transaction, transaction("stake").transaction);
  await serving("unstake into a new token account").unstake(amount);
  for (const name of ["another amount", "another program", "a payment beside it", "the vault of somebody else"]) await assert.rejects(serving(name).stake(amount), ledger.TransactionError, name);
  await assert.rejects(serving("stake").stake("1"), ledger.TransactionError);
  await assert.rejects(new ledger.MemoryLedger({ url: "http://service", fetch: () => assert.fail("it asked") }).staking.stake(amount), TypeError);
});
