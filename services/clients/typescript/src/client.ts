import { isHash, sha256, toBase58, toHex, utf8 } from "./bytes.js";
import { canonicalize } from "./canonical.js";
import { checkIssuer, checkOnchain, type Anchored, type Issuer } from "./chain.js";
import { checkChallenge, type Purpose } from "./challenge.js";
import { completeReceipt } from "./complete.js";
import {
  AnchorError, CantCompleteError, ContentMismatchError, IncompleteListError, InclusionError, LeafMismatchError, MalformedError, OwnerMismatchError,
  RootMismatchError, serviceLied, StaleProofError, VerificationError, WrongMemoryError,
} from "./errors.js";
import { Feed } from "./feed.js";
import { Grants } from "./grants.js";
import { Heads, type HeadStore } from "./heads.js";
import { callOptions, Transport, streamedObjects, type Answer, type CallOptions, type Request } from "./http.js";
import { Log } from "./log.js";
import { Sessions } from "./sessions.js";
import { Staking } from "./staking.js";
import { directionsOf, fold, RootOfLeaves } from "./merkle.js";
import { done, isCount, isObject, isText, parseReceipt, verifyReceipt } from "./receipt.js";
import type {
  CreatedKey, CreatedMemory, FoundMemory, InclusionProof, Key, LogHead, Memory, NewKey, NewMemory, Receipt, SearchRequest, Session,
} from "./schema/core.js";
import type { StakingProgram } from "./transaction.js";
import type { Wallet } from "./wallet.js";

export interface Options {
  /** The core API. */
  url: string;
  /** The extension API, for grants. */
  extensionUrl?: string | undefined;
  /**
   * The service's own addresses, CORE_URL and EXTENSION_URL, where `url` and `extensionUrl`
   * are other ones, such as inner addresses. The text that a wallet signs must name them.
   */
  publicUrl?: string | undefined;
  extensionPublicUrl?: string | undefined;
  /** A credential of the core API. `signIn` sets a session. */
  apiKey?: string | undefined;
  session?: string | undefined;
  /** A session of the extension API. `signIn` sets it where extensionUrl is given. */
  extensionSession?: string | undefined;
  /** The owner of the credential. If unset, the client takes the owner of the first log head or event that it gets. */
  owner?: string | undefined;
  /** Whether to check the service's answers. True by default. */
  verify?: boolean | undefined;
  /** A Solana node. With it, receipts are checked against the chain. */
  rpcUrl?: string | undefined;
  /** The issuer that must have anchored receipts. Get it from the operator by a channel other than the service. */
  issuer?: Issuer | undefined;
  /**
   * The namespaces that the API key is limited to. Other leaves are then missing from `list`
   * lawfully, so it checks only order, namespaces and what this client wrote. Without this, a
   * memory that an API key writes without a namespace may be stored in any.
   */
  namespaces?: readonly string[] | undefined;
  /** The program and the mint of staking. Get them from the operator by a channel other than the service. */
  stakingProgram?: StakingProgram | undefined;
  /** Where heads are kept. By default they are in memory and are lost when the process ends. */
  heads?: HeadStore | undefined;
  fetch?: typeof fetch | undefined;
  /** How long each attempt of a call may take; 30 s by default. Infinity means as long as it takes. */
  timeoutMs?: number | undefined;
  /** Attempts after the first; 3 by default. */
  retries?: number | undefined;
  /** The wait before the second attempt; it doubles for each further attempt. 1 s by default. */
  backoffMs?: number | undefined;
}

export interface WriteOptions extends CallOptions {
  /** If unset, the client makes one. All attempts of a call use the same key. */
  idempotencyKey?: string | undefined;
}

export interface ListOptions extends CallOptions {
  order?: "oldest" | "newest" | undefined;
  /** How many memories a page has, 1 to 1000; 500 by default. */
  pageSize?: number | undefined;
  /** Request the whole list as one streamed answer. A stream that breaks off can't be resumed. */
  stream?: boolean | undefined;
}

export type SearchOptions = CallOptions & Omit<SearchRequest, "query" | "cursor" | "limit"> & { pageSize?: number };
export type SearchPageOptions = CallOptions & Omit<SearchRequest, "query">;
export interface FoundPage { memories: FoundMemory[]; next: string | undefined }

