import { concat, fromBase58, fromBase64, toBase58, toHex, u64, utf8 } from "./bytes.js";
import { programAddress } from "./chain.js";
import { TransactionError } from "./errors.js";

/**
 * The program and the mint that a staking transaction may use. Get both from the operator by
 * a channel other than the service: somebody else's program could take everything that the
 * wallet holds.
 */
export interface StakingProgram {
  programId: string;
  mint: string;
}

export interface StakingMove extends StakingProgram {
  owner: string;
  move: "stake" | "unstake";
  /** Base units, a decimal string. */
  amount: string;
}

const systemProgram = "11111111111111111111111111111111";
const tokenProgram = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
/** The program that makes a wallet's token accounts. */
const walletProgram = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL";

/**
 * Checks a transaction of POST /staking/stake or /staking/unstake, in base64, before a wallet
 * signs it. The owner pays and signs alone. The transaction moves the amount between the
 * owner's own token account and the owner's vault, and does nothing else. Unstaking may first
 * make the token account.
 */
export async function checkTransaction(transaction: string, { programId, mint, owner, move, amount }: StakingMove): Promise<void> {
  const refuse = (field: string, problem: string): never => {
    throw new TransactionError(field, problem, "service");
  };
  if (!/^\d{1,20}$/.test(amount) || BigInt.asUintN(64, BigInt(amount)) !== BigInt(amount)) throw new TypeError("the amount is not a decimal string of base units");
  const { keys, instructions } = decode(transaction) ?? refuse("transaction", "it is not an unsigned transaction with one signer");
  if (keys[0] !== owner) refuse("payer", `it is ${keys[0]}, not ${owner}`);
  const [wallet, minted, token] = [owner, mint, tokenProgram].map((key) => fromBase58(key, 32));
  const vault = wallet && minted && (await programAddress(programId, utf8("vault"), minted, wallet));
  if (!vault) return refuse("programId", "program, mint and owner must be public keys in base58");
  const tokens = (await programAddress(walletProgram, wallet, token!, minted))!;
  const accounts = [owner, tokens, vault, mint, tokenProgram, ...(move === "stake" ? [systemProgram] : [])];
  const expected = { program: programId, accounts, data: concat(u64(move === "stake" ? 2 : 3), u64(BigInt(amount))) };
  const makes = { program: walletProgram, accounts: [owner, tokens, owner, mint, systemProgram, tokenProgram], data: Uint8Array.of(1) };
  if (move === "unstake" && instructions.length === 2 && !difference(makes, instructions[0]!)) instructions.shift();
  if (instructions.length !== 1) refuse("instructions", "there are others than to move the amount");
  const differs = difference(expected, instructions[0]!);
  if (differs) refuse(differs, `it is not that of moving ${amount} between this wallet and its vault`);
}

interface Instruction {
  program: string | undefined;
  accounts: (string | undefined)[];
  data: Uint8Array;
}

/** Names the first part in which two instructions differ. */
function difference(a: Instruction, b: Instruction): string | undefined {
  if (a.program !== b.program) return "programId";
  if (toHex(a.data) !== toHex(b.data)) return "amount";
  return String(a.accounts) === String(b.accounts) ? undefined : "accounts";
}

/**
 * Reads a legacy transaction that lacks its one signature. Lookup tables could hide what
 * versioned transactions do, and the service makes none of those.
 */
function decode(transaction: string): { keys: string[]; instructions: Instruction[] } | undefined {
  let wire: Uint8Array;
  try {
    wire = fromBase64(transaction);
  } catch {
    return undefined;
  }
  let at = 0;
  const take = (n: number): Uint8Array => {
    if (at + n > wire.length) throw new RangeError("too short");
    return wire.subarray(at, (at += n));
  };
  // A compact-u16. A transaction has at most 1,232 bytes, so two bytes are enough.
  const length = (): number => {
    const first = take(1)[0]!;
    if (first < 0x80) return first;
    const second = take(1)[0]!;
    if (second === 0 || second >= 0x80) throw new RangeError("not canonical");
    return (first & 0x7f) | (second << 7);
  };
  const many = <T>(read: () => T): T[] => Array.from({ length: length() }, read);
  try {
    const one = length(), signature = take(64), header = take(3);
    if (one !== 1 || signature.some((b) => b !== 0) || header[0] !== 1 || header[1] !== 0) return undefined;
    const keys = many(() => toBase58(take(32)));
    take(32); // the blockhash
    const instructions = many(() => ({
      program: keys[take(1)[0]!], accounts: many(() => keys[take(1)[0]!]), data: take(length()),
    }));
    return at === wire.length ? { keys, instructions } : undefined;
  } catch {
    return undefined;
  }
}
