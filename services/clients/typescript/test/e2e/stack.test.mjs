// The client against a running product: CORE_URL, EXTENSION_URL and RPC_URL name it.
// services/test/e2e starts it and this.
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { test } from "node:test";
import * as ledger from "../../dist/index.js";

const { CORE_URL: url, EXTENSION_URL: extensionUrl, RPC_URL: rpcUrl } = process.env;

function newWallet() {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const seed = privateKey.export({ format: "der", type: "pkcs8" }).subarray(-32);
  return ledger.keypairWallet(new Uint8Array([...seed, ...publicKey.export({ format: "der", type: "spki" }).subarray(-32)]));
}

async function newClient(options = {}) {
  const client = new ledger.MemoryLedger({ url, extensionUrl, backoffMs: 20, ...options });
  await client.signIn(await newWallet());
  return client;
}

async function all(iterator) {
  const items = [];
  for await (const item of iterator) items.push(item);
  return items;
}

test("write, list, search, prove", async () => {
  const client = await newClient();
  const written = [];
  for (let n = 0; n < 7; n++) written.push(await client.memories.write(`memory ${n} ☂ \u{1f600}`, { n, deep: [{ z: 1e21, a: "é" }] }));
  assert.deepEqual(written.map((w) => w.leafIndex), [0, 1, 2, 3, 4, 5, 6]);
  for (const order of ["oldest", "newest"]) {
    const ids = written.map((w) => w.id);
    if (order === "newest") ids.reverse();
    for (const options of [{}, { pageSize: 2 }, { stream: true }]) {
      assert.deepEqual((await all(client.memories.list({ order, ...options }))).map((m) => m.id), ids, JSON.stringify({ order, ...options }));
    }
  }
  assert.equal((await all(client.memories.search("MEMORY", { pageSize: 2 }))).length, 7);
  assert.equal((await all(client.memories.search("memory", { mode: "ranked", filter: { metadata: { n: 3 } } })))[0].id, written[3].id);
  const memory = await client.memories.get(written[3].id);
  assert.deepEqual(memory.metadata, { n: 3, deep: [{ a: "é", z: 1e21 }] });
  for (const w of written) {
    assert.equal((await client.memories.receipt(w)).leafHash, w.leafHash);
    assert.equal((await client.memories.prove(w.id)).proof.leaf, w.leafHash);
  }
  assert.equal((await client.log.head()).treeSize, 7);
  assert.equal((await client.log.consistency(3, 7)).proof.length > 0, true);
  await assert.rejects(client.memories.get("nothing"), (err) => err instanceof ledger.NotFoundError && err.status === 404 && !!err.requestId);
  assert.deepEqual(await all((await newClient()).memories.list()), []);
});

test("keys and grants", async () => {
  const client = await newClient();
  const { key, id } = await client.keys.create("a program");
  const program = new ledger.MemoryLedger({ url, apiKey: key });
  await program.memories.write("by key");
  assert.equal(program.owner, undefined);
  await program.log.head();
  assert.equal(program.owner, client.owner);
  await assert.rejects(program.keys.list(), ledger.ForbiddenError);
  await client.keys.revoke(id);
  assert.notEqual((await client.keys.list())[0].revokedAt, null);
  await assert.rejects(program.log.head(), ledger.UnauthorizedError);

  const drop = await client.grants.createDrop({ maxWrites: 2 });
  const options = { idempotencyKey: "once" };
  const filled = await client.grants.fillDrop(drop.url, { content: "from a friend" }, options);
  assert.deepEqual(await client.grants.fillDrop(drop.url, { content: "from a friend" }, options), filled);
  assert.equal((await client.grants.dropStatus(drop.id)).remainingWrites, 1);
  assert.equal((await client.memories.get(filled.memoryId)).via.kind, "drop");
  await client.grants.revokeDrop(drop.id);
  await assert.rejects(client.grants.fillDrop(drop.url, { content: "late" }), ledger.NotFoundError);
  const agentCase = await client.grants.createCase();
  assert.match(await client.grants.readCase(agentCase.url), /from a friend/);
  await assert.rejects(client.grants.readCase(agentCase.url), ledger.NotFoundError);
});

