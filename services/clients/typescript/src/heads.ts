import { isHash } from "./bytes.js";
import { LogForkedError, LogShrankError, MalformedError, OwnerMismatchError } from "./errors.js";
import { emptyRoot, isConsistent } from "./merkle.js";
import { isText } from "./receipt.js";
import type { ConsistencyProof, LogHead } from "./schema/core.js";

/** The part of a log's head that a client remembers. */
export interface Head {
  size: number;
  root: string;
  anchoredSize: number;
  /** Null before the first anchor. */
  anchoredRoot: string | null;
}

/** Stores heads by owner. Keep them as long as you can: only a stored head can reveal a fork. */
export interface HeadStore {
  get(owner: string): Promise<Head | undefined> | Head | undefined;
  set(owner: string, head: Head): Promise<void> | void;
  /**
   * Runs `update`, which gets and sets, while no other user of the store runs one. Without
   * it, a browser's tabs take turns by navigator.locks. Give it where several processes share
   * the store: a slow one could lower the head, and a fork would go unnoticed.
   */
  lock?<T>(owner: string, update: () => Promise<T>): Promise<T>;
}

const same = (a: Head | undefined, b: Head | undefined): boolean =>
  a?.size === b?.size && a?.root === b?.root && a?.anchoredSize === b?.anchoredSize && a?.anchoredRoot === b?.anchoredRoot;

export type Ask = (from: number, to: number) => Promise<ConsistencyProof>;

/** Checks that the log of `to` extends the log of `from`, with a proof from the service. */
export async function checkGrowth(from: Pick<Head, "size" | "root">, to: Pick<Head, "size" | "root">, ask: Ask): Promise<void> {
  if (from.size === to.size) {
    if (from.root !== to.root) throw new LogForkedError("root", `a log of ${to.size} leaves had ${from.root}, now it has ${to.root}`, "service");
    return;
  }
  if (from.size === 0 && from.root === emptyRoot) return;
  if (from.size > to.size) throw new LogShrankError("treeSize", `it is ${to.size}, less than ${from.size}`, "service");
  await checkProof(from, to, await ask(from.size, to.size));
}

/** Checks a consistency proof against the two roots. */
export async function checkProof(from: Pick<Head, "size" | "root">, to: Pick<Head, "size" | "root">, answer: ConsistencyProof): Promise<void> {
  const sizes = `from ${from.size} to ${to.size} leaves`;
  if (answer.from !== from.size || answer.to !== to.size || !Array.isArray(answer.proof) || ![from.root, to.root, ...answer.proof].every(isHash)) {
    throw new MalformedError("proof", `it is not one ${sizes}`, "service");
  }
  if (!(await isConsistent(from.size, to.size, from.root, to.root, answer.proof))) {
    throw new LogForkedError("proof", `it does not show that the log only grew ${sizes}`, "service");
  }
}

/** Keeps the newest head of each owner, and refuses a head that does not extend it. */
export class Heads {
  // Heads are checked one after the other. If two answers arrived out of order, the log
  // would look as if it had shrunk.
  #last: Promise<unknown> = Promise.resolve();

  readonly #store: HeadStore;
  readonly #shared: boolean;

  constructor(store?: HeadStore) {
    this.#store = store ?? (new Map<string, Head>() as unknown as HeadStore);
    this.#shared = store !== undefined;
  }

