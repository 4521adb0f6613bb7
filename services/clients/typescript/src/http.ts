import { apiError, ConnectionError, CorsError, MalformedError, RateLimitedError, TimeoutError } from "./errors.js";
import type { Check } from "./receipt.js";

export interface CallOptions {
  signal?: AbortSignal | undefined;
  /** How long each attempt may take. Infinity means as long as it takes. */
  timeoutMs?: number | undefined;
}

/** Picks the call options out of a method's options. */
export function callOptions({ signal, timeoutMs }: CallOptions): CallOptions {
  return { ...(signal && { signal }), ...(timeoutMs !== undefined && { timeoutMs }) };
}

export interface TransportOptions {
  fetch: typeof fetch;
  /** Base URLs of the service, and the setting of each that names the pages that may call it. */
  apis: { url: string; setting: string }[];
  timeoutMs: number;
  /** Attempts after the first. */
  retries: number;
  /** The wait before the first retry; it doubles for each further retry. */
  backoffMs: number;
}

export interface Request extends CallOptions {
  method: string;
  url: string;
  credential?: string | undefined;
  body?: unknown;
  /** A body of lines, in place of `body`. */
  lines?: BodyInit;
  idempotencyKey?: string | undefined;
  headers?: Record<string, string>;
  /** False if a retry could do something twice. Then only 429 is retried. */
  repeatable?: boolean;
  /** True if the body has what a wallet signed, which counts once. */
  signed?: boolean;
  /** Members of the answer without which it does not say what was asked for. */
  says?: Record<string, Check>;
  /** Those of each object of the list that the answer is. */
  lists?: Record<string, Check>;
  /** Reads the answer. An error that it throws counts as a dropped connection. */
  read?: (response: Response, request: Request) => Promise<unknown>;
  /** If set, the answer is the parts of the body as they arrive. Each part may take this long. Parts are not requested again. */
  idleMs?: number;
}

export interface Answer<T> {
  body: T;
  headers: Headers;
}

async function json(response: Response, { says, lists }: Request): Promise<unknown> {
  const body: unknown = await response.json(), objects: unknown = lists ? body : [body];
  if (!Array.isArray(objects) || !objects.every((one) => typeof one === "object" && one !== null && !(lists && Array.isArray(one)))) {
    throw new MalformedError("answer", lists ? "it is no list of objects" : "it is no object and no list", "service");
  }
  for (const one of objects as Record<string, unknown>[]) {
    for (const [name, is] of Object.entries(lists ?? says ?? {})) if (!is(one[name])) throw new MalformedError(name, "it is missing or malformed", "service");
  }
  return body;
}

/** The longest wait that a Retry-After header may ask for. A longer one is an answer: a quota of the day, perhaps. */
const longestWaitMs = 60_000;

/** Sends requests, and retries them if that is safe and makes sense. */
export class Transport {
  /** Whether any answer could be read. Then this page may call the service. */
  #heard = false;

  constructor(private readonly options: TransportOptions) {}

  async send<T>(request: Request): Promise<Answer<T>> {
    const { retries, backoffMs } = this.options;
    let earlier: Error | undefined; // of an attempt that may have succeeded
    for (let attempt = 0; ; attempt++) {
      let failure: Error, retryAfter: string | null = null;
      const timer = new Timer();
      timer.start(request.timeoutMs ?? this.options.timeoutMs);
      try {
        const response = await this.#attempt(request, timer.signal);
        this.#heard = true;
        const { headers } = response;
        if (response.ok && request.idleMs !== undefined && response.body) return { body: partsOf(response.body, timer, request) as T, headers };
        if (response.ok) return { body: (await (request.read ?? json)(response, request)) as T, headers };
        const text = await response.text();
        failure = apiError(response.status, messageOf(text, response), response.headers.get("X-Request-Id") ?? undefined);
        retryAfter = response.headers.get("Retry-After");
        const status = response.status;
        if (status === 401 && request.signed) throw earlier ?? failure; // the signature may count no more because of that one
        const again = (status === 429 && request.lines === undefined) || ((status === 408 || status >= 500) && request.repeatable !== false);
        if (!again) throw failure;
      } catch (err) {
        request.signal?.throwIfAborted();
        if (err === earlier || err instanceof MalformedError || (err instanceof Error && "status" in err)) throw err;
        failure = lost(err, request);
        if (failure instanceof ConnectionError && !this.#heard && attempt === 0) await this.#checkOrigin(request);
        if (request.repeatable === false) throw failure;
      } finally {
        timer.stop();
      }
      if (!(failure instanceof RateLimitedError)) earlier = failure;
      const asked = waitOf(retryAfter);
      if (attempt >= retries || (asked ?? 0) > longestWaitMs) throw failure;
      await sleep(asked ?? backoffMs * 2 ** attempt * (0.5 + Math.random() / 2), request.signal);
    }
  }

  /**
   * A browser does not tell a page why it may not read an answer, and another attempt does not
   * help. So this asks twice for something that anyone may have: once as a page must, and once
   * for an answer that the page can't read. Throws a CorsError if only the second one comes.
   */
  async #checkOrigin({ url, method }: Request): Promise<void> {
    const page = (globalThis as { location?: { origin?: string } }).location?.origin;
    const api = this.options.apis.find((api) => url.startsWith(`${api.url}/`));
    if (page === undefined || !api || new URL(api.url).origin === page) return;
    const { fetch, timeoutMs } = this.options, limit = Math.min(timeoutMs, longestTimer);
    const answers = (mode: "cors" | "no-cors"): Promise<boolean> =>
      fetch(`${api.url}/health`, { mode, signal: AbortSignal.timeout(limit) }).then(() => true, () => false);
    if ((await answers("cors")) || !(await answers("no-cors"))) return;
    throw new CorsError(`${method} ${new URL(url).origin}: the service answers, but pages of ${page} may not call it: its operator must add that origin to ${api.setting}`);
  }