/** The service's answer to a write, unchanged. Pass it to `receipt`. */
export type Written = CreatedMemory;

/** How many writes the client remembers, to check their receipts. */
const remembered = 1000;

const digest = async (content: string, metadata: unknown): Promise<string> => toHex(await sha256(utf8(canonicalize(asSent({ content, metadata }), 0))));

/** Returns the digest of what the service shows, or nothing if no leaf can hold it. */
const digestShown = (content: string, metadata: unknown): Promise<string | undefined> => digest(content, metadata).catch(() => undefined);

const created = { id: isText, leafHash: isHash, leafIndex: isCount };
const found = { id: isText, content: isText, metadata: isObject, createdAt: isText };

/** Returns a value as a request sends it: a Date, for example, as a string. Refuses what JSON would leave out or change. */
const asSent = (value: unknown): unknown => JSON.parse(JSON.stringify(value, (_, part: unknown) => {
  if (typeof part !== "object") canonicalize(part);
  return part;
}));

const withoutSlash = (url: string): string => url.replace(/\/+$/, "");

interface Expected {
  digest: string;
  /** Leaf hashes of superseded memories that this client knows, and how many it does not know. */
  supersedes: string[];
  unknown: number;
  /** A key that is limited to a namespace adds it, and the client can't know. */
  anyNamespace: boolean;
}

interface Fingerprint extends Expected { leafHash: string; leafIndex: number }

/** Trims as the service does: JavaScript's own trim removes U+FEFF, too, and keeps U+0085. */
const trimmed = (text: string): string => text.replace(/^\p{White_Space}+|\p{White_Space}+$/gu, "");

/** A client of Memory Ledger that checks the service's answers. */
export class MemoryLedger {
  readonly keys = new Keys(this);
  readonly memories = new Memories(this);
  readonly log = new Log(this);
  readonly events = new Feed(this);
  readonly grants = new Grants(this);
  readonly sessions = new Sessions(this);
  readonly staking = new Staking(this);

  readonly url: string;
  readonly extensionUrl: string | undefined;
  readonly publicUrl: string;
  readonly #extensionPublicUrl: string | undefined;
  readonly verify: boolean;
  readonly rpcUrl: string | undefined;
  readonly issuer: Issuer | undefined;
  readonly namespaces: readonly string[] | undefined;
  readonly stakingProgram: StakingProgram | undefined;
  readonly heads: Heads;
  /** The owner of the log, once known. */
  owner: string | undefined;
  readonly #fetch: typeof fetch;
  readonly #timeoutMs: number;
  readonly #transport: Transport;
  #credential: string | undefined;
  #extensionCredential: string | undefined;

  constructor(options: Options) {
    this.url = withoutSlash(options.url);
    this.extensionUrl = options.extensionUrl && withoutSlash(options.extensionUrl);
    this.publicUrl = withoutSlash(options.publicUrl ?? options.url);
    this.#extensionPublicUrl = options.extensionPublicUrl && withoutSlash(options.extensionPublicUrl);
    this.verify = options.verify ?? true;
    this.rpcUrl = options.rpcUrl;
    this.issuer = options.issuer;
    this.namespaces = options.namespaces;
    this.stakingProgram = options.stakingProgram;
    this.owner = options.owner;
    this.heads = new Heads(options.heads);
    this.#credential = options.apiKey ?? options.session;
    this.#extensionCredential = options.extensionSession;
    // In a browser, fetch must be called as a method of the window.
    this.#fetch = options.fetch ?? ((...args) => fetch(...args));
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    if (!(this.#timeoutMs > 0)) throw new TypeError("timeoutMs must be more than 0");
    const apis = [{ url: this.url, setting: "CORE_ALLOWED_ORIGINS" }];
    if (this.extensionUrl) apis.push({ url: this.extensionUrl, setting: "EXTENSION_ALLOWED_ORIGINS" });
    this.#transport = new Transport({
      fetch: this.#fetch, apis, timeoutMs: this.#timeoutMs, retries: options.retries ?? 3, backoffMs: options.backoffMs ?? 1000,
    });
  }

