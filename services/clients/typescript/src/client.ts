import { isHash, sha256, toBase58, toHex, utf8 } from "./bytes.js";
import { canonicalize } from "./canonical.js";
import { checkIssuer, checkOnchain, type Issuer } from "./chain.js";
import {
  ContentMismatchError, IncompleteListError, InclusionError, LeafMismatchError, MalformedError, OwnerMismatchError,
  RootMismatchError, StaleProofError, VerificationError, WrongMemoryError,
} from "./errors.js";
import { checkGrowth, Heads, type Head, type HeadStore } from "./heads.js";
import { Transport, streamedObjects, type Answer, type CallOptions, type Request } from "./http.js";
import { fold, RootOfLeaves } from "./merkle.js";
import { parseReceipt, verifyReceipt } from "./receipt.js";
import type {
  ConsistencyProof, CreatedKey, CreatedMemory, FoundMemory, InclusionProof, Key, LogHead, Memory, NewKey, Receipt, SearchRequest, Session,
} from "./schema/core.js";
import type { Case, CaseStatus, Drop, DropStatus, FilledDrop, DroppedMemory, NewCase, NewDrop, Revoked } from "./schema/extension.js";
import type { Wallet } from "./wallet.js";

export interface Options {
  /** The core API. */
  url: string;
  /** The extension API, for grants. */
  extensionUrl?: string;
  /** A credential of the core API. `signIn` sets a session. */
  apiKey?: string;
  session?: string;
  /** A session of the extension API. `signIn` sets it where extensionUrl is given. */
  extensionSession?: string;
  /** Whose credential it is. Without it, the first head that the service shows decides. */
  owner?: string;
  /** Whether to check what the service says. True by default. */
  verify?: boolean;
  /** A Solana node. With it, receipts are checked against the chain. */
  rpcUrl?: string;
  /** By whom receipts must be anchored. Ask the operator, by another way than the service. */
  issuer?: Issuer;
  /** Where heads are kept. In memory by default, which forgets them with the process. */
  heads?: HeadStore;
  fetch?: typeof fetch;
  /** How long each attempt of a call may take; 30 s by default. */
  timeoutMs?: number;
  /** Attempts after the first; 3 by default. */
  retries?: number;
  /** The wait before the second attempt, which doubles from one to the next; 1 s by default. */
  backoffMs?: number;
}

export interface WriteOptions extends CallOptions {
  /** One is made where it is left out. All attempts of a call use the same. */
  idempotencyKey?: string;
}

export interface ListOptions extends CallOptions {
  order?: "oldest" | "newest";
  /** How many memories a page has, 1 to 1000; 500 by default. */
  pageSize?: number;
  /** Take the whole list as one streamed answer. One that breaks off can't be continued. */
  stream?: boolean;
}

export type SearchOptions = CallOptions & Omit<SearchRequest, "cursor" | "limit"> & { pageSize?: number };

/** What a write answered, and nothing that was not sent: pass it to `receipt`. */
export type Written = CreatedMemory;

/** How many writes are remembered to check their receipts. */
const remembered = 1000;

const digest = async (content: string, metadata: unknown): Promise<string> => toHex(await sha256(utf8(canonicalize({ content, metadata }, 0))));

interface Fingerprint { leafHash: string; leafIndex: number; digest: string }

/** Memory Ledger, with what it says checked. */
export class MemoryLedger {
  readonly keys = new Keys(this);
  readonly memories = new Memories(this);
  readonly log = new Log(this);
  readonly grants = new Grants(this);

  readonly url: string;
  readonly extensionUrl: string | undefined;
  readonly verify: boolean;
  readonly rpcUrl: string | undefined;
  readonly issuer: Issuer | undefined;
  readonly heads: Heads;
  /** Whose log it is, once that is known. */
  owner: string | undefined;
  readonly #fetch: typeof fetch;
  readonly #transport: Transport;
  #credential: string | undefined;
  #extensionCredential: string | undefined;

