// Tests the client against a running product. CORE_URL, EXTENSION_URL and RPC_URL name its
// addresses. services/test/e2e starts the product and this test.
import assert from "node:assert/strict";
import { connect, createServer } from "node:net";
import { test } from "node:test";
import * as ledger from "../../dist/index.js";
import { all } from "../assert.mjs";
import { keyPair } from "../fixtures.mjs";

const { CORE_URL: url, EXTENSION_URL: extensionUrl, RPC_URL: rpcUrl } = process.env;

const newWallet = () => ledger.keypairWallet(keyPair().secretKey);

async function newClient(options = {}) {
  const client = new ledger.MemoryLedger({ url, extensionUrl, backoffMs: 20, ...options });
  await client.signIn(await newWallet());
  return client;
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
  for (const n of [0, 3, 6]) await client.memories.retract(written[n].id);
  const kept = [1, 2, 4, 5].map((n) => written[n].id);
  assert.deepEqual((await all(client.memories.list())).map((m) => m.id), kept);
  assert.deepEqual((await all(client.memories.list({ order: "newest", pageSize: 2 }))).map((m) => m.id), kept.toReversed());
  await assert.rejects(client.memories.get(written[3].id), (err) => err.status === 410);
});

test("proofs while another program writes", async () => {
  const client = await newClient();
  const { id } = await client.memories.write("proven again and again");
  const other = new ledger.MemoryLedger({ url, apiKey: (await client.keys.create("writes")).key });
  let done = false, writes = 0;
  const writing = (async () => {
    for (; !done; writes++) await other.memories.write(`write ${writes}`);
  })();
  try {
    for (let n = 0; n < 64 || writes < 16; n++) await client.memories.prove(id);
  } finally {
    done = true;
    await writing;
  }
});

test("batches", async () => {
  const client = await newClient();
  const first = await client.memories.write("alone");
  const contents = Array.from({ length: 256 }, (_, n) => ({ content: `of many ${n}`, ...(n % 2 === 0 && { metadata: { n } }) }));
  const options = { idempotencyKey: "all-at-once" };
  const written = await client.memories.writeBatch(contents, options);
  assert.deepEqual(written.map((w) => w.leafIndex), contents.map((_, n) => first.leafIndex + 1 + n));
  assert.deepEqual(await client.memories.writeBatch(contents, options), written);
  await assert.rejects(client.memories.writeBatch(contents.slice(1), options), ledger.IdempotencyError);
  await assert.rejects(client.memories.writeBatch([]), ledger.InvalidRequestError);
  await assert.rejects(client.memories.writeBatch([...contents, { content: "one too many" }]), ledger.InvalidRequestError);
  assert.equal((await client.memories.receipt(written[255])).entry.content, "of many 255");
  const listed = await all(client.memories.list());
  assert.deepEqual(listed.slice(1).map((m) => m.id), written.map((w) => w.id));
  assert.deepEqual(listed[1].metadata, { n: 0 });
  assert.equal(listed[1].via.kind, "session");
});

test("searches, page by page", async () => {
  const client = await newClient();
  const words = ["bees fly", "bees make honey", "honey is sweet", "bees and honey and bees", "the cat sleeps"];
  await client.memories.writeBatch(words.map((content, n) => ({ content, metadata: { source: n < 2 ? "diary" : "letters", n } })));
  const found = async (query, options) => (await all(client.memories.search(query, options))).map((m) => m.metadata.n);
  for (const pageSize of [1, 2, 100]) {
    assert.deepEqual(await found("BEES", { pageSize }), [0, 1, 3]);
    assert.deepEqual(await found("bees", { order: "newest", pageSize }), [3, 1, 0]);
    assert.deepEqual((await found("what do bees make?", { mode: "ranked", pageSize })).sort(), [0, 1, 3]);
    assert.deepEqual(await found("honey", { mode: "ranked", order: "oldest", pageSize, filter: { source: "letters" } }), [2, 3]);
  }
  const best = await all(client.memories.search("honey", { mode: "ranked", filter: { via: "session", anchored: false, metadata: { n: 1 } } }));
  assert.deepEqual(best.map((m) => [m.metadata.n, typeof m.score]), [[1, "number"]]);
  assert.deepEqual(await found("honey", { filter: { to: "2020-01-01T00:00:00Z" } }), []);
  const page = await client.memories.searchPage("bees", { limit: 2 });
  assert.equal(page.memories.length, 2);
  const last = await client.memories.searchPage("bees", { limit: 2, cursor: page.next });
  assert.deepEqual([last.memories.map((m) => m.metadata.n), last.next], [[3], undefined]);
  await assert.rejects(client.memories.searchPage("bees", { cursor: "nonsense" }), ledger.InvalidRequestError);
});

