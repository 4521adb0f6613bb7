import { isHash } from "./bytes.js";
import { LogForkedError, LogShrankError, MalformedError, OwnerMismatchError } from "./errors.js";
import { emptyRoot, isConsistent } from "./merkle.js";
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
}

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
  if (answer.from !== from.size || answer.to !== to.size || !Array.isArray(answer.proof) || !answer.proof.every(isHash)) {
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

  constructor(private readonly store: HeadStore) {}

  /** Fetches the head and checks it. If `owner` is given, the log must be that owner's. */
  check(fetchHead: () => Promise<LogHead>, ask: Ask, owner: string | undefined): Promise<LogHead> {
    const checked = this.#last.then(async () => {
      // Read before the request: a head that another client stores meanwhile may be newer.
      const known = owner === undefined ? undefined : await this.store.get(owner);
      const head = await fetchHead();
      checkForm(head);
      if (owner !== undefined && head.owner !== owner) throw new OwnerMismatchError("owner", `it is ${head.owner}, this client is ${owner}`, "service");
      const before = known ?? (owner === undefined ? await this.store.get(head.owner) : undefined);
      await this.#extends(before, head, ask);
      await this.store.set(head.owner, { size: head.treeSize, root: head.root, anchoredSize: head.anchoredSize, anchoredRoot: head.anchoredRoot });
      return head;
    });
    this.#last = checked.catch(() => {});
    return checked;
  }

  async #extends(before: Head | undefined, head: LogHead, ask: Ask): Promise<void> {
    const now = { size: head.treeSize, root: head.root };
    if (before) {
      if (now.size < before.size) throw new LogShrankError("treeSize", `it is ${now.size}, it was ${before.size}`, "service");
      if (head.anchoredSize < before.anchoredSize) throw new LogShrankError("anchoredSize", `it is ${head.anchoredSize}, it was ${before.anchoredSize}`, "service");
      await checkGrowth(before, now, ask);
    }
    if (head.anchoredRoot !== null && (head.anchoredRoot !== before?.anchoredRoot || head.anchoredSize !== before.anchoredSize)) {
      await checkGrowth({ size: head.anchoredSize, root: head.anchoredRoot }, now, ask);
    }
  }
}

function checkForm(head: LogHead): void {
  const sizes = Number.isSafeInteger(head.treeSize) && Number.isSafeInteger(head.anchoredSize) && 0 <= head.anchoredSize && head.anchoredSize <= head.treeSize;
  if (!sizes) throw new MalformedError("treeSize", "sizes are not 0 <= anchoredSize <= treeSize", "service");
  if (!isHash(head.root) || (head.treeSize === 0 && head.root !== emptyRoot)) throw new MalformedError("root", "it is no root of such a log", "service");
  if (!(head.anchoredRoot === null ? head.anchoredSize === 0 : isHash(head.anchoredRoot))) throw new MalformedError("anchoredRoot", "it does not go with anchoredSize", "service");
}
