// What tests outside of browsers share.
import { generateKeyPairSync } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";

const root = new URL("../../../../", import.meta.url);
const folders = ["events/verify/leaf/testdata/", "docs/journey/", "events/verify/testdata/receipt/", "events/verify/testdata/export/", "anchoring/staking/testdata/"];

/** The test files that every verifier of this repository must agree with: their texts, by path. */
export function fixtures() {
  const files = {};
  for (const folder of folders) {
    for (const name of readdirSync(new URL(folder, root), { recursive: true })) {
      const path = folder + name.replaceAll("\\", "/");
      if (/\.(nd)?json$/.test(path)) files[path] = readFileSync(new URL(path, root), "utf8");
    }
  }
  return files;
}

/** A key pair, with its 64 bytes in the form of Solana's command line. */
export function keyPair() {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const seed = privateKey.export({ format: "der", type: "pkcs8" }).subarray(-32);
  return { publicKey, secretKey: new Uint8Array([...seed, ...publicKey.export({ format: "der", type: "spki" }).subarray(-32)]) };
}
