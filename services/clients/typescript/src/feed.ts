import type { MemoryLedger } from "./client.js";
import { ConnectionError, MalformedError, OwnerMismatchError, RateLimitedError, serviceLied, TimeoutError, UnavailableError } from "./errors.js";
import { callOptions, linesOf, parseJSON, sleep, type CallOptions } from "./http.js";
import { isObject } from "./receipt.js";
import type { Events } from "./schema/core.js";

/** Events in order, and the cursor after them. Pass the cursor as `after` to continue there later. It never expires. */
export type EventsPage = Events;

export interface PagesOptions extends CallOptions {
  /** The cursor after which to begin. From the beginning by default. */
  after?: string | undefined;
  /** About how many events a page has, 1 to 1000; 100 by default. */
  pageSize?: number | undefined;
}

export interface FollowOptions extends CallOptions {
  /** The cursor after which to begin. From now on by default. */
  after?: string | undefined;
  /** How long a stream may be silent before the client treats it as dead; 45 s by default. The service sends something every 15 s. */
  idleMs?: number | undefined;
}

/** The owner's history: writes, sign-ins, grants, and commitments to the chain. */
export class Feed {
  constructor(private readonly ledger: MemoryLedger) {}

  /** Yields the history from a cursor to its end. */
  async *pages(options: PagesOptions = {}): AsyncGenerator<EventsPage, void> {
    const { after = "0", pageSize = 100 } = options;
    for (let cursor = after; ; ) {
      const query = new URLSearchParams({ after: cursor, limit: String(pageSize) });
      const { body } = await this.ledger.core<EventsPage>("GET", `/events?${query}`, callOptions(options));
      if (body.events?.length === 0) return;
      this.#check(body, cursor);
      cursor = body.cursor;
      yield body;
    }
  }

  /**
   * Yields the history from a cursor on, and then new events as they arrive. It has no end:
   * break out of the loop, or abort the signal. When a stream ends, the client keeps trying
   * to reopen it at the same cursor, so no event is lost or repeated. It fails if the service
   * refuses the request, or if the first connection can't be made.
   */
  async *follow(options: FollowOptions = {}): AsyncGenerator<EventsPage, void> {
    const { signal, idleMs = 45_000 } = options;
    let cursor = options.after, retryMs = 1000;
    for (let begun = false; ; ) {
      try {
        const headers = { Accept: "text/event-stream", ...(cursor !== undefined && { "Last-Event-ID": cursor }) };
        const { body } = await this.ledger.core<AsyncIterable<Uint8Array>>("GET", "/events", { ...callOptions(options), headers, idleMs });
        begun = true;
        for await (const message of messagesOf(body)) {
          retryMs = message.retryMs ?? retryMs;
          if (message.data === "") {
            cursor ??= message.id; // the start of the stream
            continue;
          }
          const page = parseJSON(message.data) as EventsPage;
          this.#check(page, cursor);
          cursor = page.cursor;
          yield page;
        }
      } catch (err) {
        const away = [ConnectionError, TimeoutError, UnavailableError, RateLimitedError].some((kind) => err instanceof kind);
        if (!begun || !away) throw serviceLied(err);
      }
      await sleep(retryMs, signal);
    }
  }

  /** Checks that a page lies after the cursor, or it would be read forever, and is this owner's. */
  #check(page: EventsPage, cursor: string | undefined): void {
    const { cursor: next, events } = Object(page) as EventsPage; // it may be null
    const isPage = /^\d{1,19}$/.test(next) && Array.isArray(events) && events.every(isObject);
    if (!isPage || (cursor !== undefined && BigInt(next) <= BigInt(cursor))) throw new MalformedError("cursor", `${next} comes after ${cursor}`, "service");
    if (!this.ledger.verify) return;
    for (const event of events) {
      this.ledger.owner ??= event.subject;
      if (event.subject !== this.ledger.owner) throw new OwnerMismatchError("subject", `it is ${event.subject}, this client is ${this.ledger.owner}`, "service");
    }
  }
}

interface Message {
  id?: string;
  data: string;
  retryMs?: number;
}

/** Yields the messages of a stream of server-sent events (HTML standard, section 9.2). A message that is cut off is dropped. */
async function* messagesOf(parts: AsyncIterable<Uint8Array>): AsyncGenerator<Message, void> {
  let message: Message = { data: "" };
  for await (const line of linesOf(parts)) {
    const [, field, value] = /^([^:]*)(?:: ?)?(.*)\n$/.exec(line.replace(/\r\n$/, "\n")) ?? [];
    if (line.trim() === "" && field === "") {
      yield message;
      message = { data: "" };
    } else if (field === "id") message.id = value!;
    else if (field === "data") message.data += (message.data && "\n") + value;
    else if (field === "retry" && /^\d+$/.test(value!)) message.retryMs = Number(value);
  }
}