  constructor(options: Options) {
    this.url = options.url.replace(/\/+$/, "");
    this.extensionUrl = options.extensionUrl?.replace(/\/+$/, "");
    this.verify = options.verify ?? true;
    this.rpcUrl = options.rpcUrl;
    this.issuer = options.issuer;
    this.owner = options.owner;
    this.heads = new Heads(options.heads ?? new Map<string, Head>() as unknown as HeadStore);
    this.#credential = options.apiKey ?? options.session;
    this.#extensionCredential = options.extensionSession;
    // A page's fetch must be called as the window's.
    this.#fetch = options.fetch ?? ((...args) => fetch(...args));
    this.#transport = new Transport({
      fetch: this.#fetch, timeoutMs: options.timeoutMs ?? 30_000, retries: options.retries ?? 3, backoffMs: options.backoffMs ?? 1000,
    });
  }

  /** Signs in to the core API, and to the extension API where its URL is given. */
  async signIn(wallet: Wallet, options: CallOptions = {}): Promise<Session> {
    if (this.owner !== undefined && this.owner !== wallet.publicKey) throw new TypeError(`this client is ${this.owner}'s`);
    const session = await this.#signInTo(this.url, wallet, options);
    if (this.extensionUrl) this.#extensionCredential = (await this.#signInTo(this.extensionUrl, wallet, options)).token;
    this.#credential = session.token;
    this.owner = wallet.publicKey;
    return session;
  }

  async #signInTo(url: string, wallet: Wallet, options: CallOptions): Promise<Session> {
    const publicKey = wallet.publicKey;
    const challenge = await this.#transport.send<{ message: string }>({ ...options, method: "POST", url: `${url}/auth/challenge`, body: { publicKey } });
    const message = challenge.body.message;
    // A signature over another account's challenge would sign that one's owner in.
    if (message.split("\n")[1] !== publicKey) throw new OwnerMismatchError("message", "the challenge is for another account", "service");
    const signature = toBase58(await wallet.signMessage(utf8(message)));
    const session = await this.#transport.send<Session>({ ...options, method: "POST", url: `${url}/auth/verify`, body: { publicKey, message, signature } });
    return session.body;
  }

  /** @internal */
  core<T>(method: string, path: string, request: Partial<Request> = {}): Promise<Answer<T>> {
    const url = path.startsWith("/") ? this.url + path : path;
    return this.#transport.send<T>({ ...request, method, url, credential: this.#credential });
  }

  /** @internal */
  extension<T>(method: string, path: string, request: Partial<Request> = {}): Promise<Answer<T>> {
    if (!this.extensionUrl) throw new TypeError("grants need extensionUrl");
    return this.#transport.send<T>({ ...request, method, url: this.extensionUrl + path, credential: this.#extensionCredential });
  }

  /** @internal A request to a grant's own URL, which is its credential. */
  grant<T>(method: string, url: string, request: Partial<Request>): Promise<Answer<T>> {
    return this.#transport.send<T>({ ...request, method, url });
  }

  /** @internal */
  checkOnchain(receipt: Receipt, options: CallOptions): Promise<unknown> {
    return checkOnchain(this.rpcUrl!, receipt, { fetch: this.#fetch, signal: options.signal });
  }
}

/** API keys. They need a session. */
export class Keys {
  constructor(private readonly ledger: MemoryLedger) {}

  /**
   * Makes a key; only this answer shows it. Not repeated after a lost answer: it could make two.
   * A key may read and write unless scopes says otherwise, and lives until it is revoked
   * unless expiresAt, a time of RFC 3339, comes first.
   */
  async create(label: string, options: CallOptions & Pick<NewKey, "scopes" | "expiresAt"> = {}): Promise<CreatedKey> {
    const { scopes, expiresAt, ...call } = options;
    return (await this.ledger.core<CreatedKey>("POST", "/keys", { ...call, body: { label, scopes, expiresAt }, repeatable: false })).body;
  }

  async list(options: CallOptions = {}): Promise<Key[]> {
    return (await this.ledger.core<Key[]>("GET", "/keys", options)).body;
  }

  async revoke(id: string, options: CallOptions = {}): Promise<void> {
    await this.ledger.core("DELETE", `/keys/${encodeURIComponent(id)}`, options);
  }
}

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

  /** @internal Checks that a tree is a prefix of another one, by a proof of the service. */
  growth(from: Pick<Head, "size" | "root">, to: Pick<Head, "size" | "root">, options: CallOptions): Promise<void> {
    return checkGrowth(from, to, (m, n) => this.#ask(m, n, options));
  }

  async #ask(from: number, to: number, options: CallOptions): Promise<ConsistencyProof> {
    return (await this.ledger.core<ConsistencyProof>("GET", `/log/consistency?from=${from}&to=${to}`, options)).body;
  }
}