test("anchored receipts, against the chain", async () => {
  const client = await newClient({ rpcUrl });
  const first = await client.memories.write("to be anchored");
  const anchored = async (written) => {
    for (let waited = 0; ; waited++) {
      const receipt = await client.memories.receipt(written);
      if (receipt.anchor) return receipt;
      assert.ok(waited < 150, "not anchored");
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  };
  const old = await anchored(first);
  await client.memories.write("later");
  await anchored(await client.memories.write("last"));
  const now = await client.memories.receipt(first);
  assert.equal(now.anchor.committedSize, 3);
  assert.equal((await ledger.checkOnchain(rpcUrl, old)).size, 3);
  await assert.rejects(ledger.checkOnchain(rpcUrl, { ...now, anchor: { ...now.anchor, slot: now.anchor.slot + 1 } }), ledger.AnchorError);
});

// A service that lies: `lie` changes the answers to requests whose path it matches.
function liar() {
  const lies = [];
  return {
    lies,
    fetch: async (target, init) => {
      const response = await fetch(target, init);
      const { pathname } = new URL(target);
      const lie = lies.find((l) => l.path.test(pathname) && (l.method ?? "GET") === init.method);
      if (!lie || !response.ok) return response;
      const body = lie.change(await response.json(), target);
      return new Response(JSON.stringify(body), { status: response.status, headers: { Link: response.headers.get("Link") ?? "" } });
    },
  };
}
const flip = (hash) => (parseInt(hash[0], 16) ^ 1).toString(16) + hash.slice(1);
const receiptPath = /receipt$/, memoryPath = /^\/memories\/[^/]+$/, listPath = /^\/memories$/, logPath = /^\/log$/;

test("a lying service is caught", async (t) => {
  const service = liar();
  const client = await newClient({ fetch: service.fetch });
  const written = [];
  for (let n = 0; n < 5; n++) written.push(await client.memories.write(`memory ${n}`));
  await client.log.head();
  const [first, second, third] = written;
  const other = await newClient();
  const theirs = [];
  for (let n = 0; n < 6; n++) theirs.push(await other.memories.write(`theirs ${n}`));
  const raw = { head: await other.log.head(), receipt: await other.memories.receipt(theirs[2]), mine: await client.memories.receipt(second) };

  const caught = (name, kind, path, change, ask, method) => t.test(name, async () => {
    service.lies.splice(0, 1, { path, change, method });
    await assert.rejects(ask, (err) => {
      assert.ok(err instanceof ledger.VerificationError, String(err));
      assert.equal(err.liar, "service");
      assert.equal(err.name, kind, err.message);
      return true;
    });
  });
  await caught("a leaf of a receipt", "LeafMismatchError", receiptPath, (r) => ({ ...r, leafHash: flip(r.leafHash) }), () => client.memories.receipt(third));
  await caught("a leaf of a memory", "LeafMismatchError", memoryPath, (m) => ({ ...m, leafHash: flip(m.leafHash) }), () => client.memories.get(third.id));
  await caught("a leaf of a list", "RootMismatchError", listPath, (l) => l.with(2, { ...l[2], leafHash: flip(l[2].leafHash) }), () => all(client.memories.list()));
  await caught("a leaf of a proof", "InclusionError", /proof$/, (p) => ({ ...p, proof: { ...p.proof, leaf: flip(p.proof.leaf) } }), () => client.memories.prove(third.id));
  await caught("a text of a receipt", "ContentMismatchError", receiptPath, (r) => ({ ...r, entry: { ...r.entry, content: "another" } }), () => client.memories.receipt(third));
  await caught("a text of a memory", "ContentMismatchError", memoryPath, (m) => ({ ...m, content: "another" }), () => client.memories.get(third.id));
  await caught("metadata of a memory", "ContentMismatchError", memoryPath, (m) => ({ ...m, metadata: { a: 1 } }), () => client.memories.get(third.id));
  await caught("a sibling of a receipt", "InclusionError", receiptPath, (r) => ({ ...r, siblings: r.siblings.with(1, flip(r.siblings[1])) }), () => client.memories.receipt(third));
  await caught("a sibling of a proof", "InclusionError", /proof$/, (p) => ({ ...p, proof: { ...p.proof, siblings: p.proof.siblings.map(flip) } }), () => client.memories.prove(third.id));
  await caught("a root of a proof", "RootMismatchError", /proof$/, (p) => ({ ...p, batchRoot: flip(p.batchRoot) }), () => client.memories.prove(third.id));
  await caught("the head's root", "LogForkedError", logPath, (h) => ({ ...h, root: flip(h.root) }), () => client.log.head());
  for (const at of [0, 2, 4]) await caught(`memory ${at} is not in the list`, "IncompleteListError", listPath, (l) => l.toSpliced(at, 1), () => all(client.memories.list()));
  await caught("the newest is not in the list", "IncompleteListError", listPath, (l) => l.slice(1), () => all(client.memories.list({ order: "newest" })));
  await caught("an older head", "LogShrankError", logPath, (h) => ({ ...h, treeSize: 3 }), () => client.log.head());
  await caught("a fork that grew", "LogForkedError", /^\/log(\/consistency)?$/, (a) => ("owner" in a ? { ...a, treeSize: 6, root: raw.head.root } : a), async () => {
    await client.memories.write("the sixth");
    await client.log.head();
  });
  await caught("another owner's head", "OwnerMismatchError", logPath, () => raw.head, () => client.log.head());
  await caught("another owner's receipt", "OwnerMismatchError", receiptPath, () => raw.receipt, () => client.memories.receipt(third));
  await caught("an old receipt", "StaleProofError", receiptPath, () => raw.mine, () => client.memories.receipt(second));
  service.lies.length = 0;
  const genuine = await client.memories.receipt(second);
  await caught("a receipt of another memory", "WrongMemoryError", receiptPath, () => genuine, () => client.memories.receipt(third));
  await caught("a challenge for another account", "OwnerMismatchError", /challenge$/, (c) => ({ message: c.message.replace(/\n.*\n/, `\n${other.owner}\n`) }),
    async () => new ledger.MemoryLedger({ url, fetch: service.fetch }).signIn(await newWallet()), "POST");
});

test("a bad network", async (t) => {
  const target = new URL(url);
  const faults = { n: 0 };
  // Every other connection has something: cut before, cut after, cut within the answer, or late.
  const proxy = createServer((client) => {
    const fault = ["none", "refuse", "none", "lose", "none", "truncate", "none", "delay"][faults.n++ % 8];
    if (fault === "refuse") return client.destroy();
    const server = connect(Number(target.port), target.hostname);
    for (const socket of [client, server]) socket.on("error", () => {});
    client.pipe(server);
    server.on("data", (chunk) => {
      if (fault === "lose") return client.destroy();
      if (fault === "truncate") return client.end(chunk.subarray(0, chunk.length - 5));
      if (fault === "delay") return setTimeout(() => client.write(chunk), 500);
      client.write(chunk);
    });
    server.on("close", () => client.destroy());
    client.on("close", () => server.destroy());
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  t.after(() => proxy.close());
  const straight = await newClient();
  const { key } = await straight.keys.create("through the bad network");
  const bad = new ledger.MemoryLedger({
    url: `http://127.0.0.1:${proxy.address().port}`, apiKey: key, owner: straight.owner, timeoutMs: 300, retries: 8, backoffMs: 5,
    // A connection for each request, so that each meets a fault of its own.
    fetch: (where, init) => fetch(where, { ...init, headers: { ...init.headers, Connection: "close" } }),
  });
  const count = Number(process.env.WRITES ?? 100);
  const ids = await Promise.all(Array.from({ length: count }, (_, n) => bad.memories.write(`write ${n}`).then((w) => w.id)));
  const stored = await all(straight.memories.list());
  assert.equal(new Set(ids).size, count);
  assert.deepEqual(stored.map((m) => m.id).sort(), ids.sort());
  assert.deepEqual(stored.map((m) => m.content).sort(), Array.from({ length: count }, (_, n) => `write ${n}`).sort());
  await assert.rejects(bad.memories.write("never", {}, { signal: AbortSignal.abort() }), { name: "AbortError" });
});

test("the README's lines run", async () => {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const lines = /```js\nimport .*\n([^]*?)```/.exec(readme)[1].replace("http://127.0.0.1:3001", url);
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const secretKey = new Uint8Array([
    ...privateKey.export({ format: "der", type: "pkcs8" }).subarray(-32), ...publicKey.export({ format: "der", type: "spki" }).subarray(-32)]);
  const printed = [];
  const run = new (async () => {}).constructor("MemoryLedger", "keypairWallet", "secretKey", "console", `${lines}\nreturn receipt;`);
  const receipt = await run(ledger.MemoryLedger, ledger.keypairWallet, secretKey, { log: (text) => printed.push(text) });
  assert.deepEqual(printed, [receipt.entry.content]);
});
