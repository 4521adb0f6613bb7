// Wallets: from a key pair, and from the Wallet Standard.
import assert from "node:assert/strict";
import { createPublicKey, verify } from "node:crypto";
import { test } from "node:test";
import * as ledger from "../dist/index.js";
import { keyPair } from "./fixtures.mjs";

const message = new TextEncoder().encode("service.example wants you to sign in ☂");

test("a key pair", async () => {
  const { publicKey, secretKey } = keyPair();
  const wallet = await ledger.keypairWallet(secretKey);
  assert.deepEqual([...ledger.fromBase58(wallet.publicKey, 32)], [...secretKey.slice(32)]);
  assert.ok(verify(null, message, createPublicKey(publicKey.export({ format: "pem", type: "spki" })), await wallet.signMessage(message)));
  await assert.rejects(ledger.keypairWallet(secretKey.slice(1)), TypeError);
});

// Makes a wallet as the standard defines it: `signMessage` takes any number of inputs.
async function standard(count, outputs = (all) => all) {
  const signers = await Promise.all(Array.from({ length: count }, () => ledger.keypairWallet(keyPair().secretKey)));
  const accounts = signers.map(({ publicKey }) => ({ address: publicKey, publicKey: ledger.fromBase58(publicKey, 32), chains: ["solana:mainnet"], features: ["solana:signMessage"] }));
  const asked = [];
  const signMessage = async (...inputs) => {
    asked.push(...inputs);
    return outputs(await Promise.all(inputs.map(async (input) => (
      { signedMessage: input.message, signature: await signers[accounts.indexOf(input.account)].signMessage(input.message), signatureType: "ed25519" }))));
  };
  const wallet = { version: "1.0.0", name: "Test", icon: "data:,", chains: ["solana:mainnet"], accounts, features: { "solana:signMessage": { version: "1.1.0", signMessage } } };
  return { wallet, accounts, asked };
}

test("a wallet of the standard", async () => {
  const { wallet, accounts, asked } = await standard(2);
  for (const [n, adapted] of [ledger.standardWallet(wallet), ledger.standardWallet(wallet, accounts[1])].entries()) {
    assert.equal(adapted.publicKey, accounts[n].address);
    const signature = await adapted.signMessage(message);
    const key = await crypto.subtle.importKey("raw", accounts[n].publicKey, "Ed25519", false, ["verify"]);
    assert.ok(await crypto.subtle.verify("Ed25519", key, signature, message));
    assert.deepEqual(asked[n], { account: accounts[n], message });
  }
});

test("a wallet that signs envelopes", async () => {
  const { wallet, accounts, asked } = await standard(1);
  const signatures = [];
  const signOffchainMessage = async (input) => {
    signatures.push(input);
    return [{ signedOffchainMessage: new Uint8Array(1), signature: new Uint8Array(64) }];
  };
  wallet.features["solana:signOffchainMessage"] = { version: "1.0.0", supportedMessageVersions: [1], signOffchainMessage };
  assert.equal((await ledger.standardWallet(wallet).signMessage(message)).length, 64);
  assert.deepEqual(signatures, [{ messageVersion: 1, account: accounts[0], message: new TextDecoder().decode(message), requiredSigners: [accounts[0].publicKey] }]);
  assert.equal(asked.length, 0);
  wallet.features["solana:signOffchainMessage"].supportedMessageVersions = [7];
  await ledger.standardWallet(wallet).signMessage(message);
  assert.equal(asked.length, 1);
});

test("wallets that can't", async () => {
  const { wallet } = await standard(1);
  assert.throws(() => ledger.standardWallet({ ...wallet, features: {} }), TypeError);
  assert.throws(() => ledger.standardWallet({ ...wallet, accounts: [] }), TypeError);
  const silent = await standard(1, () => []);
  await assert.rejects(ledger.standardWallet(silent.wallet).signMessage(message), TypeError);
});

