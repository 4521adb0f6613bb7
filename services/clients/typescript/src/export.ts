import { parseUnique } from "./canonical.js";
import { fromBase58, isHash } from "./bytes.js";
import { AnchorError, IncompleteExportError, LeafMismatchError, MalformedError, OwnerMismatchError, RootMismatchError } from "./errors.js";
import { linesOf } from "./http.js";
import { RootOfLeaves } from "./merkle.js";
import { anchorMembers, checkAnchorForm, checkMembers, entryHash, entryMembers, isCount, isObject, isText, type Check } from "./receipt.js";
import type { Anchor, Entry, Via } from "./schema/core.js";

/** The first line of an export. */
export interface ExportHeader {
  format: "memory-ledger/export/1";
  owner: string;
  treeSize: number;
  root: string;
  /** The newest commitment on the chain, of the first `committedSize` leaves. */
  anchor: Anchor | null;
}

/** A leaf of an export. No hash covers `id`, `createdAt` and `via`. */
export interface ExportedLeaf {
  index: number;
  id: string;
  createdAt: string;
  via: Via;
  leafHash: string;
  /** Null if the memory was retracted, erased or damaged: only its hash stays. */
  entry: Entry | null;
  /** The service's stored copy does not match the leaf. */
  damaged?: true;
}

const format = "memory-ledger/export/1";
const orNull = (is: Check): Check => (v) => v === null || is(v);
const headerMembers: Record<string, Check> = { format: (v) => v === format, owner: isText, treeSize: isCount, root: isHash, anchor: orNull(isObject) };
const isTime: Check = (v) => {
  const [, day] = /^(\d{4}-\d\d-\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/.exec(String(v)) ?? [];
  // Date.parse takes February 30 for a day of March.
  return isText(v) && day !== undefined && !Number.isNaN(Date.parse(day)) && new Date(day).toISOString().startsWith(day);
};
const leafMembers: Record<string, Check> = {
  index: isCount, id: isText, createdAt: isTime, via: orNull(isObject), leafHash: isHash, entry: orNull(isObject),
};
const viaMembers: Record<string, Check> = { kind: isText, id: isText };
const damagedMembers: Record<string, Check> = { ...leafMembers, entry: (v) => v === null, damaged: (v) => v === true };
const endMembers: Record<string, Check> = { complete: (v) => v === true, leaves: isCount };

/**
 * Checks an export offline, and yields its leaves while it reads them. Each entry is
 * checked before it is yielded. The root and completeness are checked only at the end:
 * trust no leaf before the loop has ended without a VerificationError. Returns the header,
 * and passes it to `begin` before the first leaf.
 */
export async function* verifyExport(
  file: AsyncIterable<Uint8Array> | ReadableStream<Uint8Array>, begin?: (header: ExportHeader) => void | Promise<void>,
): AsyncGenerator<ExportedLeaf, ExportHeader> {
  const lines = new Lines(linesOf("getReader" in file ? chunksOf(file) : file));
  try {
    const header = checkHeader(await lines.next(headerMembers));
    await begin?.(header);
    const log = new RootOfLeaves();
    for (let index = 0; index < header.treeSize; index++) {
      const leaf = (await lines.next(leafMembers, index)) as unknown as ExportedLeaf;
      if (leaf.entry) await checkEntry(leaf.entry, leaf.leafHash, header.owner, lines.at);
      await log.add(leaf.leafHash);
      if (header.anchor?.committedSize === log.size) await checkRoot(log, header.anchor.committedRoot, "anchor.committedRoot");
      yield leaf;
    }
    const end = await lines.next(endMembers);
    if (end["leaves"] !== header.treeSize) throw new IncompleteExportError("leaves", `${lines.at} says ${end["leaves"]}, treeSize is ${header.treeSize}`);
    await lines.end();
    await checkRoot(log, header.root, "root");
    return header;
  } finally {
    await lines.close();
  }
}

/** Reads lines that are JSON objects with certain members. */
class Lines {
  #line = 0;

  constructor(private readonly lines: AsyncGenerator<string, void>) {}

  get at(): string {
    return `line ${this.#line}`;
  }

  /** Returns the next line. If `index` is given, the line must hold that leaf. */
  async next(members: Record<string, Check>, index?: number): Promise<Record<string, unknown>> {
    const { value: text } = await this.lines.next();
    this.#line++;
    if (text === undefined) throw new IncompleteExportError("export", `${this.at} is missing`);
    if (!text.endsWith("\n")) throw new IncompleteExportError("export", `${this.at} breaks off`);
    const object = this.#parse(text);
    if (index !== undefined && isCount(object["index"]) && object["index"] !== index) {
      throw new IncompleteExportError("index", `${this.at} has leaf ${object["index"]}, and ${index} comes next`);
    }
    // The last line in place of a leaf means that leaves are missing. A leaf in place of
    // the last line means that there are too many.
    if (members === leafMembers ? "complete" in object : members === endMembers && "index" in object) {
      throw new IncompleteExportError("treeSize", `${this.at} is not what comes after ${this.#line - 2} leaves`);
    }
    try {
      checkMembers(object, members === leafMembers && "damaged" in object ? damagedMembers : members, "");
      if (object["entry"]) checkMembers(object["entry"], entryMembers, "entry.");
      if (object["via"]) checkMembers(object["via"], viaMembers, "via.");
      if (object["anchor"]) checkMembers(object["anchor"], anchorMembers, "anchor.");
    } catch (err) {
      throw err instanceof MalformedError ? new MalformedError(err.field, `${this.at}: ${err.problem}`) : err;
    }
    return object;
  }

  #parse(text: string): Record<string, unknown> {
    try {
      const value = parseUnique(text);
      if (isObject(value)) return value as Record<string, unknown>;
    } catch {
      // Refused below.
    }
    throw new MalformedError("export", `${this.at} is not a JSON object, or one in it has a name twice`);
  }

  async end(): Promise<void> {
    if (!(await this.lines.next()).done) throw new MalformedError("export", `there is more after ${this.at}`);
  }

  async close(): Promise<void> {
    await this.lines.return();
  }
}

function checkHeader(object: Record<string, unknown>): ExportHeader {
  const header = object as unknown as ExportHeader;
  if (!fromBase58(header.owner, 32)) throw new MalformedError("owner", "it is not a public key in base58");
  if (header.anchor) {
    checkAnchorForm(header.anchor);
    const size = header.anchor.committedSize;
    if (size === 0 || size > header.treeSize) throw new AnchorError("anchor.committedSize", `it is ${size} of treeSize ${header.treeSize}`);
  }
  return header;
}

async function checkEntry(entry: Entry, leafHash: string, owner: string, at: string): Promise<void> {
  if (entry.owner !== owner) throw new OwnerMismatchError("entry.owner", `in ${at} it is ${entry.owner}, the export is ${owner}'s`);
  const hash = await entryHash(entry);
  if (hash !== leafHash) throw new LeafMismatchError("leafHash", `in ${at} it is ${leafHash}, the entry hashes to ${hash}`);
}

async function checkRoot(log: RootOfLeaves, root: string, field: string): Promise<void> {
  const is = await log.root();
  if (is !== root) throw new RootMismatchError(field, `it is ${root}, the first ${log.size} leaves have the root ${is}`);
}

/** Yields a stream's chunks. Not every browser can iterate over a stream. */
async function* chunksOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
