// Heads that a service returns one after the other.
import assert from "node:assert/strict";
import test from "node:test";
import { LogForkedError, LogShrankError, nodeHash } from "../dist/index.js";
import { Heads } from "../dist/heads.js";

const root = "ab".repeat(32), another = "cd".repeat(32), owner = "4Nd1mYvYzk6jNsMbXzN7XUxuJdDmHMczYbsYnyDyB1vM";
const head = { owner, treeSize: 7, root, anchoredSize: 7, anchoredRoot: root };
const shorter = { ...head, treeSize: 3, root: another, anchoredSize: 0, anchoredRoot: null };
const never = () => assert.fail("no proof is needed");

test("a head with another anchored root of the same size is a fork", async () => {
  const heads = new Heads(new Map());
  await heads.check(async () => head, never, owner);
  await heads.check(async () => head, never, owner);
  await assert.rejects(heads.check(async () => ({ ...head, anchoredRoot: another }), never, owner), LogForkedError);
  await assert.rejects(heads.check(async () => ({ ...head, anchoredSize: 0, anchoredRoot: null }), never, owner), LogShrankError);
});

test("a longer anchored part needs a proof, even with the anchored root of before", async () => {
  const heads = new Heads(new Map()), two = await nodeHash(root, another), three = await nodeHash(two, root);
  const of = (anchoredSize, anchoredRoot) => async () => ({ owner, treeSize: 3, root: three, anchoredSize, anchoredRoot });
  const ask = async (from, to) => ({ from, to, proof: [root] });
  await heads.check(of(2, two), ask, owner);
  await heads.check(of(2, two), never, owner);
  await assert.rejects(heads.check(of(3, two), ask, owner), LogForkedError);
  await heads.check(of(3, three), ask, owner);
});

// A store that several tabs share, and a lock for it.
function shared() {
  const map = new Map();
  let last = Promise.resolve(), locked = 0;
  return {
    map, locked: () => locked, get: async (owner) => map.get(owner), set: async (owner, value) => void map.set(owner, structuredClone(value)),
    lock: (_owner, update) => (locked++, (last = last.then(update))),
  };
}

test("a slow tab does not lower the head of another one", async () => {
  const store = shared(), two = await nodeHash(root, another), fork = await nodeHash(root, two);
  const of = (treeSize, root) => ({ owner, treeSize, root, anchoredSize: 0, anchoredRoot: null });
  const ask = async (from, to) => ({ from, to, proof: [another] });
  const slow = new Heads(store), quick = new Heads(store);
  const answers = [of(1, root), of(2, two)];
  const fetchSlowly = async () => {
    if (answers.length === 2) await quick.check(async () => of(2, two), ask, owner);
    return answers.shift();
  };
  assert.equal((await slow.check(fetchSlowly, ask, owner)).treeSize, 2);
  assert.deepEqual(answers, []);
  assert.equal(store.map.get(owner).size, 2);
  assert.ok(store.locked() >= 2);
  // A fork after the first leaf is still noticed.
  await assert.rejects(slow.check(async () => of(2, fork), ask, owner), LogForkedError);
});

test("tabs of a browser take turns by navigator.locks", async (t) => {
  const asked = [];
  const before = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  Object.defineProperty(globalThis, "navigator", { configurable: true, value: { locks: { request: (name, run) => (asked.push(name), run()) } } });
  t.after(() => (before ? Object.defineProperty(globalThis, "navigator", before) : delete globalThis.navigator));
  const { map } = shared();
  await new Heads({ get: (owner) => map.get(owner), set: (owner, value) => void map.set(owner, value) }).check(async () => head, never, owner);
  assert.deepEqual(asked, [`memory-ledger head ${owner}`]);
});

test("after a restore, which the error names, the owner goes on from the shorter log", async () => {
  const { MemoryLedger } = await import("../dist/index.js");
  const served = [head, shorter, shorter, { ...shorter, treeSize: 3, root }];
  const client = new MemoryLedger({ url: "http://service", owner, retries: 0, fetch: async () => Response.json(served.length > 1 ? served.shift() : served[0]) });
  await client.log.head();
  await assert.rejects(client.log.head(), (err) => err instanceof LogShrankError && /restored an older backup/.test(err.message));
  assert.equal((await client.log.accept()).treeSize, 3);
  await assert.rejects(client.log.head(), (err) => err instanceof LogForkedError && /restored an older backup/.test(err.message));
});
