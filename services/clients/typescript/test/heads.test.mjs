// Heads that a service returns one after the other.
import assert from "node:assert/strict";
import test from "node:test";
import { LogForkedError, LogShrankError, nodeHash } from "../dist/index.js";
import { Heads } from "../dist/heads.js";

const root = "ab".repeat(32), another = "cd".repeat(32), owner = "4Nd1mYvYzk6jNsMbXzN7XUxuJdDmHMczYbsYnyDyB1vM";
const head = { owner, treeSize: 7, root, anchoredSize: 7, anchoredRoot: root };
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
