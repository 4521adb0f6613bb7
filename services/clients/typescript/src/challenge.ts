import { ChallengeError } from "./errors.js";

export type Purpose = "sign-in" | "erase";

/** The sentences that a wallet shows. The service has the same ones. */
const statements: Record<Purpose, string> = {
  "sign-in": "Sign in to Memory Ledger. This proves that you hold this wallet's key. It costs nothing and moves nothing.",
  erase: "ERASE all my memories at Memory Ledger, for good. The key to their texts is destroyed and nobody can read them again. " +
    "All sessions, API keys and links end. The proofs stay. There is no way back.",
};

/**
 * How long a challenge may be valid, and how far its time may be from this machine's clock,
 * in milliseconds. The service's challenges are valid for minutes.
 */
const span = 3_600_000;

const fields = ["domain", "account", "statement", "statement", "statement", "URI", "version", "chain", "nonce", "issued at", "expiration time"];
/** The parts that only the service knows: prefix and form, from line 7 on. */
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
const open: [prefix: string, form: RegExp][] = [
  ["Chain ID: ", /^[\w:.-]{1,64}$/], ["Nonce: ", /^[A-Za-z0-9]{8,128}$/], ["Issued At: ", time], ["Expiration Time: ", time],
];

/**
 * Compares a challenge with the text that the service at `site`, its public base URL, has
 * for a purpose and an account. A signature over another text could sign in elsewhere, as
 * somebody else, or do something else.
 */
export function checkChallenge(text: unknown, site: string, purpose: Purpose, account: string): void {
  const domain = /^[^:]*:\/\/([^/]*)/.exec(site)?.[1] ?? "";
  const lines = typeof text === "string" ? text.split("\n") : [];
  if (lines.length !== fields.length) throw new ChallengeError("message", `it has ${lines.length} lines, a challenge has ${fields.length}`, "service");
  const known = [`${domain} wants you to sign in with your Solana account:`, account, "", statements[purpose], "", `URI: ${site}`, "Version: 1"];
  const refuse = (i: number, wanted: string): never => {
    const hint = i === 0 || i === 5 ? "; if that is the same service, name its public URL with publicUrl" : "";
    throw new ChallengeError(fields[i]!, `it is ${JSON.stringify(lines[i])}, this client expects ${wanted}${hint}`, "service");
  };
  known.forEach((line, i) => lines[i] === line || refuse(i, JSON.stringify(line)));
  const values = open.map(([prefix, form], i) => {
    const line = lines[known.length + i]!, value = line.slice(prefix.length);
    return line.startsWith(prefix) && form.test(value) ? value : refuse(known.length + i, `${prefix}${form.source}`);
  });
  const issued = Date.parse(values[2]!), valid = Date.parse(values[3]!) - issued;
  if (!(valid > 0 && valid <= span)) refuse(10, "a time within an hour of the one before");
  if (!(Math.abs(issued - Date.now()) <= span)) refuse(9, `about the time of this machine's clock, ${new Date().toISOString()}`);
}
