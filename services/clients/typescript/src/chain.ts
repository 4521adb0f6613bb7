import { fromBase58, fromBase64, sha256, toBase58, toHex, u64, utf8 } from "./bytes.js";
import { AnchorError, ChainUnreachableError, NotAnchoredError } from "./errors.js";
import type { Anchor } from "./schema/core.js";

/** The state of a receipt's anchor account, as a Solana node reports it. */
export interface Onchain {
  /** The key that commits. Compare it with the authority that the operator publishes. */
  authority: string;
  /** How many leaves the account commits to now. It may have grown since the receipt. */
  size: number;
  root: string;
}

/** The issuer that must have anchored a receipt. Take both fields from a source other than the receipt. */
export interface Issuer {
  programId?: string | undefined;
  /** Needs programId: another program can write anything to its own accounts. */
  authority?: string | undefined;
}

/** The parts of a receipt that are compared with the chain. An export's header has them too. */
export interface Anchored {
  anchor: Anchor | null;
  entry: { owner: string };
}

export interface ChainOptions {
  fetch?: typeof fetch | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * Asks a Solana node whether the chain holds what a receipt's anchor claims. Verify the
 * receipt first. An AnchorError says what is wrong. A ChainUnreachableError or a
 * NotAnchoredError says nothing about the receipt.
 */
export async function checkOnchain(rpcUrl: string, receipt: Anchored, options: ChainOptions = {}): Promise<Onchain> {
  const a = receipt.anchor;
  if (!a) throw new NotAnchoredError();
  const call = (method: string, ...params: unknown[]) => rpc(rpcUrl, options, method, params);
  const genesis = await genesisHash(call);
  if (genesis !== a.cluster) throw new AnchorError("anchor.cluster", `it is ${a.cluster}, the node is on the chain ${genesis}`);
  const account = (await call("getAccountInfo", a.account, { encoding: "base64", commitment: "finalized" })) as { context?: { slot: number }; value?: Account | null } | null;
  if (account?.value === undefined) throw new ChainUnreachableError("getAccountInfo: malformed reply");
  const held = await checkAccount(a, account.value, account.context?.slot ?? a.slot, receipt.entry.owner);
  checkTransaction(a, await transaction(call, a.txSignature), receipt.entry.owner);
  return held;
}

/** The genesis hash of a node's chain. */
export async function genesisHash(call: (method: string) => Promise<unknown>): Promise<string> {
  const hash = await call("getGenesisHash");
  if (typeof hash !== "string") throw new ChainUnreachableError("getGenesisHash: malformed reply");
  return hash;
}

/** A transaction, null if the node does not know it. */
export async function transaction(call: (method: string, ...params: unknown[]) => Promise<unknown>, signature: string): Promise<Transaction | null> {
  const options = { encoding: "json", commitment: "confirmed", maxSupportedTransactionVersion: 1 };
  return (await call("getTransaction", signature, options)) as Transaction | null;
}

/** Checks that a receipt's anchor names the given issuer. It does not ask the chain. */
export async function checkIssuer(receipt: Anchored, by: Issuer): Promise<void> {
  const a = receipt.anchor;
  if (by.authority && !by.programId) throw new TypeError("issuer: name the authority's program, too");
  if (!a) throw new NotAnchoredError();
  if (by.programId && by.programId !== a.programId) throw new AnchorError("anchor.programId", `it is ${a.programId}, not ${by.programId}`);
  if (!by.authority) return;
  const authority = fromBase58(by.authority, 32);
  if (!authority) throw new TypeError("issuer: the authority is not a public key in base58");
  const at = await commitmentAddress(a.programId, authority, fromBase58(receipt.entry.owner, 32)!);
  if (at !== a.account) throw new AnchorError("anchor.account", `it is ${a.account}, the authority commits to this owner's log at ${at}`);
}

interface Account { owner: string; data: [string, string] }
export interface Transaction {
  slot: number;
  meta: { err: unknown } | null;
  transaction: { message: { accountKeys: string[]; instructions: { programIdIndex: number; accounts: number[] | null; data: string }[] } };
}

/** Compares the account's 128 bytes (docs/audit.md has the layout) with the anchor. */
async function checkAccount(a: Anchor, account: Account | null, reached: number, owner: string): Promise<Onchain> {
  // What a node held before the anchor's slot says nothing against the anchor.
  const unlessBehind = (wrong: AnchorError) => reached < a.slot ? new ChainUnreachableError(`the node has reached slot ${reached}, the anchor is of slot ${a.slot}`) : wrong;
  if (!account) throw unlessBehind(new AnchorError("anchor.account", `there is no account ${a.account} on the chain`));
  if (account.owner !== a.programId) throw new AnchorError("anchor.programId", `it is ${a.programId}, the account belongs to ${account.owner}`);
  let data: Uint8Array;
  try {
    data = fromBase64(account.data[0]);
  } catch {
    throw new ChainUnreachableError("getAccountInfo: malformed account");
  }
  if (data.length !== 128 || toHex(data.subarray(0, 8)) !== toHex(utf8("MLCOMMT1"))) throw new AnchorError("anchor.account", `${a.account} holds no commitment`);
  const view = new DataView(data.buffer, data.byteOffset);
  const authority = data.subarray(8, 40), key = data.subarray(40, 72);
  if (toBase58(key) !== owner) throw new AnchorError("anchor.account", `${a.account} commits to the log of ${toBase58(key)}`);
  const derived = await commitmentAddress(a.programId, authority, key);
  if (derived !== a.account) throw new AnchorError("anchor.account", `the program keeps this owner's commitment at ${derived}`);
  const held = { authority: toBase58(authority), size: Number(view.getBigUint64(72, true)), root: toHex(data.subarray(80, 112)) };
  const slot = Number(view.getBigUint64(112, true));
  if (held.size < a.committedSize) throw unlessBehind(new AnchorError("anchor.committedSize", `it is ${a.committedSize}, the account holds ${held.size} leaves`));
  if (held.size > a.committedSize) return held;
  if (held.root !== a.committedRoot) throw new AnchorError("anchor.committedRoot", `it is ${a.committedRoot}, the account holds ${held.root}`);
  if (slot !== a.slot) throw new AnchorError("anchor.slot", `it is ${a.slot}, the account was last written in slot ${slot}`);
  return held;
}

/**
 * Checks that the anchor's transaction committed the anchor's root. Once the account
 * holds a larger size, only this check shows that.
 */
function checkTransaction(a: Anchor, tx: Transaction | null, owner: string): void {
  if (!tx?.meta) throw new AnchorError("anchor.txSignature", "the node knows no such transaction; if it keeps no long history, ask one that does");
  if (tx.meta.err) throw new AnchorError("anchor.txSignature", "that transaction failed");
  if (!commitments(a, tx, owner).some(({ size, root }) => size === a.committedSize && root === a.committedRoot)) throw new AnchorError("anchor.txSignature", "that transaction does not commit anchor.committedRoot at anchor.committedSize to anchor.account");
  if (tx.slot !== a.slot) throw new AnchorError("anchor.slot", `it is ${a.slot}, the transaction landed in slot ${tx.slot}`);
}

/** What a transaction committed to an anchor's account. */
export function commitments(a: Pick<Anchor, "programId" | "account">, tx: Transaction, owner: string): { size: number; root: string }[] {
  const { accountKeys: keys, instructions } = tx.transaction.message;
  return instructions.flatMap((i) => {
    if (keys[i.programIdIndex] !== a.programId || keys[i.accounts?.[1] ?? -1] !== a.account) return [];
    // A tag of 8 bytes, the owner, the size, and the root.
    const data = fromBase58(i.data, 80);
    if (!data || toHex(data.subarray(0, 8)) !== toHex(u64(1)) || toBase58(data.subarray(8, 40)) !== owner) return [];
    return [{ size: Number(new DataView(data.buffer, data.byteOffset).getBigUint64(40, true)), root: toHex(data.subarray(48)) }];
  });
}

export async function rpc(url: string, options: ChainOptions, method: string, params: unknown[]): Promise<unknown> {
  // Errors of fetch quote the URL, which may hold a key: of some URLs, and in Deno of all.
  let node: string;
  try {
    node = new Request(url).url;
    if (new URL(node).username + new URL(node).password) throw new TypeError(); // which Deno and Bun take
  } catch {
    throw new ChainUnreachableError(`${method}: the node's URL is malformed, or has a user name or a password`);
  }
  const timeout = AbortSignal.timeout(15_000);
  try {
    const response = await (options.fetch ?? fetch)(url, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
      signal: options.signal ? AbortSignal.any([options.signal, timeout]) : timeout,
    });
    const reply = (await response.json()) as { result?: unknown; error?: { message: string } };
    if (reply.error || reply.result === undefined) throw new Error(reply.error?.message ?? "malformed reply");
    return reply.result;
  } catch (err) {
    options.signal?.throwIfAborted();
    throw new ChainUnreachableError(`${method}: ${(err as Error).message.replaceAll(node, "the node").replaceAll(url, "the node")}`);
  }
}