export class Memories {
  readonly #written = new Map<string, Fingerprint>();

  constructor(private readonly ledger: MemoryLedger) {}

  /**
   * Stores a memory. It is stored once, whatever happens to the connection; after an
   * UnavailableError, ConnectionError or TimeoutError it may be stored: call again with
   * the same idempotencyKey.
   */
  async write(content: string, metadata: Record<string, unknown> = {}, options: WriteOptions = {}): Promise<Written> {
    const { idempotencyKey = crypto.randomUUID(), ...call } = options;
    const fingerprint = await digest(content, metadata);
    const { body } = await this.ledger.core<CreatedMemory>("POST", "/memories", { ...call, idempotencyKey, body: { content, metadata } });
    if (this.ledger.verify) {
      if (!isHash(body.leafHash)) throw new MalformedError("leafHash", "it is no hash", "service");
      this.#written.set(body.id, { leafHash: body.leafHash, leafIndex: body.leafIndex, digest: fingerprint });
      if (this.#written.size > remembered) this.#written.delete(this.#written.keys().next().value!);
    }
    return body;
  }

  /**
   * One memory. It is checked against its receipt: text and metadata are those of the
   * leaf, and the leaf is in the owner's log. That takes three requests more.
   */
  async get(id: string, options: CallOptions = {}): Promise<Memory> {
    const { body: memory } = await this.ledger.core<Memory>("GET", pathOf(id), options);
    if (!this.ledger.verify) return memory;
    if (memory.id !== id) throw new WrongMemoryError("id", `it is ${memory.id}, not ${id}`, "service");
    const receipt = await this.receipt(id, options);
    if (memory.leafHash !== receipt.leafHash) throw new LeafMismatchError("leafHash", `it is ${memory.leafHash}, the receipt has ${receipt.leafHash}`, "service");
    if (memory.leafIndex !== receipt.leafIndex) throw new WrongMemoryError("leafIndex", `it is ${memory.leafIndex}, the receipt has ${receipt.leafIndex}`, "service");
    if ((await digest(memory.content, memory.metadata)) !== (await digest(receipt.entry.content, receipt.entry.metadata))) {
      throw new ContentMismatchError("content", "text or metadata are not those of the leaf", "service");
    }
    return memory;
  }

  /**
   * All memories. A list from the oldest to its end is checked: no leaf is left out
   * but retracted ones, and all leaves give a root of the log. (Texts are not: `get` checks one.)
   */
  async *list(options: ListOptions = {}): AsyncGenerator<Memory, void> {
    const { order = "oldest" } = options;
    const head = this.ledger.verify ? await this.ledger.log.head(call(options)) : undefined;
    const log = new RootOfLeaves();
    let previous: number | undefined;
    // Leaves that are not in the list have to be retracted ones.
    let retracted: Map<number, string> | undefined;
    const missing = async (from: number, to: number) => {
      for (let leaf = from; leaf < to; leaf++) {
        retracted ??= await this.#retracted(options);
        const hash = retracted.get(leaf);
        if (hash === undefined || !isHash(hash)) throw new IncompleteListError("leafIndex", `leaf ${leaf} is not in the list, and was not retracted`, "service");
        if (order === "oldest") await log.add(hash);
      }
    };
    for await (const memory of this.#listed(order, options)) {
      if (head) {
        const expected = order === "oldest" ? log.size : previous === undefined ? Math.max(head.treeSize - 1, memory.leafIndex) : previous - 1;
        if (order === "oldest" ? memory.leafIndex < expected : memory.leafIndex > expected) {
          throw new IncompleteListError("leafIndex", `after ${previous ?? "nothing"} comes ${memory.leafIndex}, not ${expected}`, "service");
        }
        if (order === "oldest") await missing(expected, memory.leafIndex);
        else await missing(memory.leafIndex + 1, expected + 1);
        if (!isHash(memory.leafHash)) throw new MalformedError("leafHash", "it is no hash", "service");
        if (order === "oldest") await log.add(memory.leafHash);
        previous = memory.leafIndex;
      }
      yield memory;
    }
    if (!head) return;
    if (order === "newest") {
      await missing(0, previous ?? head.treeSize);
      return;
    }
    await missing(log.size, head.treeSize);
    try {
      await this.ledger.log.growth({ size: head.treeSize, root: head.root }, { size: log.size, root: await log.root() }, call(options));
    } catch (err) {
      if (err instanceof VerificationError) throw new RootMismatchError("leafHash", `the leaves of the list give no root of the log: ${err.message}`, "service");
      throw err;
    }
  }

  /** Takes a memory back: it is in no list, search or case any more, and its leaf stays. It needs a session. */
  async retract(id: string, options: CallOptions = {}): Promise<void> {
    await this.ledger.core("DELETE", pathOf(id), options);
  }

  /** The hashes of the leaves that were retracted, by their index: an export has them, without an entry. */
  async #retracted(options: CallOptions): Promise<Map<number, string>> {
    const read = async (response: Response): Promise<Map<number, string>> => {
      const found = new Map<number, string>();
      let rest = "";
      const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        const lines = (rest + (value ?? "")).split("\n");
        rest = lines.pop()!;
        for (const line of lines) {
          const leaf = JSON.parse(line) as { index?: number; leafHash?: string; entry?: unknown };
          if (leaf.index !== undefined && leaf.leafHash !== undefined && leaf.entry === null) found.set(leaf.index, leaf.leafHash);
        }
        if (done) return found;
      }
    };
    return (await this.ledger.core<Map<number, string>>("GET", "/export", { ...call(options), read })).body;
  }

  async *#listed(order: string, options: ListOptions): AsyncGenerator<Memory> {
    if (options.stream) {
      const read = async (response: Response) => response.body;
      const { body } = await this.ledger.core<ReadableStream<Uint8Array>>("GET", `/memories?order=${order}`, { ...call(options), read });
      yield* streamedObjects(body) as AsyncGenerator<Memory>;
      return;
    }
    let path: string | undefined = `/memories?limit=${options.pageSize ?? 500}&order=${order}`;
    while (path) {
      const page: Answer<Memory[]> = await this.ledger.core<Memory[]>("GET", path, call(options));
      yield* page.body;
      path = nextPage(page.headers.get("Link"));
    }
  }

  /** What a search finds, in its order. A search is not checked: nothing proves that it left nothing out. */
  async *search(query: string, options: SearchOptions = {}): AsyncGenerator<FoundMemory, void> {
    const { signal: _, timeoutMs: __, pageSize = 100, ...search } = options;
    let cursor: string | null = null;
    do {
      const page: Answer<FoundMemory[]> = await this.ledger.core<FoundMemory[]>("POST", "/memories/search", {
        ...call(options), body: { ...search, query, limit: pageSize, ...(cursor !== null && { cursor }) },
      });
      yield* page.body;
      cursor = page.headers.get("Next-Cursor");
    } while (cursor !== null);
  }

  /**
   * A memory's inclusion proof. Its path is checked; before the memory is anchored, its
   * root, too. A receipt says more: it names the tree's size.
   */
  async prove(id: string, options: CallOptions = {}): Promise<InclusionProof> {
    for (let attempt = 1; ; attempt++) {
      const before = this.ledger.verify ? await this.ledger.log.head(options) : undefined;
      const { body } = await this.ledger.core<InclusionProof>("GET", `${pathOf(id)}/proof`, options);
      if (!before) return body;
      const { proof, batchRoot } = body;
      const well = [proof.leaf, batchRoot, ...proof.siblings].every(isHash) && proof.siblings.length === proof.directions.length;
      if (!well) throw new MalformedError("proof", "it has not the form of one", "service");
      const folded = await fold(proof.leaf, proof.siblings, proof.directions);
      if (folded !== batchRoot) {
        if (folded === before.root) throw new RootMismatchError("batchRoot", `it is ${batchRoot}, leaf and siblings fold to ${folded}, which is the log's`, "service");
        throw new InclusionError("siblings", `they fold to ${folded}, batchRoot is ${batchRoot}`, "service");
      }
      this.#checkWritten(id, proof.leaf, proof.leafIndex);
      if (body.txSignature !== null || batchRoot === before.root) return body;
      // The log may have grown between the two answers. Otherwise this is an older root.
      const after = await this.ledger.log.head(options);
      if (batchRoot === after.root) return body;
      if (after.treeSize === before.treeSize || attempt === 3) throw new StaleProofError("batchRoot", `it is ${batchRoot}, the log's root is ${after.root}`, "service");
    }
  }

  /**
   * A memory's receipt, checked by itself, against the log's head, against what this
   * client wrote, and, given rpcUrl, against the chain.
   */
  async receipt(memory: string | Written, options: CallOptions = {}): Promise<Receipt> {
    const { ledger } = this;
    const id = typeof memory === "string" ? memory : memory.id;
    const head = ledger.verify ? await ledger.log.head(options) : undefined;
    const { body } = await ledger.core<Receipt>("GET", `${pathOf(id)}/receipt`, options);
    if (!head) return body;
    await serviceLies(() => this.#checkReceipt(parseReceipt(body), head, options));
    await this.#checkWanted(id, memory, body);
    if (body.anchor && ledger.issuer) await checkIssuer(body, ledger.issuer);
    if (body.anchor && ledger.rpcUrl) await ledger.checkOnchain(body, options);
    return body;
  }

  async #checkReceipt(r: Receipt, head: LogHead, options: CallOptions): Promise<void> {
    if (r.entry.owner !== head.owner) throw new OwnerMismatchError("entry.owner", `it is ${r.entry.owner}, the log is ${head.owner}'s`);
    if (!r.anchor && r.treeSize < head.treeSize) throw new StaleProofError("treeSize", `it is ${r.treeSize}, the log has ${head.treeSize} leaves`);
    if (r.anchor && r.anchor.committedSize < head.anchoredSize) throw new StaleProofError("anchor.committedSize", `it is ${r.anchor.committedSize}, ${head.anchoredSize} leaves are anchored`);
    if (r.treeSize < 1) throw new InclusionError("treeSize", "a tree without leaves has no proof");
    const now = { size: head.treeSize, root: head.root }, then = { size: r.treeSize, root: r.batchRoot };
    try {
      await (then.size <= now.size ? this.ledger.log.growth(then, now, options) : this.ledger.log.growth(now, then, options));
    } catch (err) {
      if (!(err instanceof VerificationError)) throw err;
      await verifyReceipt(r); // says more, where the receipt is bad by itself
      throw new RootMismatchError("batchRoot", `the log of ${r.treeSize} leaves has another root: ${err.message}`);
    }
    await verifyReceipt(r);
  }

  async #checkWanted(id: string, memory: string | Written, r: Receipt): Promise<void> {
    const known = this.#checkWritten(id, r.leafHash, r.leafIndex);
    if (typeof memory !== "string" && (memory.leafHash !== r.leafHash || memory.leafIndex !== r.leafIndex)) {
      throw new WrongMemoryError("leafIndex", `it is ${r.leafIndex}, the memory is leaf ${memory.leafIndex}`, "service");
    }
    if (known && known.digest !== (await digest(r.entry.content, r.entry.metadata))) {
      throw new ContentMismatchError("entry", "text or metadata are not those that were written", "service");
    }
  }

  #checkWritten(id: string, leafHash: string, leafIndex: number): Fingerprint | undefined {
    const known = this.#written.get(id);
    if (known && known.leafIndex !== leafIndex) throw new WrongMemoryError("leafIndex", `it is ${leafIndex}, the memory was written as leaf ${known.leafIndex}`, "service");
    if (known && known.leafHash !== leafHash) throw new LeafMismatchError("leafHash", `it is ${leafHash}, the memory was written as ${known.leafHash}`, "service");
    return known;
  }
}