  /**
   * Signs in to the core API, and to the extension API where its URL is given. The wallet
   * signs only the text that the service at these URLs has for this. For any other text the
   * call throws a ChallengeError.
   */
  async signIn(wallet: Wallet, options: CallOptions = {}): Promise<Session> {
    if (this.owner !== undefined && this.owner !== wallet.publicKey) throw new TypeError(`this client is ${this.owner}'s`);
    const session = await this.#signInTo(this.url, this.publicUrl, wallet, options);
    if (this.extensionUrl) this.#extensionCredential = (await this.#signInTo(this.extensionUrl, this.#extensionPublicUrl ?? this.extensionUrl, wallet, options)).token;
    this.#credential = session.token;
    this.owner = wallet.publicKey;
    return session;
  }

  async #signInTo(url: string, site: string, wallet: Wallet, options: CallOptions): Promise<Session> {
    const body = await this.#sign(url, site, wallet, "sign-in", options);
    return (await this.#transport.send<Session>({ ...options, method: "POST", url: `${url}/auth/verify`, body, signed: true, says: { token: isText } })).body;
  }

  /**
   * Destroys the owner's data key. The owner's texts can no longer be read, and all
   * sessions, keys and grants end. Proofs stay. The wallet signs a challenge that says so.
   */
  async erase(wallet: Wallet, options: CallOptions = {}): Promise<void> {
    const body = await this.#sign(this.url, this.publicUrl, wallet, "erase", options);
    await this.#transport.send({ ...options, method: "POST", url: `${this.url}/erasure`, body, signed: true, says: { erased: isCount } });
  }

  /** Has a wallet sign a fresh challenge of the API at `url`, whose public base URL is `site`. */
  async #sign(url: string, site: string, wallet: Wallet, purpose: Purpose, options: CallOptions): Promise<object> {
    const publicKey = wallet.publicKey;
    const challenge = await this.#transport.send<{ message: string }>({ ...options, method: "POST", url: `${url}/auth/challenge`, body: { publicKey, purpose } });
    const message = challenge.body.message;
    checkChallenge(message, site, purpose, publicKey);
    return { publicKey, message, signature: toBase58(await wallet.signMessage(utf8(message))) };
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

  /** @internal Sends a request to a grant's own URL. The URL is the credential. */
  grant<T>(method: string, url: string, request: Partial<Request>): Promise<Answer<T>> {
    return this.#transport.send<T>({ ...request, method, url });
  }

  /** @internal Whether the credential may be limited to a namespace that this client does not know. */
  get mayBeLimited(): boolean {
    return this.namespaces === undefined && this.#credential?.startsWith("svc_") === true;
  }

  /** @internal */
  timeoutMs(options: CallOptions): number {
    return options.timeoutMs ?? this.#timeoutMs;
  }

