// Connects from the URL alone, with the official TypeScript client: it discovers, registers,
// gets consent, calls a tool, and refreshes its tokens: node oauth.mjs URL SESSION
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";
import assert from "node:assert/strict";

const [url, session] = process.argv.slice(2);
const kept = {};
let answer; // the parameters with which the browser comes back
const redirectUrl = "http://localhost:8090/callback";
const authProvider = {
	redirectUrl,
	clientMetadata: { client_name: "TypeScript SDK", redirect_uris: [redirectUrl], grant_types: ["authorization_code", "refresh_token"], response_types: ["code"], token_endpoint_auth_method: "none" },
	state: () => "state",
	clientInformation: () => kept.client,
	saveClientInformation: (client) => { kept.client = client; },
	tokens: () => kept.tokens,
	saveTokens: (tokens) => { kept.tokens = tokens; },
	codeVerifier: () => kept.verifier,
	saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
	// As the consent page does with its session.
	async redirectToAuthorization(to) {
		const response = await fetch(to, { method: "POST", headers: { Authorization: `Bearer ${session}`, "Content-Type": "application/json" }, body: "{}" });
		assert.equal(response.status, 200, await response.clone().text());
		answer = new URL((await response.json()).redirect).searchParams;
	},
};
const connect = async () => {
	const client = new Client({ name: "oauth", version: "1.0.0" });
	const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
	await client.connect(transport).catch(async (error) => {
		assert.ok(error instanceof UnauthorizedError, error);
		await transport.finishAuth(answer);
		await transport.close();
	});
	return client;
};
await connect();
for (const round of ["first", "refreshed"]) {
	const client = await connect();
	const result = await client.callTool({ name: "remember", arguments: { memories: [{ content: `Came by OAuth, ${round}.` }] } });
	assert.ok(!result.isError, JSON.stringify(result));
	await client.close();
	kept.first ??= kept.tokens;
	kept.tokens = { ...kept.tokens, access_token: "expired" };
}
assert.notEqual(kept.tokens.refresh_token, kept.first.refresh_token);
console.log("connected");
