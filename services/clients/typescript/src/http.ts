import { apiError, ConnectionError, TimeoutError } from "./errors.js";

export interface CallOptions {
  signal?: AbortSignal;
  /** How long each attempt may take. */
  timeoutMs?: number;
}

export interface TransportOptions {
  fetch: typeof fetch;
  timeoutMs: number;
  /** Attempts after the first. */
  retries: number;
  /** The wait before the first repetition; it doubles from one to the next. */
  backoffMs: number;
}

export interface Request extends CallOptions {
  method: string;
  url: string;
  credential?: string | undefined;
  body?: unknown;
  idempotencyKey?: string | undefined;
  /** The media type to ask for, where the route has several. */
  accept?: string;
  /** False where a repetition could do something twice. Then only 429 is repeated. */
  repeatable?: boolean;
  /** Reads the answer. What it throws for an answer that broke off is a dropped connection. */
  read?: (response: Response) => Promise<unknown>;
}

export interface Answer<T> {
  body: T;
  headers: Headers;
}

/** A timeout for answers that take as long as they take, in milliseconds. */
export const patient = 2 ** 31 - 1;

const json = (response: Response): Promise<unknown> => response.json();

/** Sends requests, and repeats them where that is safe and makes sense. */
export class Transport {
  constructor(private readonly options: TransportOptions) {}

  async send<T>(request: Request): Promise<Answer<T>> {
    const { retries, backoffMs } = this.options;
    for (let attempt = 0; ; attempt++) {
      let failure: Error, retryAfter: string | null = null;
      try {
        const response = await this.#attempt(request);
        if (response.ok) return { body: (await (request.read ?? json)(response)) as T, headers: response.headers };
        const text = await response.text();
        failure = apiError(response.status, messageOf(text, response), response.headers.get("X-Request-Id") ?? undefined);
        retryAfter = response.headers.get("Retry-After");
        const status = response.status;
        const again = status === 429 || ((status === 408 || status >= 500) && request.repeatable !== false);
        if (!again) throw failure;
      } catch (err) {
        request.signal?.throwIfAborted();
        if (err instanceof Error && "status" in err) throw err;
        failure = lost(err, request);
        if (request.repeatable === false) throw failure;
      }
      if (attempt >= retries) throw failure;
      await sleep(waitOf(retryAfter) ?? backoffMs * 2 ** attempt * (0.5 + Math.random() / 2), request.signal);
    }
  }

  #attempt(request: Request): Promise<Response> {
    const headers: Record<string, string> = {};
    if (request.credential) headers["Authorization"] = `Bearer ${request.credential}`;
    if (request.idempotencyKey) headers["Idempotency-Key"] = request.idempotencyKey;
    if (request.accept) headers["Accept"] = request.accept;
    if (request.body !== undefined) headers["Content-Type"] = "application/json";
    const timeout = AbortSignal.timeout(request.timeoutMs ?? this.options.timeoutMs);
    return this.options.fetch(request.url, {
      method: request.method, headers,
      body: request.body === undefined ? null : JSON.stringify(request.body),
      signal: request.signal ? AbortSignal.any([request.signal, timeout]) : timeout,
    });
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
    // A gateway's page, or nothing.
  }
  return `${response.status} ${response.statusText}`.trim();
}

/** Milliseconds of a Retry-After header: seconds, or a date. */
function waitOf(header: string | null): number | undefined {
  if (!header) return undefined;
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}

function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** The objects of a JSON array, or of the array in an object, as they arrive. */
export async function* streamedObjects(body: ReadableStream<Uint8Array>): AsyncGenerator<unknown> {
  const reader = body.getReader(), decoder = new TextDecoder();
  let text = "", at = 0, start = -1, depth = 0, inText = false, ended = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += decoder.decode(value, { stream: true });
      for (; at < text.length; at++) {
        const c = text[at];
        if (inText) {
          if (c === "\\") at++;
          else if (c === '"') inText = false;
        } else if (c === '"') inText = true;
        else if (c === "{" && depth++ === 0) start = at;
        else if (c === "}" && --depth === 0) {
          yield JSON.parse(text.slice(start, at + 1));
          start = -1;
        } else if (c === "]" && depth === 0) ended = true;
      }
      // An escape may be cut between two chunks, then `at` is one further.
      const keep = start < 0 ? text.length : start;
      text = text.slice(keep);
      at -= keep;
      if (start >= 0) start = 0;
    }
  } catch (err) {
    throw new ConnectionError("the list broke off", { cause: err });
  } finally {
    await reader.cancel().catch(() => {});
  }
  if (!ended) throw new ConnectionError("the list broke off");
}