  #attempt(request: Request, timeout: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { ...request.headers };
    if (request.credential) headers["Authorization"] = `Bearer ${request.credential}`;
    if (request.idempotencyKey) headers["Idempotency-Key"] = request.idempotencyKey;
    if (request.body !== undefined) headers["Content-Type"] = "application/json";
    if (request.lines !== undefined) headers["Content-Type"] = "application/x-ndjson";
    return this.options.fetch(request.url, {
      method: request.method, headers,
      // Followed, a redirect could carry texts and signatures to another host.
      redirect: "manual",
      body: request.lines ?? (request.body === undefined ? null : JSON.stringify(request.body)),
      ...(request.lines instanceof ReadableStream && { duplex: "half" }),
      signal: request.signal ? AbortSignal.any([request.signal, timeout]) : timeout,
    });
  }
}

/** The longest time that a timer can hold, 25 days. A longer timer would end at once. */
const longestTimer = 2 ** 31 - 1;

/** Aborts a request that takes too long. Unlike AbortSignal.timeout, it can be started again. */
class Timer {
  readonly #abort = new AbortController();
  #running: ReturnType<typeof setTimeout> | undefined;
  readonly signal = this.#abort.signal;

  start(ms: number): void {
    this.stop();
    if (ms === Infinity) return;
    this.#running = setTimeout(() => this.#abort.abort(new DOMException("too late", "TimeoutError")), Math.min(ms, longestTimer));
  }

  stop(): void {
    clearTimeout(this.#running);
  }
}

/** Yields the parts of a body. The caller's own time between two parts does not count. */
async function* partsOf(body: ReadableStream<Uint8Array>, timer: Timer, request: Request): AsyncGenerator<Uint8Array, void> {
  const reader = body.getReader();
  try {
    for (;;) {
      timer.start(request.idleMs!);
      const { done, value } = await reader.read();
      timer.stop();
      if (done) return;
      yield value;
    }
  } catch (err) {
    request.signal?.throwIfAborted();
    throw lost(err, request);
  } finally {
    timer.stop();
    await reader.cancel().catch(() => {});
  }
}

function lost(err: unknown, request: Request): Error {
  const what = `${request.method} ${new URL(request.url).pathname.replace(/svc_\w+_[\w-]+/, "…")}`;
  if (err instanceof Error && err.name === "TimeoutError") return new TimeoutError(`${what}: no complete answer in time`, { cause: err });
  return new ConnectionError(`${what}: the connection failed, or the answer broke off`, { cause: err });
}

function messageOf(text: string, response: Response): string {
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    if (typeof error === "string") return error;
  } catch {
    // The body is a gateway's page, or empty.
  }
  // A browser shows nothing else of a redirect.
  return response.type === "opaqueredirect" ? "the answer is a redirect" : `${response.status} ${response.statusText}`.trim();
}

/** Returns the milliseconds to wait by a Retry-After header, which holds seconds or a date. */
function waitOf(header: string | null): number | undefined {
  if (!header) return undefined;
  // Date.parse reads also "1.5" and "0, 5" as dates.
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : /:\d\d:/.test(header) ? Date.parse(header) - Date.now() : NaN;
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}

export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const abort = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, Math.min(ms, longestTimer));
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** Yields the objects of a JSON array, or of the array in an object, as they arrive. */
export async function* streamedObjects(parts: AsyncIterable<Uint8Array>): AsyncGenerator<unknown> {
  const decoder = new TextDecoder();
  let text = "", at = 0, start = -1, depth = 0, begun = false, inText = false, ended = false;
  for await (const part of parts) {
    text += decoder.decode(part, { stream: true });
    for (; at < text.length; at++) {
      const c = text[at];
      if (inText) {
        if (c === "\\") at++;
        else if (c === '"') inText = false;
      } else if (c === '"') inText = true;
      else if (!begun) begun = c === "[";
      else if (c === "{" && depth++ === 0) start = at;
      else if (c === "}" && --depth === 0) {
        yield parseJSON(text.slice(start, at + 1));
        start = -1;
      } else if (c === "]" && depth === 0) ended = true;
    }
    // If a chunk ends within an escape, `at` is one past the end, and so skips the escaped
    // character in the next chunk.
    const keep = start < 0 ? text.length : start;
    text = text.slice(keep);
    at -= keep;
    if (start >= 0) start = 0;
  }
  if (!ended) throw new ConnectionError("the list broke off");
}

/** The longest line that is read: 256 KiB of content with each byte escaped, and metadata. */
const maxLine = 4 * 2 ** 20;

/** Yields the lines of a text with their line ends. The last line may have no line end. */
export async function* linesOf(parts: AsyncIterable<Uint8Array>): AsyncGenerator<string, void> {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });
  let rest = "";
  for await (const part of parts) {
    try {
      rest += decoder.decode(part, { stream: true });
    } catch {
      throw new MalformedError("line", "it is not UTF-8");
    }
    const lines = rest.split("\n");
    rest = lines.pop()!;
    for (const line of lines) yield line + "\n";
    if (rest.length > maxLine) throw new MalformedError("line", `it has more than ${maxLine} characters`);
  }
  try {
    decoder.decode();
  } catch {
    rest += "\ufffd"; // the last character breaks off
  }
  if (rest !== "") yield rest;
}

export function parseJSON(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new MalformedError("answer", "it is not JSON", "service");
  }
}
