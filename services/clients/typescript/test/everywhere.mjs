// The client's tests for every runtime: the golden vectors, and a round with a running
// product. run(client, files, url) returns the number of tests and the failures.
import { all, equal, ok, rejects } from "./assert.mjs";
import { vectors } from "./vectors.mjs";

export async function run(ledger, files, url) {
  const tests = [...vectors(ledger, files), ...round(ledger, url)], failures = [];
  for (const { name, run } of tests) {
    try {
      await run();
    } catch (err) {
      failures.push(`${name}: ${err?.stack ?? err}`);
    }
  }
  return { count: tests.length, failures };
}

// Makes a wallet of the Wallet Standard with a key from WebCrypto.
async function newWallet(ledger) {
  const { privateKey } = await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"]);
  const { d, x } = await crypto.subtle.exportKey("jwk", privateKey);
  const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const signer = await ledger.keypairWallet(Uint8Array.from([...bytes(d), ...bytes(x)]));
  const signMessage = async ({ message }) => [{ signedMessage: message, signature: await signer.signMessage(message) }];
  return ledger.standardWallet({ accounts: [{ address: signer.publicKey }], features: { "solana:signMessage": { version: "1.1.0", signMessage } } });
}

function round(ledger, url) {
  const client = new ledger.MemoryLedger({ url, backoffMs: 20 });
  let written;
  return [
    { name: "sign in", run: async () => client.signIn(await newWallet(ledger)) },
    {
      name: "write", run: async () => {
        const one = await client.memories.write("one ☂ \u{1f600}", { source: "everywhere", n: 1e21 });
        written = [one, ...await client.memories.writeBatch([{ content: "two bees" }, { content: "three bees" }])];
      },
    },
    {
      name: "prove", run: async () => {
        for (const w of written) equal((await client.memories.receipt(w)).leafHash, w.leafHash);
        equal((await client.memories.prove(written[1].id)).proof.leafIndex, 1);
        equal((await client.memories.get(written[0].id)).metadata, { n: 1e21, source: "everywhere" });
      },
    },
    {
      name: "list and search", run: async () => {
        for (const options of [{}, { pageSize: 1 }, { stream: true }, { order: "newest" }]) equal((await all(client.memories.list(options))).length, 3);
        equal((await all(client.memories.search("bees", { pageSize: 1 }))).length, 2);
        equal((await all(client.memories.search("three bees", { mode: "ranked" })))[0].id, written[2].id);
      },
    },
    {
      name: "export", run: async () => {
        await client.memories.retract(written[1].id);
        await client.memories.forget(written[1].id);
        equal((await all(client.log.export())).map((leaf) => leaf.entry?.content ?? null), ["one ☂ \u{1f600}", null, "three bees"]);
        equal((await all(client.memories.list())).length, 2);
      },
    },
    {
      name: "feed", run: async () => {
        const pages = await all(client.events.pages({ pageSize: 1 })), ids = pages.flatMap((page) => page.events.map((event) => event.id));
        const followed = [];
        for await (const page of client.events.follow({ after: "0" })) {
          followed.push(...page.events.map((event) => event.id));
          if (followed.length >= ids.length) break;
        }
        equal(followed.slice(0, ids.length), ids);
        const now = client.events.follow({ after: pages.at(-1).cursor }), next = now.next();
        await client.memories.write("live");
        equal((await next).value.events[0].type, "MemoryWritten");
        await now.return();
      },
    },
    {
      name: "errors", run: async () => {
        const err = await rejects(client.memories.get("nothing"), ledger.NotFoundError, { status: 404 });
        ok(err.requestId, "no request id");
        const abort = new AbortController();
        abort.abort();
        await rejects(client.memories.write("never", {}, { signal: abort.signal }), Error, { name: "AbortError" });
        const late = new ledger.MemoryLedger({ url, retries: 0, timeoutMs: 1, fetch: (where, init) => new Promise((_, reject) => init.signal.addEventListener("abort", () => reject(init.signal.reason))) });
        await rejects(late.log.head(), ledger.TimeoutError);
      },
    },
  ];
}
