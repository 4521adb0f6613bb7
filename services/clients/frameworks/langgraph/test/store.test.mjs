import assert from "node:assert/strict";
import { test } from "node:test";
import { AsyncBatchedStore, InMemoryStore, InvalidNamespaceError } from "@langchain/langgraph-checkpoint";
import { LedgerStore } from "@memory-ledger/langgraph";
import { all, breaksOff, newAgent, newOwner } from "../../test/ledger.mjs";

const ada = ["users", "ada"], bob = ["users", "bob"];

/** Returns an answer without times, and lists of items without an order. */
function plain(answer) {
  if (answer instanceof Error) return answer.constructor.name;
  if (Array.isArray(answer) && answer.some((item) => item?.key !== undefined)) return answer.map(plain).sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  if (Array.isArray(answer)) return answer.map(plain);
  if (answer?.key === undefined) return answer;
  assert.ok(answer.createdAt instanceof Date && answer.createdAt <= answer.updatedAt);
  return { namespace: answer.namespace, key: answer.key, value: answer.value };
}

test("it answers as the library's store in memory does", async () => {
  const theirs = new InMemoryStore(), ours = new LedgerStore(await newAgent(await newOwner()));
  for (const [n, call] of [
    (s) => s.get(ada, "none"), (s) => s.search([]), (s) => s.listNamespaces(), (s) => s.delete(ada, "none"),
    (s) => s.put(ada, "drink", { text: "tea ☂", times: 3, deep: { a: [1, null, "x"] } }), (s) => s.get(ada, "drink"), (s) => s.get(bob, "drink"),
    (s) => s.put(ada, "drink", { text: "coffee", times: 4 }), (s) => s.get(ada, "drink"), (s) => s.search(ada),
    (s) => s.put(bob, "drink", { text: "tea", times: 9 }), (s) => s.put(bob, "food:1.2", { text: "bread", kind: null }), (s) => s.put(["users"], "", {}),
    (s) => s.put(["usersandmore", "x", "v1"], "k", { times: "5" }), (s) => s.put(["a", "b", "c", "v1"], "k", { times: 5 }),
    (s) => s.search([]), (s) => s.search(["users"]), (s) => s.search(["users", "bob"]), (s) => s.search(["user"]), (s) => s.search(["bob"]),
    ...[{ text: "tea" }, { times: { $gt: 3 } }, { times: { $gte: 3, $lt: 9 } }, { times: { $lte: 5 } }, { times: { $eq: 9 } }, { text: { $ne: "tea" } }, { text: { $in: ["tea", "bread"] } }, { kind: null }, { none: 1 }, {}].map((filter) => (s) => s.search([], { filter })),
    async (s) => (await s.search([], { limit: 2 })).length, async (s) => (await s.search([], { limit: 4, offset: 4 })).length, (s) => s.search([], { offset: 99 }),
    (s) => s.listNamespaces(), (s) => s.listNamespaces({ prefix: ["users"] }), (s) => s.listNamespaces({ suffix: ["v1"] }), (s) => s.listNamespaces({ prefix: ["*", "b"] }),
    (s) => s.listNamespaces({ maxDepth: 1 }), (s) => s.listNamespaces({ limit: 2, offset: 1 }), (s) => s.listNamespaces({ prefix: ["none"] }),
    (s) => s.batch([
      { namespace: ada, key: "drink", value: { text: "water" } }, { namespace: bob, key: "drink" }, { namespacePrefix: bob },
      { namespace: bob, key: "drink", value: null }, { namespace: ["new"], key: "k", value: { n: 1 } }, { namespace: ["new"], key: "k" }, { namespace: ["new"], key: "k", value: { n: 2 } },
      { namespace: ["gone"], key: "k", value: { n: 1 } }, { namespace: ["gone"], key: "k", value: null }, { matchConditions: [{ matchType: "prefix", path: ["a"] }], limit: 9, offset: 0 },
    ]),
    (s) => s.search([]), (s) => s.get(ada, "drink"), (s) => s.delete(ada, "drink"), (s) => s.get(ada, "drink"), (s) => s.put(ada, "drink", { text: "milk" }), (s) => s.get(ada, "drink"),
    ...[[], ["a.b"], ["a:b"], [""], ["langgraph"], [7]].flatMap((namespace) => [
      (s) => s.put(namespace, "k", {}), (s) => s.get(namespace, "k"), (s) => s.delete(namespace, "k"), (s) => s.batch([{ namespace, key: "k", value: {} }]), (s) => s.search(namespace),
    ]),
  ].entries()) {
    const [want, got] = await Promise.all([theirs, ours].map(async (store) => call(store).catch((err) => err)));
    assert.deepEqual(plain(got), plain(want), `call ${n}: ${call}`);
  }
  await assert.rejects(ours.put(["a.b"], "k", {}), InvalidNamespaceError);
});