  /** @internal Checks an anchor against the issuer and the chain, if they are configured. */
  async checkAnchor(receipt: Anchored, options: CallOptions): Promise<void> {
    if (this.issuer) await checkIssuer(receipt, this.issuer);
    if (this.rpcUrl) await checkOnchain(this.rpcUrl, receipt, { fetch: this.#fetch, signal: options.signal });
  }
}

/** API keys. The calls need a session. */
export class Keys {
  constructor(private readonly ledger: MemoryLedger) {}

  /**
   * Makes a key. Only this answer shows it. The call is not retried after a lost answer,
   * because a retry could make a second key. A key may read and write unless `scopes` says
   * otherwise. It lives until it is revoked, or until `expiresAt`, an RFC 3339 time. With
   * `namespaces` it sees and writes no others.
   */
  async create(label: string, options: CallOptions & Pick<NewKey, "scopes" | "expiresAt" | "namespaces"> = {}): Promise<CreatedKey> {
    const { scopes, expiresAt, namespaces, ...call } = options;
    return (await this.ledger.core<CreatedKey>("POST", "/keys", { ...call, body: { label, scopes, expiresAt, namespaces }, repeatable: false, says: { id: isText, key: isText } })).body;
  }

  async list(options: CallOptions = {}): Promise<Key[]> {
    return (await this.ledger.core<Key[]>("GET", "/keys", { ...options, lists: { id: isText } })).body;
  }

  async revoke(id: string, options: CallOptions = {}): Promise<void> {
    await this.ledger.core("DELETE", `/keys/${encodeURIComponent(id)}`, { ...options, says: done });
  }
}

export class Memories {
  readonly #written = new Map<string, Fingerprint>();

  constructor(private readonly ledger: MemoryLedger) {}

  /** Stores a text with its metadata. `store` has more members. */
  write(content: string, metadata: Record<string, unknown> = {}, options: WriteOptions = {}): Promise<Written> {
    return this.store({ content, metadata }, options);
  }

  /**
   * Stores a memory. Retries never store it twice, whatever happens to the connection. After
   * an UnavailableError, ConnectionError or TimeoutError, the memory may be stored or not:
   * call again with the same idempotencyKey. Members beside the text become metadata of the
   * same name, `supersedes` as leaf hashes, so the receipt proves them.
   */
  async store(memory: NewMemory, options: WriteOptions = {}): Promise<Written> {
    const { idempotencyKey = crypto.randomUUID(), ...call } = options;
    const expected = await this.#expect(memory);
    const { body } = await this.ledger.core<CreatedMemory>("POST", "/memories", { ...call, idempotencyKey, body: memory, says: created });
    this.#remember(body, expected);
    return body;
  }

  /**
   * Stores 1 to 256 memories at once, all or none, as consecutive leaves of the log. Use it
   * to import many memories. Call it again after a failure as you would a `write`.
   */
  async writeBatch(memories: readonly NewMemory[], options: WriteOptions = {}): Promise<Written[]> {
    const { idempotencyKey = crypto.randomUUID(), ...call } = options;
    const fingerprints = await Promise.all(memories.map((memory) => this.#expect(memory)));
    const { body } = await this.ledger.core<CreatedMemory[]>("POST", "/memories/batch", { ...call, idempotencyKey, body: { memories }, lists: created });
    if (this.ledger.verify) {
      if (body.length !== memories.length) throw new IncompleteListError("length", `${body.length} answers to ${memories.length} memories`, "service");
      const at = body.findIndex((written, n) => written.leafIndex !== body[0]!.leafIndex + n);
      if (at > 0) throw new IncompleteListError("leafIndex", `memory ${at} is leaf ${body[at]!.leafIndex}, the first is ${body[0]!.leafIndex}`, "service");
    }
    body.forEach((written, n) => this.#remember(written, fingerprints[n]!));
    return body;
  }

  /** Returns what the entry of a memory must be. */
  async #expect({ content, metadata = {}, source, occurredAt, tags, namespace, supersedes = [] }: NewMemory): Promise<Expected> {
    const members: Record<string, unknown> = { ...metadata };
    if (source !== undefined) members["source"] = trimmed(source);
    for (const [name, value] of Object.entries({ occurredAt, tags, namespace })) if (value !== undefined) members[name] = value;
    const { namespaces, mayBeLimited } = this.ledger, anyNamespace = mayBeLimited && !("namespace" in members);
    if (namespaces?.length === 1 && !("namespace" in members)) members["namespace"] = namespaces[0];
    if (supersedes.length > 0) delete members["supersedes"];
    const ids = [...new Set(supersedes)], known = ids.map((id) => this.#written.get(id)?.leafHash).filter((hash) => hash !== undefined);
    return { digest: await digest(content, members), supersedes: [...new Set(known)], unknown: ids.length - known.length, anyNamespace };
  }

  /** Checks a text and its metadata against what this client wrote. */
  async #checkEntry(known: Expected, content: string, metadata: Record<string, unknown>): Promise<void> {
    const shown = { ...metadata }, most = known.supersedes.length + known.unknown;
    if (most > 0) {
      const hashes: unknown = shown["supersedes"];
      const right = Array.isArray(hashes) && hashes.every(isHash) && hashes.length > 0 && hashes.length <= most && new Set(hashes).size === hashes.length && known.supersedes.every((hash) => hashes.includes(hash));
      if (!right) throw new ContentMismatchError("metadata.supersedes", "it has not the leaves of the memories that were superseded", "service");
      delete shown["supersedes"];
    }
    if (known.anyNamespace && typeof shown["namespace"] === "string") delete shown["namespace"];
    if (known.digest !== (await digestShown(content, shown))) {
      throw new ContentMismatchError("entry", "text or metadata are not those that were written", "service");
    }
  }

  #remember(written: CreatedMemory, expected: Expected): void {
    if (!this.ledger.verify) return;
    this.#written.set(written.id, { leafHash: written.leafHash, leafIndex: written.leafIndex, ...expected });
    if (this.#written.size > remembered) this.#written.delete(this.#written.keys().next().value!);
  }

  /**
   * Returns one memory, checked against its receipt: its text and metadata are those of the
   * leaf, and the leaf is in the owner's log. The check takes three to five more requests.
   */
  async get(id: string, options: CallOptions = {}): Promise<Memory> {
    const { body: memory } = await this.ledger.core<Memory>("GET", pathOf(id), options);
    if (!this.ledger.verify) return memory;
    if (memory.id !== id && memory.imported?.id !== id) throw new WrongMemoryError("id", `it is ${memory.id}, not ${id}`, "service");
    const receipt = await this.receipt(id, options);
    if (memory.leafHash !== receipt.leafHash) throw new LeafMismatchError("leafHash", `it is ${memory.leafHash}, the receipt has ${receipt.leafHash}`, "service");
    if (memory.leafIndex !== receipt.leafIndex) throw new WrongMemoryError("leafIndex", `it is ${memory.leafIndex}, the receipt has ${receipt.leafIndex}`, "service");
    if ((await digestShown(memory.content, memory.metadata)) !== (await digest(receipt.entry.content, receipt.entry.metadata))) {
      throw new ContentMismatchError("content", "text or metadata are not those of the leaf", "service");
    }
    return memory;
  }

  /**
   * Yields all memories. A list that is read to its end is checked: only retracted leaves are
   * missing, and, if the order is from the oldest, the leaves give a root of the log. Texts
   * are not checked: `get` checks one. For a key that is limited to namespaces, see
   * `namespaces` of the options; without it the call throws a ForbiddenError.
   */
  async *list(options: ListOptions = {}): AsyncGenerator<Memory, void> {
    const { order = "oldest" } = options;
    if (this.ledger.verify && this.ledger.namespaces) return yield* this.#limitedList(this.ledger.namespaces, order, options);
    const head = this.ledger.verify ? await this.ledger.log.head(callOptions(options)) : undefined;
    const log = new RootOfLeaves();
    let previous: number | undefined;
    // A leaf that is not in the list must be a retracted one.
    let retracted = new Map<number, string>();
    const missing = async (from: number, to: number) => {
      for (let leaf = from; leaf < to; leaf++) {
        if (!retracted.has(leaf)) retracted = await this.#retracted(options); // it may have been retracted since the last export
        const hash = retracted.get(leaf);
        if (hash === undefined) throw new IncompleteListError("leafIndex", `leaf ${leaf} is not in the list, and was not retracted`, "service");
        if (order === "oldest") await log.add(hash);
      }
    };
    for await (const memory of this.#listed(order, options)) {
      if (head) {
        if (!isCount(memory.leafIndex)) throw new MalformedError("leafIndex", "it is no index", "service");
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
    // If the log grew, remember a head that extends the list. Otherwise the service could
    // show a fork to this call only.
    const now = log.size > head.treeSize ? await this.ledger.log.head(callOptions(options)) : head;
    try {
      await this.ledger.log.growth({ size: log.size, root: await log.root() }, { size: now.treeSize, root: now.root }, callOptions(options));
    } catch (err) {
      if (err instanceof VerificationError) throw new RootMismatchError("leafHash", `the leaves of the list give no root of the log: ${err.message}`, "service");
      throw err;
    }
  }

  /** Lists what a key sees that is limited to namespaces. */
  async *#limitedList(namespaces: readonly string[], order: string, options: ListOptions): AsyncGenerator<Memory, void> {
    let previous = order === "oldest" ? -1 : Infinity;
    for await (const memory of this.#listed(order, options)) {
      const { id, leafHash, leafIndex, content, metadata, damaged } = memory;
      if (!isCount(leafIndex)) throw new MalformedError("leafIndex", "it is no index", "service");
      if (order === "oldest" ? leafIndex <= previous : leafIndex >= previous) throw new IncompleteListError("leafIndex", `after ${previous} comes ${leafIndex}`, "service");
      previous = leafIndex;
      const known = this.#checkWritten(id, leafHash, leafIndex);
      if (!damaged) {
        if (!namespaces.includes(metadata?.["namespace"] as string)) throw new WrongMemoryError("metadata.namespace", "the key is not for it", "service");
        if (known) await this.#checkEntry(known, content, metadata);
      }
      yield memory;
    }
  }

  /**
   * Returns the memories of `limit` leaves, starting with leaf `from`, oldest first. Retracted
   * memories are left out. A page is not checked: `list` checks that nothing is missing.
   */
  async page(from: number, limit: number, options: CallOptions = {}): Promise<Memory[]> {
    return (await this.ledger.core<Memory[]>("GET", `/memories?cursor=${from}&limit=${limit}`, { ...options, lists: {} })).body;
  }

  /**
   * Retracts a memory: lists, searches and cases no longer contain it. Its leaf stays. The
   * call needs a session, or a key with the scope `retract`.
   */
  async retract(id: string, options: CallOptions = {}): Promise<void> {
    await this.ledger.core("DELETE", pathOf(id), { ...options, says: done });
  }

  /**
   * Makes the text of a memory unreadable for good, at once and everywhere. Its leaf, proof,
   * times and metadata stay. The call needs a session.
   */
  async forget(id: string, options: CallOptions = {}): Promise<void> {
    await this.ledger.core("POST", `${pathOf(id)}/forget`, { ...options, says: done });
  }

  /** Returns the hashes of retracted leaves by index. An export lists these leaves without an entry. */
  async #retracted(options: CallOptions): Promise<Map<number, string>> {
    const found = new Map<number, string>();
    for await (const leaf of this.ledger.log.export(callOptions(options))) if (leaf.entry === null) found.set(leaf.index, leaf.leafHash);
    return found;
  }

  async *#listed(order: string, options: ListOptions): AsyncGenerator<Memory> {
    if (options.stream) {
      const idleMs = this.ledger.timeoutMs(options);
      const { body } = await this.ledger.core<AsyncIterable<Uint8Array>>("GET", `/memories?order=${order}`, { ...callOptions(options), idleMs });
      yield* streamedObjects(body) as AsyncGenerator<Memory>;
      return;
    }
    let path: string | undefined = `/memories?limit=${options.pageSize ?? 500}&order=${order}`;
    while (path) {
      const page: Answer<Memory[]> = await this.ledger.core<Memory[]>("GET", path, { ...callOptions(options), lists: {} });
      yield* page.body;
      path = nextPage(page.headers.get("Link"));
    }
  }

  /**
   * Yields the results of a search, in its order, to the last page. `mode: "ranked"` takes a
   * question in words. Results are not checked: no proof shows that a search is complete.
   */
  async *search(query: string, options: SearchOptions = {}): AsyncGenerator<FoundMemory, void> {
    const { pageSize: limit = 100, ...rest } = options;
    let cursor: string | undefined;
    do {
      const page: FoundPage = await this.searchPage(query, { ...rest, limit, ...(cursor !== undefined && { cursor }) });
      yield* page.memories;
      cursor = page.next;
    } while (cursor !== undefined);
  }

  /** Returns one page of search results, for callers who page themselves. `next` is the `cursor` of the next page. */
  async searchPage(query: string, options: SearchPageOptions = {}): Promise<FoundPage> {
    const { signal: _, timeoutMs: __, ...search } = options;
    const { body, headers } = await this.ledger.core<FoundMemory[]>("POST", "/memories/search", { ...callOptions(options), body: { ...search, query }, lists: found });
    return { memories: body, next: headers.get("Next-Cursor") ?? undefined };
  }

  /**
   * Returns a memory's inclusion proof. Its path and its root are checked against the log's
   * head. A receipt says more: the text, and the anchor.
   */
  async prove(id: string, options: CallOptions = {}): Promise<InclusionProof> {
    const { log } = this.ledger;
    const before = this.ledger.verify ? await log.head(options) : undefined;
    const { body } = await this.ledger.core<InclusionProof>("GET", `${pathOf(id)}/proof`, options);
    if (!before) return body;
    await this.#checkPath(body, before);
    this.#checkWritten(id, body.proof.leaf, body.proof.leafIndex);
    const { batchRoot: root, treeSize: size } = body;
    // The log may have grown between the two answers.
    const head = size > before.treeSize ? await log.head(options) : before;
    try {
      await log.growth({ size, root }, { size: head.treeSize, root: head.root }, options);
    } catch (err) {
      if (!(err instanceof VerificationError)) throw err;
      throw new RootMismatchError("batchRoot", `the log of ${size} leaves has another root: ${err.message}`, "service");
    }
    return body;
  }

  /** Checks that a proof's path leads to its root. `head` is the log's head from before the request. */
  async #checkPath({ proof, batchRoot, treeSize, txSignature }: InclusionProof, head: LogHead): Promise<void> {
    const refuse = (kind: typeof VerificationError, field: string, problem: string): never => {
      throw new kind(field, problem, "service");
    };
    const { leaf, leafIndex, siblings, directions } = proof ?? {};
    const well = [leaf, batchRoot].concat(siblings).every(isHash) && siblings.length === directions?.length && isCount(leafIndex) && isCount(treeSize) &&
      directions.every((right: unknown) => typeof right === "boolean") && (txSignature === null || isText(txSignature));
    if (!well) refuse(MalformedError, "proof", "it has not the form of one");
    if (leafIndex >= treeSize) refuse(InclusionError, "leafIndex", `${leafIndex} is outside a tree of treeSize ${treeSize}`);
    const folded = await fold(leaf, siblings, directions);
    if (folded !== batchRoot && folded === head.root) refuse(RootMismatchError, "batchRoot", `it is ${batchRoot}, leaf and siblings fold to ${folded}, which is the log's`);
    if (folded !== batchRoot) refuse(InclusionError, "siblings", `they fold to ${folded}, batchRoot is ${batchRoot}`);
    if (String(directions) !== String(directionsOf(leafIndex, treeSize))) refuse(InclusionError, "directions", `leafIndex ${leafIndex} in treeSize ${treeSize} takes others`);
    if (txSignature !== null) return;
    if (leafIndex < head.anchoredSize) refuse(StaleProofError, "txSignature", `it is null, ${head.anchoredSize} leaves are anchored`);
    if (treeSize < head.treeSize) refuse(StaleProofError, "treeSize", `it is ${treeSize}, the log has ${head.treeSize} leaves`);
  }

  /**
   * Returns a memory's receipt. It is checked by itself, against the log's head, against
   * this client's writes, and, if rpcUrl is set, against the chain.
   */
  async receipt(memory: string | Written, options: CallOptions = {}): Promise<Receipt> {
    const { ledger } = this;
    const id = typeof memory === "string" ? memory : memory.id;
    const head = ledger.verify ? await ledger.log.head(options) : undefined;
    const { body } = await ledger.core<Receipt>("GET", `${pathOf(id)}/receipt`, options);
    if (!head) return body;
    await serviceLies(() => this.#checkReceipt(parseReceipt(body), head, options));
    await this.#checkWanted(id, memory, body);
    if (body.anchor) await serviceLies(() => ledger.checkAnchor(body, options));
    return body;
  }

  /**
   * Returns a receipt of the same memory with its anchor, for one that was saved before it, or
   * that another than the client's issuer anchored, before the owner moved. Also checks that the
   * log still contains the receipt's tree. Throws a NotAnchoredError while the memory is not
   * anchored.
   */
  async complete(saved: Receipt, options: CallOptions = {}): Promise<Receipt> {
    const r = await verifyReceipt(saved), { issuer } = this.ledger;
    if (r.anchor && (!issuer || (await checkIssuer(r, issuer).then(() => true, () => false)))) return r;
    const memory = (await this.page(r.leafIndex, 1, options)).find(({ leafIndex }) => leafIndex === r.leafIndex);
    if (!memory) throw new CantCompleteError(`leaf ${r.leafIndex} is not in the list: it was retracted`);
    if (!isText(memory.id)) throw new MalformedError("id", "it is no text", "service");
    const later = await this.receipt(memory.id, options), head = await this.ledger.log.head(options);
    await this.ledger.log.growth({ size: r.treeSize, root: r.batchRoot }, { size: head.treeSize, root: head.root }, options);
    return completeReceipt(r, later);
  }

  async #checkReceipt(r: Receipt, head: LogHead, options: CallOptions): Promise<void> {
    if (r.entry.owner !== head.owner) throw new OwnerMismatchError("entry.owner", `it is ${r.entry.owner}, the log is ${head.owner}'s`);
    if (!r.anchor && r.leafIndex < head.anchoredSize) throw new StaleProofError("anchor", `it is null, ${head.anchoredSize} leaves are anchored`);
    if (!r.anchor && r.treeSize < head.treeSize) throw new StaleProofError("treeSize", `it is ${r.treeSize}, the log has ${head.treeSize} leaves`);
    if (r.anchor && r.anchor.committedSize < head.anchoredSize) throw new StaleProofError("anchor.committedSize", `it is ${r.anchor.committedSize}, ${head.anchoredSize} leaves are anchored`);
    if (r.treeSize < 1) throw new InclusionError("treeSize", "a tree without leaves has no proof");
    // If the log grew, remember a head that extends the receipt's trees. Otherwise the log
    // could go on without the leaf.
    if (Math.max(r.treeSize, r.anchor?.committedSize ?? 0) > head.treeSize) head = await this.ledger.log.head(options);
    const now = { size: head.treeSize, root: head.root };
    try {
      await this.ledger.log.growth({ size: r.treeSize, root: r.batchRoot }, now, options);
    } catch (err) {
      if (!(err instanceof VerificationError)) throw err;
      await verifyReceipt(r); // throws a more exact error if the receipt itself is bad
      throw new RootMismatchError("batchRoot", `the log of ${r.treeSize} leaves has another root: ${err.message}`);
    }
    await verifyReceipt(r);
    const a = r.anchor;
    if (!a || (a.committedSize === head.anchoredSize && a.committedRoot === head.anchoredRoot)) return;
    // The receipt's tree may be a prefix of a committed log that is not this one.
    try {
      await this.ledger.log.growth({ size: a.committedSize, root: a.committedRoot }, now, options);
    } catch (err) {
      if (!(err instanceof VerificationError)) throw err;
      throw new AnchorError("anchor.committedRoot", `the log does not extend the committed one: ${err.message}`);
    }
  }

  async #checkWanted(id: string, memory: string | Written, r: Receipt): Promise<void> {
    const known = this.#checkWritten(id, r.leafHash, r.leafIndex);
    if (typeof memory !== "string" && (memory.leafHash !== r.leafHash || memory.leafIndex !== r.leafIndex)) {
      throw new WrongMemoryError("leafIndex", `it is ${r.leafIndex}, the memory is leaf ${memory.leafIndex}`, "service");
    }
    if (known) await this.#checkEntry(known, r.entry.content, r.entry.metadata);
  }

  #checkWritten(id: string, leafHash: string, leafIndex: number): Fingerprint | undefined {
    const known = this.#written.get(id);
    if (known && known.leafIndex !== leafIndex) throw new WrongMemoryError("leafIndex", `it is ${leafIndex}, the memory was written as leaf ${known.leafIndex}`, "service");
    if (known && known.leafHash !== leafHash) throw new LeafMismatchError("leafHash", `it is ${leafHash}, the memory was written as ${known.leafHash}`, "service");
    return known;
  }
}

const pathOf = (id: string): string => `/memories/${encodeURIComponent(id)}`;

/** Returns the path of the next page that a Link header names. Only the query is used: the URL may name another host. */
function nextPage(link: string | null): string | undefined {
  const url = /<([^>]*)>\s*;\s*rel="?next"?/.exec(link ?? "")?.[1];
  return url === undefined ? undefined : `/memories${/\?[^#]*/.exec(url)?.[0] ?? ""}`;
}

/** Runs a check of a fresh answer, and blames the service if it fails. */
async function serviceLies(check: () => Promise<void>): Promise<void> {
  try {
    await check();
  } catch (err) {
    throw serviceLied(err);
  }
}