// Reads an export, and returns its leaves and its header.
async function exported(client) {
  const leaves = [];
  for (const iterator = client.log.export(); ; ) {
    const { done, value } = await iterator.next();
    if (done) return { leaves, header: value };
    leaves.push(value);
  }
}

test("exports", async () => {
  const client = await newClient();
  const nothing = await exported(client);
  assert.deepEqual([nothing.leaves, nothing.header.treeSize, nothing.header.owner], [[], 0, client.owner]);
  const contents = Array.from({ length: 700 }, (_, n) => `leaf ${n} ☂ " \\ \u{1f600}`);
  for (let n = 0; n < contents.length; n += 100) await client.memories.writeBatch(contents.slice(n, n + 100).map((content) => ({ content, metadata: { big: 1e21, n } })));
  const ids = (await all(client.memories.list())).map((m) => m.id);
  await client.memories.retract(ids[5]);
  const { leaves, header } = await exported(client);
  assert.deepEqual(leaves.map((l) => l.id), ids);
  assert.deepEqual(leaves.map((l) => l.entry?.content), contents.with(5, undefined));
  assert.equal(header.root, (await client.log.head()).root);
  // A caller may stop early.
  for await (const leaf of client.log.export()) if (leaf.index === 3) break;
  await assert.rejects(all(client.log.export({ signal: AbortSignal.abort() })), { name: "AbortError" });
});

const idsOf = (pages) => pages.flatMap((page) => page.events.map((event) => event.id));

test("the feed, page by page and as it comes", async () => {
  const client = await newClient();
  const now = client.events.follow();
  await client.memories.write("before");
  const begun = now.next(); // begins at some moment from here on
  const abort = new AbortController();
  const followed = [];
  const following = assert.rejects(async () => { // from here on: the last event may be there before the last answer
    for await (const page of client.events.follow({ after: "0", signal: abort.signal })) {
      followed.push(page);
      if (page.events.some((event) => event.type === "ApiKeyCreated")) abort.abort();
    }
  }, { name: "AbortError" });
  await client.memories.writeBatch(Array.from({ length: 20 }, (_, n) => ({ content: `of the batch ${n}` })));
  await client.memories.write("after");
  await client.keys.create("the last event");
  await following;
  const pages = await all(client.events.pages({ pageSize: 3 }));
  const types = pages.flatMap((page) => page.events.map((event) => event.type)).filter((type) => !type.startsWith("Batch"));
  assert.deepEqual(types, ["OwnerRegistered", "SessionIssued", "SessionIssued", ...Array(22).fill("MemoryWritten"), "ApiKeyCreated"]);
  assert.deepEqual(idsOf(followed), idsOf(pages).slice(0, idsOf(followed).length));
  const rest = await all(client.events.pages({ after: pages[0].cursor }));
  assert.deepEqual(idsOf(rest), idsOf(pages).slice(pages[0].events.length));
  assert.ok((await begun).value.events.length > 0);
  await now.return();
  await assert.rejects(client.events.follow({ after: "x" }).next(), ledger.InvalidRequestError);
  await assert.rejects(new ledger.MemoryLedger({ url, apiKey: "svc_key_no" }).events.follow().next(), ledger.UnauthorizedError);
});