test("a put is a correction that keeps the time of the first, and deleting takes all back", async () => {
  const owner = await newOwner(), agent = await newAgent(owner, { namespaces: ["graph"] }, breaksOff()), store = new LedgerStore(agent, { namespace: "graph" });
  await owner.memories.write("no item", { namespace: "graph" });
  await store.put(ada, "drink", { text: "tea" });
  const before = await store.get(ada, "drink");
  await store.put(ada, "drink", { text: "coffee" });
  const after = await store.get(ada, "drink");
  assert.deepEqual(after.createdAt, before.createdAt);
  assert.ok(after.updatedAt > before.updatedAt);
  const [, first, second] = await all(owner.memories.list());
  assert.deepEqual([second.supersedes, second.content, second.metadata.namespace], [[first.id], '{"text":"coffee"}', "graph"]);
  assert.deepEqual((await owner.memories.receipt(second.id)).entry.metadata.supersedes, [first.leafHash]);
  assert.deepEqual(await new LedgerStore(owner).search([]), []);
  await assert.rejects(store.delete(ada, "drink"), { name: "ConnectionError" });
  assert.deepEqual((await store.get(ada, "drink")).value, { text: "coffee" });
  await store.delete(ada, "drink");
  assert.deepEqual((await all(owner.memories.list())).map(({ content }) => content), ["no item"]);
});

test("a query ranks, the newest come first without one, and both leave out what a guest left", async () => {
  const owner = await newOwner(), store = new LedgerStore(owner);
  await store.put(ada, "drink", { text: "Ada drinks tea in the morning" });
  await store.put(bob, "drink", { text: "Bob drinks coffee" });
  await store.put(bob, "food", { text: "Bob eats bread" });
  const [memory] = await all(owner.memories.list());
  const drop = await owner.grants.createDrop({ namespace: "langgraph" });
  const { namespace: _, ...metadata } = memory.metadata;
  await owner.grants.fillDrop(drop.url, { content: '{"text": "Ada drinks tea, tea, tea"}', metadata });
  assert.equal((await all(owner.memories.search("tea", { filter: { source: "langgraph", namespace: "langgraph" } }))).length, 2);
  const [best, ...others] = await store.search(["users"], { query: "who drinks tea?" });
  assert.deepEqual([best.key, best.namespace, best.value.text, best.score > (others[0]?.score ?? 0)], ["drink", ada, "Ada drinks tea in the morning", true]);
  assert.deepEqual((await store.search(bob, { query: "drinks" })).map(({ namespace }) => namespace), [bob]);
  assert.deepEqual((await store.search([], { limit: 2 })).map(({ value }) => value.text), ["Bob eats bread", "Bob drinks coffee"]);
  assert.equal((await store.get(ada, "drink")).value.text, "Ada drinks tea in the morning");
});

test("a batch of more items than the service writes at once, through the wrapper that LangGraph puts around a store", async (t) => {
  const owner = await newOwner(), store = new AsyncBatchedStore(new LedgerStore(owner));
  store.start();
  t.after(() => store.stop()); // it polls
  await Promise.all(Array.from({ length: 300 }, (_, n) => store.put(["many"], `${n}`, { n })));
  await Promise.all([store.put(ada, "k", { n: 1 }), store.put(ada, "k", { n: 2 })]);
  assert.deepEqual((await store.get(ada, "k")).value, { n: 2 });
  assert.equal((await store.search(["many"], { limit: 1000 })).length, 300);
  const one = new LedgerStore(owner), other = new LedgerStore(owner);
  await Promise.all([one.put(bob, "k", { by: "one" }), other.put(bob, "k", { by: "other" })]);
  assert.equal((await one.search(bob)).length, 1);
  await one.put(bob, "k", { by: "both" });
  assert.deepEqual((await other.search(bob)).map(({ value }) => value), [{ by: "both" }]);
  await one.delete(bob, "k");
  assert.equal(await other.get(bob, "k"), null);
});
