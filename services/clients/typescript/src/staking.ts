import type { MemoryLedger } from "./client.js";
import type { CallOptions } from "./http.js";
import { checkTransaction } from "./transaction.js";
import type { StakingStatus, UnsignedTransaction } from "./schema/core.js";

/** Staking, if the service offers it. The calls need a session, and moves need the option `stakingProgram`. Amounts are decimal strings of base units. */
export class Staking {
  constructor(private readonly ledger: MemoryLedger) {}

  async status(options: CallOptions = {}): Promise<StakingStatus> {
    return (await this.ledger.core<StakingStatus>("GET", "/staking/status", options)).body;
  }

  /** A transaction for the wallet to sign and send. It does only that: see `checkTransaction`. */
  stake(amount: string, options: CallOptions = {}): Promise<UnsignedTransaction> {
    return this.#move("stake", amount, options);
  }

  /** A transaction for the wallet to sign and send. It does only that: see `checkTransaction`. */
  unstake(amount: string, options: CallOptions = {}): Promise<UnsignedTransaction> {
    return this.#move("unstake", amount, options);
  }

  async #move(move: "stake" | "unstake", amount: string, options: CallOptions): Promise<UnsignedTransaction> {
    const { ledger } = this;
    if (ledger.verify && !ledger.stakingProgram) throw new TypeError("staking needs the option stakingProgram, to check what the wallet would sign");
    const { body } = await ledger.core<UnsignedTransaction>("POST", `/staking/${move}`, { ...options, body: { amount } });
    if (ledger.verify) {
      const owner = ledger.owner ?? (await ledger.log.head(options)).owner;
      await checkTransaction(body.transaction, { ...ledger.stakingProgram!, owner, move, amount });
    }
    return body;
  }
}
