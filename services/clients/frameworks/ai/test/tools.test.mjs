import assert from "node:assert/strict";
import { test } from "node:test";
import * as ai7 from "ai";
import * as ai6 from "ai-6";
import { MockLanguageModelV3 as Model6 } from "ai-6/test";
import { MockLanguageModelV4 as Model7 } from "ai/test";
import { memoryTools } from "@memory-ledger/ai";
import { all, newAgent, newOwner } from "../../test/ledger.mjs";

/** Has a model call tools, one a step. Returns the model, and the result or the error of each call. */
async function run(Model, { generateText, isStepCount, stepCountIs = isStepCount }, tools, calls) {
  const outcomes = [];
  const model = new Model({
    doGenerate: async ({ prompt }) => {
      const last = prompt.at(-1);
      if (last.role === "tool") outcomes.push(last.content[0].output);
      const call = calls[outcomes.length]?.(outcomes.map(({ value }) => value));
      return {
        content: [call ? { type: "tool-call", toolCallId: `call-${outcomes.length}`, toolName: call[0], input: JSON.stringify(call[1]) } : { type: "text", text: "Done." }],
        finishReason: { unified: call ? "tool-calls" : "stop" }, usage: { inputTokens: {}, outputTokens: {} }, warnings: [],
      };
    },
  });
  await generateText({ model, tools, prompt: "Remember.", stopWhen: stepCountIs(calls.length + 1) });
  return { model, outcomes };
}

for (const [version, ai, Model] of [[6, ai6, Model6], [7, ai7, Model7]]) {
  test(`a model calls the tools by version ${version} of the SDK`, async () => {
    const owner = await newOwner();
    const { id: gin } = await owner.memories.write("Ada drinks gin", { namespace: "other" });
    let writes = 0; // the answer to the first is lost, and the model calls remember again
    const broken = async (answer) => (await answer, Promise.reject(new TypeError("broken off")));
    const network = { retries: 0, fetch: (url, init) => (url.endsWith("/memories") && writes++ === 0 ? broken : Object)(fetch(url, init)) };
    const tools = memoryTools(await newAgent(owner, { namespaces: ["chat"] }, network), { source: "my agent", namespace: "chat" });
    tools.correct = memoryTools(await newAgent(owner), { source: "my agent" }).correct; // of an agent that sees all namespaces
    const { model, outcomes } = await run(Model, ai, tools, [
      () => ["remember", { content: "Ada drinks coffee", tags: ["food"], occurredAt: "2026-03-01" }],
      () => ["remember", { content: "Ada drinks coffee", tags: ["food"], occurredAt: "2026-03-01" }],
      () => ["remember", { content: "Ada lives in Rome. ".padEnd(250_000, "Nothing new. ") }],
      () => ["recall", { query: "what does Ada drink?", tags: ["food"] }],
      ([, id]) => ["correct", { id, content: "Ada drinks tea" }],
      () => ["recall", { query: "what does Ada drink?", tags: ["food"] }],
      ([, id]) => ["correct", { id, content: "Ada drinks water" }],
      ([, , , , id]) => ["forget", { id }],
      () => ["recall", { query: "Ada" }],
      () => ["recall", { query: "Ada", limit: 1000 }],
      () => ["forget", { id: "none" }],
      () => ["remember", { content: "" }],
    ]);
    const [, coffee, rome, first, tea, second, again, forgotten, third, ...refused] = outcomes.map(({ value }) => value);
    const memory = { untrustedSource: "my agent", via: "key" };
    const shown = ({ createdAt, ...rest }) => (assert.ok(Date.parse(createdAt)), JSON.parse(JSON.stringify(rest)));
    assert.deepEqual(first.map(shown), [{ ...memory, id: coffee, untrustedContent: "Ada drinks coffee", untrustedTags: ["food"], untrustedOccurredAt: "2026-03-01" }]);
    assert.deepEqual(second.map(shown), [{ ...memory, id: tea, untrustedContent: "Ada drinks tea", untrustedTags: ["food"] }]);
    assert.match(`${again} ${forgotten}`, new RegExp(`corrected before.* correct ${tea} It is taken back.$`));
    assert.deepEqual(third.map(({ id, untrustedContent: part }) => [id, part.slice(0, 18), part.length]), [[rome, "Ada lives in Rome.", 300]]);
    assert.deepEqual((await all(owner.memories.list())).map(({ id, metadata: { namespace } }) => [id, namespace]), [[gin, "other"], [rome, "chat"]]);
    assert.deepEqual(outcomes.slice(-3).map(({ type }) => type), ["error-text", "error-text", "error-text"]);
    for (const [n, error] of [/limit|Invalid input/, /not found/, /content must not be empty/].entries()) assert.match(refused[n], error);
    const offered = Object.fromEntries(model.doGenerateCalls[0].tools.map(({ name, inputSchema, description }) => (assert.ok(description), [name, inputSchema])));
    assert.deepEqual(Object.entries(offered).map(([name, { properties, required }]) => [name, Object.keys(properties), required]), [
      ["remember", ["content", "occurredAt", "tags"], ["content"]], ["recall", ["query", "limit", "tags"], ["query"]],
      ["correct", ["id", "content"], ["id", "content"]], ["forget", ["id"], ["id"]],
    ]);
    assert.equal(offered.recall.properties.limit.maximum, 50);
  });
}
