import { canonicalize, parseUnique } from "./canonical.js";
import { fromBase58, isHash } from "./bytes.js";
import {
  AnchorError, ConsistencyError, ContentMismatchError, InclusionError, LeafMismatchError, MalformedError, RootMismatchError,
} from "./errors.js";
import { consistencyRoots, directionsOf, fold, leafHash } from "./merkle.js";
import type { Anchor, Entry, Receipt } from "./schema/core.js";

export type Check = (value: unknown) => boolean;
export const isText: Check = (v) => typeof v === "string";
export const isCount: Check = (v) => Number.isSafeInteger(v) && (v as number) >= 0;
export const isObject: Check = (v) => typeof v === "object" && v !== null && !Array.isArray(v);
const allOf = (is: Check): Check => (v) => Array.isArray(v) && v.every(is);

const members: Record<string, Check> = {
  version: isCount, entry: isObject, leafHash: isHash, leafIndex: isCount, treeSize: isCount,
  siblings: allOf(isHash), directions: allOf((v) => typeof v === "boolean"), batchRoot: isHash,
  anchor: (v) => v === null || isObject(v), consistency: allOf(isHash),
};
export const entryMembers: Record<string, Check> = { content: isText, metadata: isObject, owner: isText, salt: isText, v: isCount };
export const anchorMembers: Record<string, Check> = {
  cluster: isText, programId: isText, account: isText, txSignature: isText, slot: isCount, committedSize: isCount, committedRoot: isHash,
};

export function checkMembers(value: object, expected: Record<string, Check>, prefix: string): void {
  for (const [name, is] of Object.entries(expected)) {
    if (!Object.hasOwn(value, name)) throw new MalformedError(prefix + name, "it is missing");
    if (!is((value as Record<string, unknown>)[name])) throw new MalformedError(prefix + name, "malformed");
  }
  for (const name of Object.keys(value)) {
    if (!Object.hasOwn(expected, name)) throw new MalformedError(prefix + name, "there is no such member");
  }
}

/** What the service says when it has done what was asked for. */
export const done: Record<string, Check> = { ok: (v) => v === true };

/** Checks that a value has the form of a receipt. It also takes the JSON text of a receipt. */
export function parseReceipt(value: unknown): Receipt {
  if (typeof value === "string") {
    try {
      value = parseUnique(value);
    } catch {
      throw new MalformedError("receipt", "it is not JSON, or an object has a name twice");
    }
  }
  if (!isObject(value)) throw new MalformedError("receipt", "it must be an object");
  checkMembers(value as object, members, "");
  const receipt = value as Receipt;
  checkMembers(receipt.entry, entryMembers, "entry.");
  if (receipt.anchor) checkMembers(receipt.anchor, anchorMembers, "anchor.");
  return receipt;
}

/** Computes the leaf hash of an entry. */
export async function entryHash(entry: Entry): Promise<string> {
  if (entry.v !== 1) throw new MalformedError("entry.v", `${entry.v} is not a version that this client knows`);
  if (!fromBase58(entry.owner, 32)) throw new MalformedError("entry.owner", "it is not a public key in base58");
  if (!isHash(entry.salt)) throw new MalformedError("entry.salt", "it is not 64 lowercase hex characters");
  const { content, metadata, owner, salt, v } = entry;
  let text: string;
  try {
    text = canonicalize({ content, metadata, owner, salt, v }, 0);
  } catch (err) {
    throw new MalformedError("entry", (err as Error).message);
  }
  return leafHash(text);
}

/**
 * Checks everything in a receipt that can be checked without the chain. Throws a
 * VerificationError that names the first wrong member. If one of several members must be
 * wrong, it names the member that contradicts the others.
 */