  /** Fetches the head and checks it. If `owner` is given, the log must be that owner's. */
  check(fetchHead: () => Promise<LogHead>, ask: Ask, owner: string | undefined, signal?: AbortSignal | undefined): Promise<LogHead> {
    return this.#next(async () => {
      // If another process stored a head meanwhile, the next one must extend that.
      for (;;) {
        const head = await this.#once(fetchHead, ask, owner);
        if (head) return head;
      }
    }, signal);
  }

  /** Forgets an owner's head. Every log extends the empty one. */
  forget(owner: string, signal?: AbortSignal | undefined): Promise<void> {
    return this.#next(() => this.#alone(owner, async () => this.#store.set(owner, { size: 0, root: emptyRoot, anchoredSize: 0, anchoredRoot: null })), signal);
  }

  /** Runs this after the ones before. A signal also ends the wait for them: another call may take minutes. */
  #next<T>(run: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      const abort = () => reject(signal!.reason);
      if (signal?.aborted) return abort();
      signal?.addEventListener("abort", abort);
      const done = this.#last.then(() => (signal?.throwIfAborted(), run()));
      this.#last = done.then(resolve, reject).finally(() => signal?.removeEventListener("abort", abort));
    });
  }

  async #once(fetchHead: () => Promise<LogHead>, ask: Ask, owner: string | undefined): Promise<LogHead | undefined> {
    // Read before the request: a head that another client stores meanwhile may be newer.
    const known = owner === undefined ? undefined : await this.#store.get(owner);
    const head = await fetchHead();
    checkForm(head);
    if (owner !== undefined && head.owner !== owner) throw new OwnerMismatchError("owner", `it is ${head.owner}, this client is ${owner}`, "service");
    const before = known ?? (owner === undefined ? await this.#store.get(head.owner) : undefined);
    await this.#extends(before, head, ask);
    const seen = { size: head.treeSize, root: head.root, anchoredSize: head.anchoredSize, anchoredRoot: head.anchoredRoot };
    if (same(before, seen)) return head;
    const stored = await this.#alone(head.owner, async () => {
      if (!same(await this.#store.get(head.owner), before)) return false;
      await this.#store.set(head.owner, seen);
      return true;
    });
    return stored ? head : undefined;
  }

  /** Runs an update of the store while no other tab or process runs one. */
  #alone<T>(owner: string, update: () => Promise<T>): Promise<T> {
    if (this.#store.lock) return this.#store.lock(owner, update);
    const locks = this.#shared ? (globalThis as { navigator?: { locks?: LockManager } }).navigator?.locks : undefined;
    return locks ? locks.request(`memory-ledger head ${owner}`, update) as Promise<T> : update();
  }

  /** Checks that a head extends the one before. The lawful reason why it may not is a restored backup. */
  async #extends(before: Head | undefined, head: LogHead, ask: Ask): Promise<void> {
    try {
      await this.#grew(before, head, ask);
    } catch (err) {
      if (err instanceof LogShrankError || err instanceof LogForkedError) err.message += "; the service lies, or its operator restored an older backup";
      throw err;
    }
    if (head.anchoredRoot !== null && (head.anchoredRoot !== before?.anchoredRoot || head.anchoredSize !== before.anchoredSize)) {
      await checkGrowth({ size: head.anchoredSize, root: head.anchoredRoot }, { size: head.treeSize, root: head.root }, ask);
    }
  }

  async #grew(before: Head | undefined, head: LogHead, ask: Ask): Promise<void> {
    if (!before) return;
    if (head.treeSize < before.size) throw new LogShrankError("treeSize", `it is ${head.treeSize}, it was ${before.size}`, "service");
    if (head.anchoredSize < before.anchoredSize) throw new LogShrankError("anchoredSize", `it is ${head.anchoredSize}, it was ${before.anchoredSize}`, "service");
    await checkGrowth(before, { size: head.treeSize, root: head.root }, ask);
  }
}

function checkForm(head: LogHead): void {
  if (!isText(head.owner)) throw new MalformedError("owner", "it is no text", "service");
  const sizes = Number.isSafeInteger(head.treeSize) && Number.isSafeInteger(head.anchoredSize) && 0 <= head.anchoredSize && head.anchoredSize <= head.treeSize;
  if (!sizes) throw new MalformedError("treeSize", "sizes are not 0 <= anchoredSize <= treeSize", "service");
  if (!isHash(head.root) || (head.treeSize === 0 && head.root !== emptyRoot)) throw new MalformedError("root", "it is no root of such a log", "service");
  if (!(head.anchoredRoot === null ? head.anchoredSize === 0 : isHash(head.anchoredRoot))) throw new MalformedError("anchoredRoot", "it does not go with anchoredSize", "service");
}
