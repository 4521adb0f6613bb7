// Does what an agent does, with the official TypeScript client, in the requested protocol
// revision: node round.mjs URL TOKEN auto|legacy
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import assert from "node:assert/strict";

const [url, token, mode] = process.argv.slice(2);
const client = new Client({ name: "round", version: "1.0.0" }, { versionNegotiation: { mode } });
await client.connect(new StreamableHTTPClientTransport(new URL(url), {
	requestInit: { headers: { Authorization: `Bearer ${token}` } },
}));
const use = async (name, args = {}) => {
	const result = await client.callTool({ name, arguments: args });
	assert.ok(!result.isError, JSON.stringify(result));
	return result.structuredContent;
};
const { stored } = await use("remember", { memories: [{ content: `Speaks TypeScript, ${mode}.` }] });
const { memories } = await use("recall", { query: `typescript, ${mode}` });
assert.equal((await use("get", { id: memories[0].id })).id, stored[0].id); // recall shows short ids
assert.equal((await use("get", { id: stored[0].id })).untrustedContent, `Speaks TypeScript, ${mode}.`);
assert.equal((await use("prove", { id: stored[0].id })).verified, true);
assert.match((await use("open_case")).url, /\/agent-cases\/svc_case_/);
assert.match((await use("leave_memory")).url, /\/memory-drops\/svc_drop_/);
const { contents } = await client.readResource({ uri: "ledger://log" });
assert.ok(JSON.parse(contents[0].text).treeSize > 0);
assert.equal((await client.getPrompt({ name: "memory-habits" })).messages.length, 1);
console.log(client.getNegotiatedProtocolVersion());
await client.close();
