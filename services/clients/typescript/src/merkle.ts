import { fromHex, sha256, toHex, utf8 } from "./bytes.js";

// RFC 6962 trees. Sizes and indexes can exceed 32 bits, the limit of JavaScript's
// bitwise operators, so halving uses division.
const half = (n: number): number => Math.floor(n / 2);
const odd = (n: number): boolean => n % 2 === 1;

export const leafHash = async (entry: string): Promise<string> => toHex(await sha256(Uint8Array.of(0), utf8(entry)));

export const nodeHash = async (left: string, right: string): Promise<string> =>
  toHex(await sha256(Uint8Array.of(1), fromHex(left), fromHex(right)));

/** The root of a log without leaves: SHA-256 of the empty string. */
export const emptyRoot = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/** Folds siblings from a leaf up. A true direction means that the sibling is on the right. */
export async function fold(leaf: string, siblings: readonly string[], directions: readonly boolean[]): Promise<string> {
  let hash = leaf;
  for (let i = 0; i < Math.min(siblings.length, directions.length); i++) {
    hash = directions[i] ? await nodeHash(hash, siblings[i]!) : await nodeHash(siblings[i]!, hash);
  }
  return hash;
}

/**
 * Returns the directions of a leaf's path in a tree. A node that is the last of its level
 * and has no sibling takes no step (RFC 9162, section 2.1.3.2).
 */
export function directionsOf(index: number, size: number): boolean[] {
  const right: boolean[] = [];
  for (let node = index, last = size - 1; last > 0; node = half(node), last = half(last)) {
    if (odd(node)) right.push(false);
    else if (node < last) right.push(true);
  }
  return right;
}

/**
 * Folds a proof that the first `from` leaves are a prefix of the first `to`. Returns the
 * two roots that the proof leads to (RFC 9162, section 2.1.4.2), or undefined if the proof
 * has the wrong number of hashes. The caller compares the roots.
 */
export async function consistencyRoots(from: number, to: number, root: string, proof: readonly string[]): Promise<[first: string, second: string] | undefined> {
  if (from < 1 || from > to) return undefined;
  if (from === to) return proof.length === 0 ? [root, root] : undefined;
  let fn = from - 1, sn = to - 1;
  while (odd(fn)) [fn, sn] = [half(fn), half(sn)];
  // If fn is 0, the old tree is complete, and its own root begins the path.
  const path = fn === 0 ? [root, ...proof] : [...proof];
  let first = path.shift();
  let second = first;
  if (first === undefined || second === undefined) return undefined;
  for (const hash of path) {
    if (sn === 0) return undefined;
    if (odd(fn) || fn === sn) {
      first = await nodeHash(hash, first);
      second = await nodeHash(hash, second);
      while (fn !== 0 && !odd(fn)) [fn, sn] = [half(fn), half(sn)];
    } else {
      second = await nodeHash(second, hash);
    }
    [fn, sn] = [half(fn), half(sn)];
  }
  return sn === 0 ? [first, second] : undefined;
}

/** Whether a proof shows that the tree of `fromRoot` is a prefix of the tree of `toRoot`. */
export async function isConsistent(from: number, to: number, fromRoot: string, toRoot: string, proof: readonly string[]): Promise<boolean> {
  if (from === 0) return fromRoot === emptyRoot && proof.length === 0 && (to > 0 || toRoot === emptyRoot);
  const roots = await consistencyRoots(from, to, fromRoot, proof);
  return roots !== undefined && roots[0] === fromRoot && roots[1] === toRoot;
}

/** Computes the root of a log whose leaves arrive one by one. It holds at most one hash per level. */
export class RootOfLeaves {
  size = 0;
  readonly #complete: string[] = []; // roots of complete subtrees, the largest first

  async add(leaf: string): Promise<void> {
    let hash = leaf;
    for (let n = this.size; odd(n); n = half(n)) hash = await nodeHash(this.#complete.pop()!, hash);
    this.#complete.push(hash);
    this.size++;
  }

  async root(): Promise<string> {
    let hash: string | undefined;
    for (const left of [...this.#complete].reverse()) hash = hash === undefined ? left : await nodeHash(left, hash);
    return hash ?? emptyRoot;
  }
}
