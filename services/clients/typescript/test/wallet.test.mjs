// Wallets: from a key pair, and from the Wallet Standard.
import assert from "node:assert/strict";
import { createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import { test } from "node:test";
import * as ledger from "../dist/index.js";

function keyPair() {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const seed = privateKey.export({ format: "der", type: "pkcs8" }).subarray(-32);
  return { publicKey, secretKey: new Uint8Array([...seed, ...publicKey.export({ format: "der", type: "spki" }).subarray(-32)]) };
}
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

test("wallets that can't", async () => {
  const { wallet } = await standard(1);
  assert.throws(() => ledger.standardWallet({ ...wallet, features: {} }), TypeError);
  assert.throws(() => ledger.standardWallet({ ...wallet, accounts: [] }), TypeError);
  const silent = await standard(1, () => []);
  await assert.rejects(ledger.standardWallet(silent.wallet).signMessage(message), TypeError);
});

test("a wallet signs no other account's challenge", async () => {
  const { wallet, asked } = await standard(2);
  const fetch = async () => Response.json({ message: `service.example wants you to sign in with your Solana account:\n${wallet.accounts[1].address}\n` });
  const client = new ledger.MemoryLedger({ url: "http://service", fetch });
  await assert.rejects(client.signIn(ledger.standardWallet(wallet)), ledger.OwnerMismatchError);
  assert.deepEqual(asked, []);
});

test("a wallet erases only when asked to, and signs nothing else then", async () => {
  const { wallet, accounts, asked } = await standard(1);
  const serving = (statement) => new ledger.MemoryLedger({
    url: "http://service",
    fetch: async () => Response.json({ message: `service.example wants you to sign in with your Solana account:\n${accounts[0].address}\n\n${statement}\n` }),
  });
  await assert.rejects(serving("ERASE all my memories.").signIn(ledger.standardWallet(wallet)), ledger.MalformedError);
  await assert.rejects(serving("Sign in.").erase(ledger.standardWallet(wallet)), ledger.MalformedError);
  assert.deepEqual(asked, []);
  await serving("ERASE all my memories.").erase(ledger.standardWallet(wallet));
  assert.equal(asked.length, 1);
});
