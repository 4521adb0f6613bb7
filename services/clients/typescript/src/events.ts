import type { MemoryLedger } from "./client.js";
import { ConnectionError } from "./errors.js";
import { patient, type CallOptions } from "./http.js";
import type { Events as Page } from "./schema/core.js";

/** The service sends a comment every 15 s; a stream that is silent for longer is dead. */
const silence = 45_000;

/** The owner's own history. */
export class Events {
  constructor(private readonly ledger: MemoryLedger) {}

  /** The events after a cursor, oldest first. A page without events is the end. */
  async page(after: string = "0", limit: number = 100, options: CallOptions = {}): Promise<Page> {
    return (await this.ledger.core<Page>("GET", `/events?after=${after}&limit=${limit}`, options)).body;
  }

  /**
   * What happens from now on, or after a cursor, as it happens. The first page may be
   * empty: its cursor says where the stream began. It throws where the stream ends; go on
   * after the last cursor, and nothing is missing and nothing comes twice.
   */
  async *follow(after?: string, options: CallOptions = {}): AsyncGenerator<Page, void> {
    const read = async (response: Response) => response.body;
    const { body } = await this.ledger.core<ReadableStream<Uint8Array>>("GET", `/events${after === undefined ? "" : `?after=${after}`}`, {
      timeoutMs: patient, ...options, accept: "text/event-stream", read,
    });
    const reader = body.pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>).getReader();
    let text = "";
    try {
      for (;;) {
        let timer: ReturnType<typeof setTimeout> | undefined;
        const dead = new Promise<never>((_, reject) => { timer = setTimeout(() => reject(new Error("silence")), silence); });
        const { done, value } = await Promise.race([reader.read(), dead]).finally(() => clearTimeout(timer));
        if (done) break;
        const blocks = (text + value).split("\n\n");
        text = blocks.pop()!;
        for (const block of blocks) {
          const field = (name: string) => block.split("\n").find((line) => line.startsWith(name))?.slice(name.length);
          const data = field("data: "), cursor = field("id: ");
          if (data !== undefined) yield JSON.parse(data) as Page;
          else if (cursor !== undefined) yield { events: [], cursor };
        }
      }
    } catch (err) {
      options.signal?.throwIfAborted();
      throw new ConnectionError("the stream of events broke off", { cause: err });
    } finally {
      await reader.cancel().catch(() => {});
    }
    throw new ConnectionError("the stream of events ended");
  }
}