// Starts a proxy between the client and the product. `behave` gets each connection and its number.
async function between(t, behave) {
  const target = new URL(url);
  let count = 0;
  const proxy = createServer((client) => {
    client.on("error", () => {});
    behave(client, () => {
      const server = connect(Number(target.port), target.hostname);
      server.on("error", () => {});
      server.on("close", () => client.destroy());
      client.on("close", () => server.destroy());
      client.pipe(server);
      return server;
    }, count++);
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  t.after(() => proxy.close());
  return `http://127.0.0.1:${proxy.address().port}`;
}

// Opens a connection for each request, so that each request meets its own fault.
const eachItsOwn = (where, init) => fetch(where, { ...init, headers: { ...init.headers, Connection: "close" } });

test("a feed whose connections are cut", async (t) => {
  const straight = await newClient();
  const { key } = await straight.keys.create("follows");
  const cuts = { n: 0 };
  // The service asks clients to wait 1 s before a retry; the proxy changes that to 10 ms.
  const bad = await between(t, (client, open, n) => {
    let left = [3000, 0, 900, 8000, 3000, 200_000][n % 6]; // the last has room for a page of 100 memories
    if (left === 0) return client.destroy();
    open().on("data", (chunk) => {
      client.write(Buffer.from(chunk.toString("latin1").replace("retry: 1000", "retry: 0010"), "latin1").subarray(0, left));
      left -= chunk.length;
      if (left > 0) return;
      left = 0;
      if (++cuts.n % 2) client.destroy(); // else it is silent from here on
    });
  });
  const client = new ledger.MemoryLedger({ url: bad, apiKey: key, backoffMs: 5, fetch: eachItsOwn });
  const followed = [];
  let writes = Infinity, memories = 0, came = () => {};
  const following = (async () => {
    for await (const page of client.events.follow({ after: "0", idleMs: 500 })) {
      followed.push(page);
      memories += page.events.filter((event) => event.type === "MemoryWritten").length;
      came();
      if (memories >= writes) return;
    }
  })();
  let n = 0;
  for (; n < 150 || cuts.n < 6; n += 3) {
    await straight.memories.write(`single ${n}`);
    await straight.memories.writeBatch([{ content: `first of two ${n}` }, { content: `second of two ${n}` }]);
    // Wait for the client: a page too large for every connection would never arrive.
    while (n - memories > 100) await Promise.race([following, new Promise((resolve) => (came = resolve))]);
  }
  writes = n + 1;
  await straight.memories.write("the last");
  await following;
  const ids = idsOf(followed);
  assert.deepEqual(ids, idsOf(await all(straight.events.pages())).slice(0, ids.length));
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
  const early = await client.memories.receipt(first);
  const old = await anchored(first);
  if (!early.anchor) {
    await assert.rejects(ledger.checkOnchain(rpcUrl, early), ledger.NotAnchoredError);
    assert.equal((await ledger.checkOnchain(rpcUrl, await client.memories.complete(early))).size, 1);
  }
  await client.memories.write("later");
  await anchored(await client.memories.write("last"));
  const now = await client.memories.receipt(first);
  assert.equal(now.anchor.committedSize, 3);
  assert.equal((await ledger.checkOnchain(rpcUrl, old)).size, 3);
  await assert.rejects(ledger.checkOnchain(rpcUrl, { ...now, anchor: { ...now.anchor, slot: now.anchor.slot + 1 } }), ledger.AnchorError);
  const { header } = await exported(client);
  assert.deepEqual([header.treeSize, header.anchor.committedSize], [3, 3]);
  // An issuer, and then a chain, that differ from what the service says.
  const { key } = await client.keys.create("doubts");
  const elsewhere = async (where, init) => {
    const response = await fetch(where, init);
    return where === rpcUrl && init.body.includes("getGenesisHash") ? Response.json({ result: now.anchor.account }) : response;
  };
  for (const doubts of [{ issuer: { programId: now.anchor.account } }, { rpcUrl, fetch: elsewhere }]) {
    const doubting = new ledger.MemoryLedger({ url, apiKey: key, ...doubts });
    for (const call of [() => doubting.memories.receipt(first), () => all(doubting.log.export())]) {
      await assert.rejects(call, { name: "AnchorError", liar: "service" });
    }
  }
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
      const text = await response.text();
      const body = lie.path === exportPath ? lie.change(text) : JSON.stringify(lie.change(JSON.parse(text), target));
      return new Response(body, { status: response.status, headers: { Link: response.headers.get("Link") ?? "" } });
    },
  };
}
const flip = (hash) => (parseInt(hash[0], 16) ^ 1).toString(16) + hash.slice(1);
const receiptPath = /receipt$/, memoryPath = /^\/memories\/[^/]+$/, listPath = /^\/memories$/, logPath = /^\/log$/;
const exportPath = /^\/export$/, eventsPath = /^\/events$/, batchPath = /^\/memories\/batch$/;
const onLine = (n, change) => (text) => text.split("\n").with(n, change(text.split("\n")[n])).join("\n");

test("a lying service is caught", async (t) => {
  const service = liar();
  const client = await newClient({ fetch: service.fetch });
  const written = [];
  for (let n = 0; n < 5; n++) written.push(await client.memories.write(`memory ${n}`));
  await client.log.head();
  const [first, second, third] = written;
  const otherService = liar();
  const other = await newClient({ fetch: otherService.fetch });
  const theirs = [];
  for (let n = 0; n < 6; n++) theirs.push(await other.memories.write(`theirs ${n}`));
  // Records the service's answer to one request, so that a lie can repeat it for another.
  const answered = async ({ lies }, path, ask) => {
    let kept;
    lies.splice(0, 1, { path, change: (answer) => (kept = answer) });
    await ask();
    lies.length = 0;
    return kept;
  };
  const early = await answered(service, exportPath, () => all(client.log.export()));
  const theirExport = await answered(otherService, exportPath, () => all(other.log.export()));
  const theirEvents = await answered(otherService, eventsPath, () => other.events.pages().next());
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
  await caught("a leaf of an export", "LeafMismatchError", exportPath, onLine(3, (l) => l.replace(third.leafHash, flip)), () => all(client.log.export()));
  await caught("a text of an export", "LeafMismatchError", exportPath, onLine(3, (l) => l.replace("memory 2", "memory 8")), () => all(client.log.export()));
  await caught("an export without a leaf", "IncompleteExportError", exportPath, (e) => e.split("\n").toSpliced(3, 1).join("\n"), () => all(client.log.export()));
  await caught("an export that ends halfway", "IncompleteExportError", exportPath, (e) => e.slice(0, e.length / 2), () => all(client.log.export()));
  await caught("an export without its last line", "IncompleteExportError", exportPath, (e) => e.split("\n").slice(0, -2).join("\n") + "\n", () => all(client.log.export()));
  await caught("an export with another root", "LogForkedError", exportPath, onLine(0, (l) => l.replace(/"root":"./, (m) => m.slice(0, -1) + flip(m.slice(-1)))), () => all(client.log.export()));
  await caught("another owner's export", "OwnerMismatchError", exportPath, () => theirExport, () => all(client.log.export()));
  await caught("another owner's events", "OwnerMismatchError", eventsPath, () => theirEvents, () => all(client.events.pages()));
  await caught("the same events again", "MalformedError", eventsPath, (page) => ({ ...page, cursor: "5" }), () => all(client.events.pages({ after: "7" })));
  await caught("an older head", "LogShrankError", logPath, (h) => ({ ...h, treeSize: 3 }), () => client.log.head());
  await caught("a fork that grew", "LogForkedError", /^\/log(\/consistency)?$/, (a) => ("owner" in a ? { ...a, treeSize: 6, root: raw.head.root } : a), async () => {
    await client.memories.write("the sixth");
    await client.log.head();
  });
  await caught("another owner's head", "OwnerMismatchError", logPath, () => raw.head, () => client.log.head());
  await caught("another owner's receipt", "OwnerMismatchError", receiptPath, () => raw.receipt, () => client.memories.receipt(third));
  await caught("an old receipt", "StaleProofError", receiptPath, () => raw.mine, () => client.memories.receipt(second));
  await caught("an old export", "StaleProofError", exportPath, () => early, () => all(client.log.export()));
  service.lies.length = 0;
  const genuine = await client.memories.receipt(second);
  await caught("a receipt of another memory", "WrongMemoryError", receiptPath, () => genuine, () => client.memories.receipt(third));
  const two = [{ content: "one" }, { content: "two" }];
  await caught("an answer too few to a batch", "IncompleteListError", batchPath, (b) => b.slice(1), () => client.memories.writeBatch(two), "POST");
  await caught("a batch's answers in another order", "IncompleteListError", batchPath, (b) => b.toReversed(), () => client.memories.writeBatch(two), "POST");
  await caught("a batch with another leaf", "LeafMismatchError", batchPath, (b) => b.map((w) => ({ ...w, leafHash: flip(w.leafHash) })),
    async () => client.memories.receipt((await client.memories.writeBatch(two))[1].id), "POST");
  await caught("a challenge for another account", "ChallengeError", /challenge$/, (c) => ({ message: c.message.replace(/\n.*\n/, `\n${other.owner}\n`) }),
    async () => new ledger.MemoryLedger({ url, fetch: service.fetch }).signIn(await newWallet()), "POST");
});

test("a relay gets no signature", async (t) => {
  const relay = await between(t, (client, open) => {
    open().on("data", (chunk) => client.write(chunk));
  });
  await assert.rejects(new ledger.MemoryLedger({ url: relay }).signIn(await newWallet()), ledger.ChallengeError);
  await new ledger.MemoryLedger({ url: relay, publicUrl: url }).signIn(await newWallet());
});

test("an export whose connection breaks", async (t) => {
  const straight = await newClient();
  for (let n = 0; n < 4; n++) await straight.memories.writeBatch(Array.from({ length: 200 }, () => ({ content: "long ".repeat(100) })));
  const { key } = await straight.keys.create("exports");
  const faults = { stall: false };
  const bad = await between(t, (client, open) => {
    let left = 200_000;
    open().on("data", (chunk) => {
      client.write(chunk.subarray(0, Math.max(0, left)));
      left -= chunk.length;
      if (left <= 0 && !faults.stall) client.destroy();
    });
  });
  const options = { url: bad, apiKey: key, owner: straight.owner, backoffMs: 5, timeoutMs: 5000 };
  // The export is not compressed, so that the cut is in its middle.
  const client = new ledger.MemoryLedger({ ...options, fetch: (where, init) => fetch(where, { ...init, headers: { ...init.headers, "Accept-Encoding": "identity" } }) });
  await assert.rejects(all(client.log.export()), ledger.ConnectionError);
  faults.stall = true;
  await assert.rejects(all(client.log.export()), ledger.TimeoutError);
  assert.equal((await exported(straight)).leaves.length, 800);
});

// Every third connection has a fault. The proxy cuts it before the request, before the
// answer, or within the answer; or the answer is late; or the request arrives twice. All
// 13 attempts of one write fail about once in a million writes.
const faults = ["refuse", "lose", "truncate", "delay", "double"].flatMap((fault) => ["none", "none", fault]);

test("a bad network", async (t) => {
  const bad = await between(t, (client, open, n) => {
    const fault = faults[n % faults.length];
    if (fault === "refuse") return client.destroy();
    if (fault === "double") open().resume();
    open().on("data", (chunk) => {
      if (fault === "lose") return client.destroy();
      if (fault === "truncate") return client.end(chunk.subarray(0, chunk.length - 5));
      if (fault === "delay") return setTimeout(() => client.write(chunk), 7000);
      client.write(chunk);
    });
  });
  const straight = await newClient();
  const { key } = await straight.keys.create("through the bad network");
  const client = new ledger.MemoryLedger({ url: bad, apiKey: key, owner: straight.owner, timeoutMs: 6000, retries: 12, backoffMs: 5, fetch: eachItsOwn });
  const writes = Number(process.env.WRITES ?? 100), ids = [];
  let next = 0;
  const write = async () => {
    while (next < writes) {
      const n = next++;
      ids.push((await client.memories.write(`write ${n}`)).id);
    }
  };
  await Promise.all(Array.from({ length: 64 }, write));
  const stored = await all(straight.memories.list());
  assert.equal(new Set(ids).size, writes);
  assert.deepEqual(stored.map((m) => m.id).sort(), ids.sort());
  assert.deepEqual(stored.map((m) => m.content).sort(), Array.from({ length: writes }, (_, n) => `write ${n}`).sort());
  await assert.rejects(client.memories.write("never", {}, { signal: AbortSignal.abort() }), { name: "AbortError" });
});
