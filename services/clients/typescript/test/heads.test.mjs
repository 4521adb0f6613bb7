// Heads that a service returns one after the other.
import assert from "node:assert/strict";
import test from "node:test";
import { LogForkedError, LogShrankError } from "../dist/index.js";
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