/** One-time links. They need a session of the extension API. */
export class Grants {
  constructor(private readonly ledger: MemoryLedger) {}

  /** A link that adds memories. It revokes the owner's other one. */
  async createDrop(body: NewDrop = {}, options: CallOptions = {}): Promise<Drop> {
    return (await this.ledger.extension<Drop>("POST", "/memory-drops", { ...options, body })).body;
  }

  async dropStatus(id: string, options: CallOptions = {}): Promise<DropStatus> {
    return (await this.ledger.extension<DropStatus>("GET", `/memory-drops/${encodeURIComponent(id)}/status`, options)).body;
  }

  async revokeDrop(id: string, options: CallOptions = {}): Promise<Revoked> {
    return (await this.ledger.extension<Revoked>("POST", `/memory-drops/${encodeURIComponent(id)}/revoke`, options)).body;
  }

  /** Leaves a memory by a drop's URL. Needs no session. */
  async fillDrop(url: string, body: DroppedMemory, options: WriteOptions = {}): Promise<FilledDrop> {
    const { idempotencyKey = crypto.randomUUID(), ...rest } = options;
    return (await this.ledger.grant<FilledDrop>("POST", url, { ...rest, idempotencyKey, body })).body;
  }

  /** A link that reads all memories. It revokes the owner's other one. */
  async createCase(body: NewCase = {}, options: CallOptions = {}): Promise<Case> {
    return (await this.ledger.extension<Case>("POST", "/agent-cases", { ...options, body })).body;
  }

