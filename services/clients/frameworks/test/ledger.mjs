// What the tests of all packages need. CORE_URL and EXTENSION_URL name a running product:
// services/test/e2e starts it and the tests.
import { keypairWallet, MemoryLedger } from "@memory-ledger/client";
import { keyPair } from "../../typescript/test/fixtures.mjs";

export { all } from "../../typescript/test/assert.mjs";

const { CORE_URL: url, EXTENSION_URL: extensionUrl } = process.env;

/** Returns a client of a new owner, with sessions. */
export async function newOwner() {
  const owner = new MemoryLedger({ url, extensionUrl });
  await owner.signIn(await keypairWallet(keyPair().secretKey));
  return owner;
}

/** Returns a client with an API key of an owner, as an agent has it. */
export async function newAgent(owner, options = {}, client = {}) {
  const { key } = await owner.keys.create("agent", { scopes: ["read", "write", "retract"], ...options });
  return new MemoryLedger({ url, apiKey: key, ...client });
}

/** Returns options for a client whose second retraction breaks off, but not the later ones. */
export function breaksOff() {
  let retractions = 0;
  return {
    retries: 0,
    fetch: (url, init) => (init.method === "DELETE" && ++retractions === 2 ? Promise.reject(new TypeError("broken off")) : fetch(url, init)),
  };
}
