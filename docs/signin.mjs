// Makes a wallet, or takes the one in the file named by WALLET (PKCS #8 PEM), signs
// in at the base URL given, and prints TOKEN and OWNER for a shell:
//   eval "$(node docs/signin.mjs http://127.0.0.1:3001)"
// PUBLIC_URL names the service's own address, if the base URL is another one.
import { createPrivateKey, createPublicKey, generateKeyPairSync, sign } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { expected } from "./challenge.mjs";

const base = process.argv[2] ?? "http://127.0.0.1:3001", file = process.env.WALLET;
const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
function base58(bytes) {
  let n = BigInt("0x" + Buffer.from(bytes).toString("hex")), text = "";
  for (; n > 0n; n /= 58n) text = alphabet[Number(n % 58n)] + text;
  for (const b of bytes) { if (b !== 0) break; text = "1" + text; }
  return text;
}
function fail(why) { console.error(why); process.exit(1); }
async function post(path, body) {
  const response = await fetch(base + path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })
    .catch((err) => fail(`${base} does not answer (${err.cause?.code ?? err.message}): does it run there?`));
  const answer = await response.json();
  if (!response.ok) fail(`${path}: ${response.status} ${answer.error}`);
  return answer;
}

const key = file && existsSync(file) ? createPrivateKey(readFileSync(file)) : generateKeyPairSync("ed25519").privateKey;
if (file) writeFileSync(file, key.export({ format: "pem", type: "pkcs8" }), { mode: 0o600 });
const publicKey = base58(createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-32));
const message = expected((await post("/auth/challenge", { publicKey })).message, process.env.PUBLIC_URL ?? base, publicKey);
const { token } = await post("/auth/verify", { publicKey, message, signature: base58(sign(null, Buffer.from(message), key)) });
console.log(`TOKEN=${token}\nOWNER=${publicKey}`);