  async caseStatus(id: string, options: CallOptions = {}): Promise<CaseStatus> {
    return (await this.ledger.extension<CaseStatus>("GET", `/agent-cases/${encodeURIComponent(id)}/status`, options)).body;
  }

  async revokeCase(id: string, options: CallOptions = {}): Promise<Revoked> {
    return (await this.ledger.extension<Revoked>("POST", `/agent-cases/${encodeURIComponent(id)}/revoke`, options)).body;
  }

  /** Reads a case by its URL, as markdown. Spends a read, so a lost answer is not asked for again. */
  async readCase(url: string, options: CallOptions = {}): Promise<string> {
    return (await this.ledger.grant<string>("GET", url, { ...options, repeatable: false, read: (response) => response.text() })).body;
  }
}

const pathOf = (id: string): string => `/memories/${encodeURIComponent(id)}`;

function call({ signal, timeoutMs }: CallOptions): CallOptions {
  return { ...(signal && { signal }), ...(timeoutMs !== undefined && { timeoutMs }) };
}

/** The path of the page that a Link header names. Only the query is taken: the rest may be another host's. */
function nextPage(link: string | null): string | undefined {
  const url = /<([^>]*)>\s*;\s*rel="?next"?/.exec(link ?? "")?.[1];
  return url === undefined ? undefined : `/memories${new URL(url, "http://any").search}`;
}

/** A bad receipt that came just now is the service's. */
async function serviceLies(check: () => Promise<void>): Promise<void> {
  try {
    await check();
  } catch (err) {
    if (!(err instanceof VerificationError) || err.liar === "service") throw err;
    throw new (err.constructor as typeof VerificationError)(err.field, err.problem, "service");
  }
}