/** The canonical program-derived address of ["commitment", authority, owner]. */
export function commitmentAddress(programId: string, authority: Uint8Array, owner: Uint8Array): Promise<string | undefined> {
  return programAddress(programId, utf8("commitment"), authority, owner);
}

/** A program's canonical derived address. */
export async function programAddress(programId: string, ...seeds: Uint8Array[]): Promise<string | undefined> {
  const program = fromBase58(programId, 32);
  if (!program) return undefined;
  for (let bump = 255; bump >= 0; bump--) {
    const sum = await sha256(...seeds, Uint8Array.of(bump), program, utf8("ProgramDerivedAddress"));
    if (!onCurve(sum)) return toBase58(sum);
  }
  return undefined;
}

const p = 2n ** 255n - 19n;
const d = 37095705934669439343138083508754565189542113879843219016388785533085940283555n;

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  for (; exponent > 0n; exponent >>= 1n, base = (base * base) % p) {
    if (exponent & 1n) result = (result * base) % p;
  }
  return result;
}

/** Whether 32 bytes are a point of ed25519: whether (y² - 1) / (dy² + 1) is a square. */
function onCurve(point: Uint8Array): boolean {
  const bytes = point.slice().reverse();
  bytes[0]! &= 0x7f; // the sign of x
  const y = BigInt("0x" + toHex(bytes));
  const y2 = (y * y) % p;
  const x2 = ((y2 + p - 1n) * power((d * y2 + 1n) % p, p - 2n)) % p;
  return x2 === 0n || power(x2, (p - 1n) / 2n) === 1n;
}
