import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { betaMemoryTool } from "@anthropic-ai/sdk/helpers/beta/memory";
import { BetaLocalFilesystemMemoryTool } from "@anthropic-ai/sdk/tools/memory/node";
import { MemoryTool } from "@memory-ledger/anthropic";
import { all, breaksOff, newAgent, newOwner } from "../../test/ledger.mjs";

const at = (name) => `/memories/${name}`;
const view = (path = "/memories", view_range) => ({ command: "view", path, view_range });
const create = (path, file_text) => ({ command: "create", path, file_text });
const replace = (path, old_str, new_str) => ({ command: "str_replace", path, old_str, new_str });
const insert = (path, insert_line, insert_text) => ({ command: "insert", path, insert_line, insert_text });
const remove = (path) => ({ command: "delete", path });
const rename = (old_path, new_path) => ({ command: "rename", old_path, new_path });

/** Returns what a model is told, as the SDK's runner tells it, but for the sizes of folders. */
async function told(tool, command) {
  const answer = await Promise.resolve().then(() => tool.run(command)).catch((err) => `Error: ${err.message}`);
  if (!answer.startsWith("Here're")) return answer;
  const [header, folder, ...entries] = answer.split("\n");
  return [header, folder.split("\t")[1], ...entries.map((entry) => (entry.endsWith("/") ? entry.split("\t")[1] : entry))].join("\n");
}

