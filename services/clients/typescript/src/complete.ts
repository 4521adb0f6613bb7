import { fromBase58 } from "./bytes.js";
import { commitmentAddress, commitments, genesisHash, rpc, transaction, type ChainOptions } from "./chain.js";
import { CantCompleteError, LeafMismatchError, LogForkedError, NoCorrectionError, NotAnchoredError, OwnerMismatchError, RootMismatchError } from "./errors.js";
import { verifyReceipt } from "./receipt.js";
import type { Anchor, Receipt } from "./schema/core.js";

/**
 * Returns a receipt with the anchor of a later one, which must be of the same memory or lead
 * from or to the same tree. A receipt that has an anchor keeps it, unless the later one's is in
 * another account: its owner has moved to another operator. Throws a NotAnchoredError if
 * neither has an anchor.
 */
export async function completeReceipt(receipt: unknown, later: unknown): Promise<Receipt> {
  const r = await verifyReceipt(receipt), l = await verifyReceipt(later), a = l.anchor;
  if (r.anchor && (!a || (a.account === r.anchor.account && a.cluster === r.anchor.cluster))) return r;
  if (l.entry.owner !== r.entry.owner) throw new OwnerMismatchError("entry.owner", `it is ${r.entry.owner}, the later receipt is of ${l.entry.owner}`);
  const sameLeaf = l.leafIndex === r.leafIndex, sameTree = l.treeSize === r.treeSize;
  if (sameLeaf && l.leafHash !== r.leafHash) throw new LeafMismatchError("leafHash", `it is ${r.leafHash}, the later receipt has ${l.leafHash} as leaf ${r.leafIndex}`);
  if (sameTree && l.batchRoot !== r.batchRoot) throw new RootMismatchError("batchRoot", `it is ${r.batchRoot}, the later receipt has ${l.batchRoot} for ${r.treeSize} leaves`);
  if (!a) throw new NotAnchoredError();
  if (sameLeaf) return l;
  if (sameTree) return verifyReceipt({ ...r, anchor: a, consistency: l.consistency });
  const tree = treesOf(r).get(a.committedSize);
  if (tree) return verifyReceipt({ ...r, anchor: a, consistency: tree.consistency });
  throw new CantCompleteError("only a later receipt of the same memory, or of the same tree, completes a receipt");
}

/** The trees that a receipt leads to, by their sizes: its own, and the one that it is anchored with. */
const treesOf = (r: Receipt) =>
  new Map([
    ...(r.anchor ? [[r.anchor.committedSize, { field: "anchor.committedRoot", root: r.anchor.committedRoot, consistency: r.consistency }] as const] : []),
    [r.treeSize, { field: "batchRoot", root: r.batchRoot, consistency: [] as string[] }] as const,
  ]);

/**
 * Returns a receipt with an issuer's anchor that it finds on the chain, without the service. The
 * chain must have a commitment to exactly the receipt's tree, or to the one that another operator,
 * from whom the owner moved, has anchored it with: from a larger one only the service can prove
 * the link. Throws a NotAnchoredError if there is none.
 */
export async function completeOnchain(rpcUrl: string, receipt: unknown, by: { programId: string; authority: string }, options: ChainOptions = {}): Promise<Receipt> {
  const r = await verifyReceipt(receipt), { owner } = r.entry, { programId } = by, trees = treesOf(r);
  const authority = fromBase58(by.authority, 32);
  const account = authority && (await commitmentAddress(programId, authority, fromBase58(owner, 32)!));
  if (!account) throw new TypeError("issuer: program and authority must be public keys in base58");
  if (r.anchor?.account === account) return r;
  const call = (method: string, ...params: unknown[]) => rpc(rpcUrl, options, method, params);
  const cluster = await genesisHash(call);
  for (let before: string | undefined; ; ) {
    const page = (await call("getSignaturesForAddress", account, { commitment: "finalized", ...(before && { before }) })) as { signature: string; err: unknown }[];
    if (page.length === 0) throw new NotAnchoredError();
    for (const { signature, err } of page) { // the newest first
      before = signature;
      const tx = err ? null : await transaction(call, signature);
      if (!tx?.meta || tx.meta.err) continue;
      const sizes = commitments({ programId, account }, tx, owner);
      for (const { size, root } of sizes) {
        const tree = trees.get(size);
        if (tree && root !== tree.root) throw new RootMismatchError(tree.field, `it is ${tree.root}, the chain has ${root} for ${size} leaves`);
        if (!tree) continue;
        const anchor: Anchor = { cluster, programId, account, txSignature: signature, slot: tx.slot, committedSize: size, committedRoot: root };
        return verifyReceipt({ ...r, anchor, consistency: tree.consistency });
      }
      if (sizes.some(({ size }) => size < r.treeSize)) throw new NotAnchoredError();
    }
  }
}

/**
 * Checks both receipts, and that the newer one's metadata names the older one's leaf among those
 * that it supersedes. Both must be of one owner. Throws a NoCorrectionError if it does not.
 */
export async function verifyCorrection(newer: unknown, older: unknown): Promise<void> {
  const n = await verifyReceipt(newer), o = await verifyReceipt(older), named = n.entry.metadata["supersedes"];
  if (n.entry.owner !== o.entry.owner) throw new OwnerMismatchError("entry.owner", `they are ${n.entry.owner} and ${o.entry.owner}`);
  if (n.treeSize === o.treeSize && n.batchRoot !== o.batchRoot) throw new LogForkedError("batchRoot", `the receipts have different roots for ${n.treeSize} leaves`);
  if (!Array.isArray(named) || !named.includes(o.leafHash) || o.leafIndex >= n.leafIndex) throw new NoCorrectionError("the memory does not supersede the other one");
}
