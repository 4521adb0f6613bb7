import type { MemoryLedger, WriteOptions } from "./client.js";
import type { CallOptions } from "./http.js";
import { isCount, isText, type Check } from "./receipt.js";
import type { Case, CaseStatus, Drop, DropStatus, FilledDrop, DroppedMemory, NewCase, NewDrop, Revoked } from "./schema/extension.js";

const isFlag: Check = (v) => typeof v === "boolean";
const link = { id: isText, url: isText };

/** One-time links. The calls need a session of the extension API unless they say otherwise. */
export class Grants {
  constructor(private readonly ledger: MemoryLedger) {}

  /** Makes a link that adds memories. It revokes the owner's previous drop. */
  async createDrop(body: NewDrop = {}, options: CallOptions = {}): Promise<Drop> {
    return (await this.ledger.extension<Drop>("POST", "/memory-drops", { ...options, body, says: link })).body;
  }

  async dropStatus(id: string, options: CallOptions = {}): Promise<DropStatus> {
    return (await this.ledger.extension<DropStatus>("GET", `/memory-drops/${encodeURIComponent(id)}/status`, { ...options, says: { expired: isFlag, remainingWrites: isCount, revoked: isFlag } })).body;
  }

  async revokeDrop(id: string, options: CallOptions = {}): Promise<Revoked> {
    return (await this.ledger.extension<Revoked>("POST", `/memory-drops/${encodeURIComponent(id)}/revoke`, { ...options, says: { revoked: isFlag } })).body;
  }

  /** Adds a memory through a drop's URL. Needs no session. */
  async fillDrop(url: string, body: DroppedMemory, options: WriteOptions = {}): Promise<FilledDrop> {
    const { idempotencyKey = crypto.randomUUID(), ...rest } = options;
    return (await this.ledger.grant<FilledDrop>("POST", url, { ...rest, idempotencyKey, body, says: { memoryId: isText } })).body;
  }

  /** Makes a link that reads all memories. It revokes the owner's previous case. */
  async createCase(body: NewCase = {}, options: CallOptions = {}): Promise<Case> {
    return (await this.ledger.extension<Case>("POST", "/agent-cases", { ...options, body, says: link })).body;
  }

  async caseStatus(id: string, options: CallOptions = {}): Promise<CaseStatus> {
    return (await this.ledger.extension<CaseStatus>("GET", `/agent-cases/${encodeURIComponent(id)}/status`, { ...options, says: { expired: isFlag, remainingReads: isCount, revoked: isFlag } })).body;
  }

  async revokeCase(id: string, options: CallOptions = {}): Promise<Revoked> {
    return (await this.ledger.extension<Revoked>("POST", `/agent-cases/${encodeURIComponent(id)}/revoke`, { ...options, says: { revoked: isFlag } })).body;
  }

  /** Reads a case by its URL, as markdown. The call spends a read, so it is not retried after a lost answer. */
  async readCase(url: string, options: CallOptions = {}): Promise<string> {
    return (await this.ledger.grant<string>("GET", url, { ...options, repeatable: false, read: (response) => response.text() })).body;
  }
}
