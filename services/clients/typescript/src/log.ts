import type { MemoryLedger } from "./client.js";
import { OwnerMismatchError, serviceLied, StaleProofError } from "./errors.js";
import { verifyExport, type ExportedLeaf, type ExportHeader } from "./export.js";
import { checkGrowth, checkProof, type Head } from "./heads.js";
import { callOptions, type CallOptions } from "./http.js";
import { done, isCount } from "./receipt.js";
import type { ConsistencyProof, ImportResult, LogHead } from "./schema/core.js";

/** The log as a whole. */
export class Log {
  constructor(private readonly ledger: MemoryLedger) {}

  /**
   * Returns the log's head, and checks that it extends the last head that this client saw. If
   * not, it throws a LogShrankError or a LogForkedError: the service lies, or its operator
   * restored an older backup. `accept` goes on after a restore.
   */
  async head(options: CallOptions = {}): Promise<LogHead> {
    const { ledger } = this;
    const ask = async () => (await ledger.core<LogHead>("GET", "/log", options)).body;
    if (!ledger.verify) return ask();
    const head = await ledger.heads.check(ask, (from, to) => this.#ask(from, to, options), ledger.owner, options.signal);
    ledger.owner ??= head.owner;
    return head;
  }

  /**
   * Forgets the head that this client saw, and starts from the log that the service shows
   * now. Call it only if the operator said, by a channel other than the service, that a
   * backup was restored. Later memories than that backup are gone.
   */
  async accept(options: CallOptions = {}): Promise<LogHead> {
    const { ledger } = this;
    const owner = ledger.owner ?? (await ledger.core<LogHead>("GET", "/log", options)).body.owner;
    await ledger.heads.forget(owner, options.signal);
    return this.head(options);
  }

  /** Returns a consistency proof between two sizes, checked against the two roots that it names. */
  async consistency(from: number, to: number, options: CallOptions = {}): Promise<ConsistencyProof> {
    const proof = await this.#ask(from, to, options);
    if (this.ledger.verify) await checkProof({ size: from, root: proof.fromRoot }, { size: to, root: proof.toRoot }, proof);
    return proof;
  }

  /**
   * Yields all leaves of the log. The leaves, the root and completeness are always checked,
   * as in `verifyExport`. Unless `verify` is false, the export must also be this owner's,
   * extend the log that this client saw, and, if rpcUrl is set, match the chain. An export
   * that breaks off can't be resumed: the loop throws an IncompleteExportError or a
   * ConnectionError.
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

  /** Returns the bytes of an export as they arrive, for storage. They are not checked: `verifyExport` does that. */
  async exportFile(options: CallOptions = {}): Promise<AsyncIterable<Uint8Array>> {
    return (await this.ledger.core<AsyncIterable<Uint8Array>>("GET", "/export", { ...options, idleMs: this.ledger.timeoutMs(options) })).body;
  }

  /**
   * Adds the leaves of an export of this owner's log at another service, with the same hashes,
   * so that receipts from there still verify. Needs a session. The log must be empty, or hold
   * nothing but the first of these leaves: after a failure, the same export goes on, and other
   * memories can't be written before it ends. It is not repeated, and takes as long as it
   * takes, unless `timeoutMs` or `signal` end it. Browsers take a Blob, such as a File, and no
   * stream.
   */
  async import(file: BodyInit, options: CallOptions = {}): Promise<ImportResult> {
    return (await this.ledger.core<ImportResult>("POST", "/import", { timeoutMs: Infinity, ...callOptions(options), lines: file, repeatable: false, says: { added: isCount, treeSize: isCount } })).body;
  }

  /** Ends an import that broke off, so that other memories can be written. The leaves that it added stay. */
  async giveUpImport(options: CallOptions = {}): Promise<void> {
    await this.ledger.core("DELETE", "/import", { ...options, says: done });
  }

  async #checkExport(header: ExportHeader, head: LogHead, options: CallOptions): Promise<void> {
    const { owner, treeSize, root, anchor } = header;
    if (owner !== head.owner) throw new OwnerMismatchError("owner", `it is ${owner}, the log is ${head.owner}'s`);
    if (treeSize < head.treeSize) throw new StaleProofError("treeSize", `it is ${treeSize}, the log has ${head.treeSize} leaves`);
    // If the log grew, remember a head that extends the export. Otherwise the service could
    // show a fork to this call only.
    const now = treeSize > head.treeSize ? await this.head(options) : head;
    await this.growth({ size: treeSize, root }, { size: now.treeSize, root: now.root }, options);
    if ((anchor?.committedSize ?? 0) < head.anchoredSize) throw new StaleProofError("anchor.committedSize", `it is ${anchor?.committedSize ?? 0}, ${head.anchoredSize} leaves are anchored`);
    if (anchor) await this.ledger.checkAnchor({ anchor, entry: { owner } }, options);
  }

  /** @internal Checks that one tree is a prefix of another, with a proof from the service. */
  growth(from: Pick<Head, "size" | "root">, to: Pick<Head, "size" | "root">, options: CallOptions): Promise<void> {
    return checkGrowth(from, to, (m, n) => this.#ask(m, n, options));
  }

  async #ask(from: number, to: number, options: CallOptions): Promise<ConsistencyProof> {
    return (await this.ledger.core<ConsistencyProof>("GET", `/log/consistency?from=${from}&to=${to}`, options)).body;
  }
}
