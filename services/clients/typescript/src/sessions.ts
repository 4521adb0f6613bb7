import type { MemoryLedger } from "./client.js";
import type { CallOptions } from "./http.js";
import { done, isCount, isText } from "./receipt.js";
import type { LiveSession } from "./schema/core.js";

/** Sessions of both APIs. The calls need a session. */
export class Sessions {
  constructor(private readonly ledger: MemoryLedger) {}

  /** Lists the live sessions, oldest first. */
  async list(options: CallOptions = {}): Promise<LiveSession[]> {
    return (await this.ledger.core<LiveSession[]>("GET", "/auth/sessions", { ...options, lists: { id: isText } })).body;
  }

  async end(id: string, options: CallOptions = {}): Promise<void> {
    await this.ledger.core("DELETE", `/auth/sessions/${encodeURIComponent(id)}`, { ...options, says: done });
  }

  /** Ends all sessions except the caller's, and returns how many it ended. */
  async endOthers(options: CallOptions = {}): Promise<number> {
    return (await this.ledger.core<{ ended: number }>("DELETE", "/auth/sessions", { ...options, says: { ended: isCount } })).body.ended;
  }
}