const site = "https://memory.example";
const statements = {
  "sign-in": "Sign in to Memory Ledger. This proves that you hold this wallet's key. It costs nothing and moves nothing.",
  erase: "ERASE all my memories at Memory Ledger, for good. The key to their texts is destroyed and nobody can read them again. All sessions, API keys and links end. The proofs stay. There is no way back.",
};
const stamp = (afterMs) => new Date(Date.now() + afterMs).toISOString();
const challenge = (account, purpose, issued = stamp(0), expires = stamp(300_000)) => `memory.example wants you to sign in with your Solana account:
${account}

${statements[purpose]}

URI: ${site}
Version: 1
Chain ID: mainnet
Nonce: ${"a2".repeat(32)}
Issued At: ${issued}
Expiration Time: ${expires}`;

// Asks a wallet to sign in or to erase, with a service that sends this message. Returns what
// the wallet was asked to sign.
async function signed(message, purpose, options = {}) {
  const { wallet, accounts, asked } = await standard(1);
  const fetch = async () => {
    const said = message(accounts[0].address);
    return said instanceof Response ? said : Response.json({ message: said, token: "t", erased: 1 });
  };
  const client = new ledger.MemoryLedger({ url: site, fetch, retries: 0, ...options });
  const call = purpose === "erase" ? client.erase(ledger.standardWallet(wallet)) : client.signIn(ledger.standardWallet(wallet));
  return { error: await call.then(() => undefined, (err) => err), asked };
}

for (const purpose of ["sign-in", "erase"]) {
  const other = purpose === "erase" ? "sign-in" : "erase";
  for (const [name, change] of Object.entries({
    "another site": ["memory.example wants", "bank.example wants"],
    "another address": [`URI: ${site}`, `URI: ${site}:8443`],
    "another account": [/\n.*\n/, "\n11111111111111111111111111111111\n"],
    "another statement": [statements[purpose], "I give you everything."],
    "the other purpose": [statements[purpose], statements[other]],
    "another version": ["Version: 1", "Version: 2"],
    "no chain": ["Chain ID: mainnet", "Chain ID: "],
    "a nonce that is a text": ["Nonce: a2", "Nonce: pay me "],
    "a short nonce": ["a2".repeat(32), "a2"],
    "one line more": ["\nExpiration", "\nRequest ID: 1\nExpiration"],
    "another line end": ["\n\nURI", "\r\n\nURI"],
  })) {
    test(`a wallet signs no challenge to ${purpose} with ${name}`, async () => {
      const { error, asked } = await signed((account) => challenge(account, purpose).replace(...change), purpose);
      assert.ok(error instanceof ledger.ChallengeError && error.liar === "service", String(error));
      assert.deepEqual(asked, []);
    });
  }
  test(`a wallet signs no challenge to ${purpose} of other times`, async () => {
    const day = 86_400_000;
    for (const [issued, expires] of [[stamp(0), stamp(day)], [stamp(0), stamp(-1000)], [stamp(day), stamp(day + 1000)], ["today", stamp(1000)], [stamp(0), "never"]]) {
      const { error, asked } = await signed((account) => challenge(account, purpose, issued, expires), purpose);
      assert.ok(error instanceof ledger.ChallengeError, `${issued}, ${expires}: ${error}`);
      assert.deepEqual(asked, []);
    }
  });
  test(`a wallet signs the challenge to ${purpose} of its service`, async () => {
    const message = (account) => challenge(account, purpose);
    const relay = { url: "http://127.0.0.1:3001" };
    const refused = await signed(message, purpose, relay);
    assert.ok(refused.error instanceof ledger.ChallengeError && /publicUrl/.test(refused.error.message), String(refused.error));
    assert.deepEqual(refused.asked, []);
    for (const options of [{}, { url: `${site}/` }, { ...relay, publicUrl: `${site}/` }]) {
      const { error, asked } = await signed(message, purpose, options);
      assert.equal(error, undefined);
      assert.equal(asked.length, 1);
    }
  });
  test(`a lost answer to what a wallet signed to ${purpose} is not reported as a refusal`, async () => {
    let answers = 0;
    const refused = () => Response.json({ error: "nonce was used" }, { status: 401 });
    const { error } = await signed((account) => [challenge(account, purpose), undefined, refused()][answers++] ?? assert.fail("lost"), purpose, { retries: 1, backoffMs: 0 });
    assert.ok(error instanceof ledger.ConnectionError, String(error));
  });
}
