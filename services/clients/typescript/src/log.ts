import type { MemoryLedger } from "./client.js";
import { OwnerMismatchError, serviceLied, StaleProofError } from "./errors.js";
import { verifyExport, type ExportedLeaf, type ExportHeader } from "./export.js";
import { checkGrowth, type Head } from "./heads.js";
import type { CallOptions } from "./http.js";
import type { ConsistencyProof, LogHead } from "./schema/core.js";

/** The log as a whole. */
export class Log {
  constructor(private readonly ledger: MemoryLedger) {}

  /** The log's head. It is checked to extend the last one that this client saw. */
  async head(options: CallOptions = {}): Promise<LogHead> {
    const { ledger } = this;
    const ask = async () => (await ledger.core<LogHead>("GET", "/log", options)).body;
    if (!ledger.verify) return ask();
    const head = await ledger.heads.check(ask, (from, to) => this.#ask(from, to, options), ledger.owner);
    ledger.owner ??= head.owner;
    return head;
  }

  /** A consistency proof between two sizes, checked against the two roots that it names. */
  async consistency(from: number, to: number, options: CallOptions = {}): Promise<ConsistencyProof> {
    const proof = await this.#ask(from, to, options);
    if (this.ledger.verify) await checkGrowth({ size: from, root: proof.fromRoot }, { size: to, root: proof.toRoot }, async () => proof);
    return proof;
  }

  /**
   * All leaves of the log. They, the root, and that nothing is missing are checked as
   * `verifyExport` does, always; that the export is this owner's, and extends the log that
   * this client saw, and, given rpcUrl, what is on the chain, unless `verify` is false. It
   * can't be continued: an IncompleteExportError or ConnectionError comes out of the loop.
   */
  async *export(options: CallOptions = {}): AsyncGenerator<ExportedLeaf, ExportHeader> {
    const { ledger } = this;
    const head = ledger.verify ? await this.head(options) : undefined;
    const file = await this.exportFile(options);
    try {
      return yield* verifyExport(file, async (header) => {
        if (head) await this.#checkExport(header, head, options);
      });
    } catch (err) {
      throw serviceLied(err);
    }
  }

  /** The bytes of an export as they come, to be kept. They are not checked: `verifyExport` does that. */
  async exportFile(options: CallOptions = {}): Promise<AsyncIterable<Uint8Array>> {
    return (await this.ledger.core<AsyncIterable<Uint8Array>>("GET", "/export", { ...options, idleMs: this.ledger.timeoutMs(options) })).body;
  }

  async #checkExport(header: ExportHeader, head: LogHead, options: CallOptions): Promise<void> {
    const { owner, treeSize, root, anchor } = header;
    if (owner !== head.owner) throw new OwnerMismatchError("owner", `it is ${owner}, the log is ${head.owner}'s`);
    if (treeSize < head.treeSize) throw new StaleProofError("treeSize", `it is ${treeSize}, the log has ${head.treeSize} leaves`);
    await this.growth({ size: head.treeSize, root: head.root }, { size: treeSize, root }, options);
    if ((anchor?.committedSize ?? 0) < head.anchoredSize) throw new StaleProofError("anchor.committedSize", `it is ${anchor?.committedSize ?? 0}, ${head.anchoredSize} leaves are anchored`);
    if (anchor) await this.ledger.checkAnchor({ anchor, entry: { owner } }, options);
  }

  /** @internal Checks that a tree is a prefix of another one, by a proof of the service. */
  growth(from: Pick<Head, "size" | "root">, to: Pick<Head, "size" | "root">, options: CallOptions): Promise<void> {
    return checkGrowth(from, to, (m, n) => this.#ask(m, n, options));
  }

  async #ask(from: number, to: number, options: CallOptions): Promise<ConsistencyProof> {
    return (await this.ledger.core<ConsistencyProof>("GET", `/log/consistency?from=${from}&to=${to}`, options)).body;
  }
}
