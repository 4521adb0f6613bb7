import type { MemoryLedger } from "./client.js";
import type { CallOptions } from "./http.js";
import type { StakingStatus, UnsignedTransaction } from "./schema/core.js";

/** Staking, if the service offers it. The calls need a session. Amounts are decimal strings of base units. */
export class Staking {
  constructor(private readonly ledger: MemoryLedger) {}

  async status(options: CallOptions = {}): Promise<StakingStatus> {
    return (await this.ledger.core<StakingStatus>("GET", "/staking/status", options)).body;
  }

  /** A transaction for the wallet to sign and send. */
  async stake(amount: string, options: CallOptions = {}): Promise<UnsignedTransaction> {
    return (await this.ledger.core<UnsignedTransaction>("POST", "/staking/stake", { ...options, body: { amount } })).body;
  }

  /** A transaction for the wallet to sign and send. */
  async unstake(amount: string, options: CallOptions = {}): Promise<UnsignedTransaction> {
    return (await this.ledger.core<UnsignedTransaction>("POST", "/staking/unstake", { ...options, body: { amount } })).body;
  }
}