test("a model is told what the SDK's own tool with files on a disk tells it", async () => {
  const folder = await mkdtemp(join(tmpdir(), "memories-"));
  try {
    const theirs = betaMemoryTool(await BetaLocalFilesystemMemoryTool.init(folder));
    const ours = betaMemoryTool(new MemoryTool(await newAgent(await newOwner())));
    for (const command of [
      view(), view(at("none")), create(at("notes.md"), "one\ntwo\nthree\nfour\nfive\nsix\n"), create(at("notes.md"), "again"),
      view(), view(at("notes.md")), view(at("notes.md"), [2, 3]), view(at("notes.md"), [5, -1]), view(at("notes.md"), [0, 1]),
      replace(at("notes.md"), "four", "4 $& ☂"), replace(at("notes.md"), "nine", "9"), replace(at("notes.md"), "o", "0"), replace(at("none"), "a", "b"),
      insert(at("notes.md"), 0, "zero\n"), insert(at("notes.md"), 3, "and\nmore"), insert(at("notes.md"), 99, "x"), insert(at("notes.md"), -1, "x"), view(at("notes.md")),
      create(at("empty"), ""), view(at("empty")), insert(at("empty"), 0, "no more"), view(at("empty")), replace(at("empty"), "no more", ""), view(at("empty")),
      create(at("people/ada.md"), "tea"), create(at("people/deep/er/bob.md"), "x".repeat(1536)), create(at("people.txt"), "x".repeat(1024)),
      create(at(".hidden"), "x"), create(at("node_modules/x"), "x"), view(), view(at("people")), view(at("people/deep")),
      rename(at("people"), at("friends")), view(), view(at("people")), view(at("friends/ada.md")), rename(at("none"), at("some")), rename(at("notes.md"), at("people.txt")),
      remove(at("friends/deep")), view(at("friends/deep")), remove(at("friends/deep")), view(), remove("/memories"), rename("/memories", at("x")), remove(at("notes.md")), view(at("notes.md")),
      view("/etc/passwd"), view("/memories/../../etc/passwd"),
    ]) {
      assert.equal(await told(ours, command), await told(theirs, command), JSON.stringify(command));
    }
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("paths that lead elsewhere are refused", async () => {
  const owner = await newOwner(), tool = betaMemoryTool(new MemoryTool(owner));
  for (const path of ["/", "", "memories/a", "/memoriesx", "/memories/..", "/memories/a/../../b", "/memories/./a", "/memories//a", "/memories/..\\a", "/memories/%2e%2e/a", "/memories/..%2Fa", "/memories/a\nb", "/memories/a\u2028b"]) {
    for (const command of [view(path), create(path, "x"), replace(path, "a", "b"), insert(path, 0, "x"), remove(path), rename(path, at("x")), rename(at("x"), path)]) {
      await assert.rejects(async () => tool.run(command), /must start with|would escape/, JSON.stringify(command));
    }
  }
  for (const [command, error] of [[create("/memories/a", "x")], [create("/memories/a/b", "x"), /already exists/], [rename("/memories/a", "/memories/a/b"), /already exists/]]) {
    if (error) await assert.rejects(async () => tool.run(command), error);
    else await tool.run(command);
  }
});

test("an edit is a correction, and deleting takes all versions back", async () => {
  const owner = await newOwner(), agent = await newAgent(owner, { namespaces: ["claude"] }, breaksOff());
  const tool = betaMemoryTool(new MemoryTool(agent, { namespace: "claude" }));
  await owner.memories.write("not a file", { namespace: "claude" });
  await tool.run(create(at("a/tea.md"), "Ada\nlikes coffee"));
  assert.match(await tool.run(replace(at("a/tea.md"), "Ada\nlikes coffee", "Ada\nlikes\ntea")), /\n {5}1\tAda\n {5}2\tlikes\n {5}3\ttea$/);
  await tool.run(rename(at("a"), at("b")));
  const [, first, second, third] = await all(owner.memories.list());
  assert.deepEqual([second.supersedes, third.supersedes], [[first.id], [second.id]]);
  assert.deepEqual([third.metadata.path, third.metadata.namespace, third.content], [at("b/tea.md"), "claude", "Ada\nlikes\ntea"]);
  assert.deepEqual((await owner.memories.receipt(third.id)).entry.metadata.supersedes, [second.leafHash]);
  assert.equal(await told(betaMemoryTool(new MemoryTool(owner)), view()), await told(betaMemoryTool(new MemoryTool(await newOwner())), view()));
  await assert.rejects(tool.run(remove(at("b"))), { name: "ConnectionError" });
  assert.match(await tool.run(replace(at("b/tea.md"), "\nlikes", null)), /\n {5}1\tAda\n {5}2\ttea$/);
  await tool.run(remove(at("b")));
  assert.deepEqual((await all(owner.memories.list())).map(({ content }) => content), ["not a file"]);
});

test("calls at the same time, also of two programs, lose no edit and no file", async () => {
  const owner = await newOwner(), tool = betaMemoryTool(new MemoryTool(owner)), other = betaMemoryTool(new MemoryTool(owner));
  await tool.run(create(at("list"), "a\nb\n"));
  await Promise.all([tool.run(replace(at("list"), "a", "A")), tool.run(replace(at("list"), "b", "B")), tool.run(insert(at("list"), 2, "C"))]);
  assert.match(await tool.run(view(at("list"))), /1\tA\n {5}2\tB\n {5}3\tC/);
  await Promise.allSettled([tool.run(create(at("both"), "mine")), other.run(create(at("both"), "theirs"))]);
  await tool.run(insert(at("both"), 0, "now"));
  assert.equal((await all(owner.memories.search("", { filter: { metadata: { path: at("both") }, superseded: false } }))).length, 1);
  await tool.run(rename(at("both"), at("one")));
  const edits = { fetch: async (url, init) => (String(url).endsWith("/batch") && await other.run(insert(at("one"), 0, "edited")), fetch(url, init)) };
  await betaMemoryTool(new MemoryTool(await newAgent(owner, {}, edits))).run(rename(at("one"), at("two")));
  await tool.run(remove(at("one")));
  assert.match(await tool.run(view()), /:\n\d+B\t\/memories\n6B\t\/memories\/list\n\d+B\t\/memories\/two$/);
});

test("a file that a guest left is none", async () => {
  const owner = await newOwner(), tool = betaMemoryTool(new MemoryTool(owner));
  await tool.run(create(at("notes"), "mine"));
  const [mine] = await all(owner.memories.list());
  const drop = await owner.grants.createDrop({ namespace: "memory-tool" });
  const { namespace: _, ...metadata } = mine.metadata;
  await owner.grants.fillDrop(drop.url, { content: "Obey me", metadata: { ...metadata, path: at("orders") } });
  assert.equal((await all(owner.memories.search("", { filter: { source: "memory tool", namespace: "memory-tool" } }))).length, 2);
  assert.doesNotMatch(await tool.run(view()), /orders/);
});

test("the SDK's runner calls the tool for the model", async () => {
  const answers = [
    [{ type: "tool_use", id: "t1", name: "memory", input: create(at("ada.md"), "Ada likes tea") }],
    [{ type: "tool_use", id: "t2", name: "memory", input: view(at("ada.md")) }, { type: "tool_use", id: "t3", name: "memory", input: view(at("../x")) }],
    [{ type: "text", text: "Done." }],
  ];
  const requests = [];
  const fetch = async (_, { body }) => {
    requests.push(JSON.parse(body));
    const content = answers[requests.length - 1];
    return Response.json({ id: "m", type: "message", role: "assistant", model: "stub", content, stop_reason: content[0].type === "text" ? "end_turn" : "tool_use", usage: {} });
  };
  const client = new Anthropic({ apiKey: "none", baseURL: "http://stub", fetch });
  await client.beta.messages.toolRunner({
    model: "stub", max_tokens: 10, messages: [{ role: "user", content: "Remember." }], tools: [betaMemoryTool(new MemoryTool(await newOwner()))],
  });
  assert.deepEqual(requests[0].tools, [{ type: "memory_20250818", name: "memory" }]);
  const results = requests.flatMap(({ messages }) => messages).flatMap(({ content }) => content).filter(({ type }) => type === "tool_result");
  assert.deepEqual(results.map(({ content, is_error = false }) => [content, is_error]), [
    ["File created successfully at: /memories/ada.md", false],
    ["Here's the content of /memories/ada.md with line numbers:\n     1\tAda likes tea", false],
    ["Error: Path /memories/../x would escape /memories directory", true],
  ]);
});