export async function verifyReceipt(value: unknown): Promise<Receipt> {
  const r = parseReceipt(value);
  if (r.version !== 1) throw new MalformedError("version", `${r.version} is not a version that this client knows`);
  const hash = await entryHash(r.entry);
  if (r.leafIndex >= r.treeSize) throw new InclusionError("leafIndex", `${r.leafIndex} is outside a tree of treeSize ${r.treeSize}`);
  if (hash !== r.leafHash) {
    if ((await fold(hash, r.siblings, r.directions)) === r.batchRoot) {
      throw new LeafMismatchError("leafHash", `it is ${r.leafHash}, but the entry, which the proof leads from, hashes to ${hash}`);
    }
    throw new ContentMismatchError("entry", `content, metadata, owner, salt and v hash to ${hash}, leafHash is ${r.leafHash}`);
  }
  await checkInclusion(r);
  if (r.anchor) {
    checkAnchorForm(r.anchor);
    await checkPrefix(r, r.anchor);
  } else if (r.consistency.length > 0) {
    throw new ConsistencyError("consistency", "there is no anchor that it could lead to");
  }
  return r;
}

async function checkInclusion(r: Receipt): Promise<void> {
  const right = directionsOf(r.leafIndex, r.treeSize);
  const given = await fold(r.leafHash, r.siblings, r.directions);
  const sameDirections = right.length === r.directions.length && right.every((d, i) => d === r.directions[i]);
  const takes = `leafIndex ${r.leafIndex} in treeSize ${r.treeSize} takes ${right.length}`;
  if (r.directions.length !== r.siblings.length) {
    const field = r.siblings.length === right.length ? "directions" : "siblings";
    throw new InclusionError(field, `${r[field].length} of them; ${takes}`);
  }
  if (!sameDirections && given === r.batchRoot) throw await misplaced(r);
  if (r.siblings.length !== right.length) throw new InclusionError("siblings", `${r.siblings.length} of them; ${takes}`);
  if (!sameDirections) throw new InclusionError("directions", `leafIndex ${r.leafIndex} in treeSize ${r.treeSize} takes others`);
  if (given === r.batchRoot) return;
  const roots = r.anchor && (await consistencyRoots(r.treeSize, r.anchor.committedSize, given, r.consistency));
  if (roots?.[0] === given) {
    throw new RootMismatchError("batchRoot", `it is ${r.batchRoot}, but leaf and siblings fold to ${given}, which is what was committed`);
  }
  throw new InclusionError("siblings", `they fold to ${given}, batchRoot is ${r.batchRoot}`);
}

/** Makes the error for siblings and directions that lead to the root from another place. */
async function misplaced(r: Receipt): Promise<InclusionError> {
  if (r.anchor) {
    const roots = await consistencyRoots(r.treeSize, r.anchor.committedSize, r.batchRoot, r.consistency);
    if (roots?.[0] !== r.batchRoot || roots[1] !== r.anchor.committedRoot) {
      return new InclusionError("treeSize", `it is ${r.treeSize}, which goes neither with directions nor with consistency`);
    }
  }
  return new InclusionError("leafIndex", `it is ${r.leafIndex} of treeSize ${r.treeSize}, but siblings and directions lead to batchRoot from another place`);
}

export function checkAnchorForm(a: Anchor): void {
  const sizes = { cluster: 32, programId: 32, account: 32, txSignature: 64 };
  for (const [name, size] of Object.entries(sizes)) {
    if (!fromBase58(a[name as keyof Anchor], size)) throw new AnchorError(`anchor.${name}`, `it is not ${size} bytes in base58`);
  }
  if (a.slot === 0) throw new AnchorError("anchor.slot", "nothing is committed in slot 0");
}

/** Checks that the tree of batchRoot is a prefix of the committed tree. */
async function checkPrefix(r: Receipt, a: Anchor): Promise<void> {
  if (a.committedSize < r.treeSize) throw new AnchorError("anchor.committedSize", `it is ${a.committedSize}, less than treeSize ${r.treeSize}`);
  const span = `from treeSize ${r.treeSize} to anchor.committedSize ${a.committedSize}`;
  const roots = await consistencyRoots(r.treeSize, a.committedSize, r.batchRoot, r.consistency);
  if (!roots) throw new ConsistencyError("consistency", `it has another number of hashes than it takes ${span}`);
  if (roots[0] !== r.batchRoot) throw new ConsistencyError("consistency", `${span} it leads to ${roots[0]}, not to batchRoot ${r.batchRoot}`);
  if (roots[1] !== a.committedRoot) throw new AnchorError("anchor.committedRoot", `it is ${a.committedRoot}; ${span} the proof leads to ${roots[1]}`);
}
