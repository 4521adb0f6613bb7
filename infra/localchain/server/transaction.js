'use strict';
// Parses wire transactions and verifies their signatures.

const crypto = require('node:crypto');
const base58 = require('./base58');

const MAX_BYTES = 1232; // one IPv6 packet less its headers
const COMPUTE_BUDGET = 'ComputeBudget111111111111111111111111111111';
const ED25519_SPKI = Buffer.from('302a300506032b6570032100', 'hex');

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  take(n) {
    if (this.at + n > this.bytes.length) throw new Error('transaction ends early');
    this.at += n;
    return this.bytes.subarray(this.at - n, this.at);
  }
  u8() {
    return this.take(1)[0];
  }
  // compact-u16: seven bits a byte, lowest first
  length() {
    let value = 0;
    for (let shift = 0; shift < 21; shift += 7) {
      const byte = this.u8();
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw new Error('length runs over three bytes');
  }
}

function parseMessage(bytes) {
  const r = new Reader(bytes);
  const legacy = (bytes[0] & 0x80) === 0;
  const version = legacy ? 'legacy' : r.u8() & 0x7f;
  if (!legacy && version !== 0) throw new Error(`unsupported transaction version ${version}`);
  const [required, readonlySigned, readonlyUnsigned] = [r.u8(), r.u8(), r.u8()];
  const keys = Array.from({ length: r.length() }, () => base58.encode(r.take(32)));
  const blockhash = base58.encode(r.take(32));
  const instructions = Array.from({ length: r.length() }, () => {
    const program = r.u8();
    const accounts = [...r.take(r.length())];
    return { program, accounts, data: Buffer.from(r.take(r.length())) };
  });
  if (!legacy && r.length() !== 0) throw new Error('address lookup tables are not kept here');
  if (r.at !== bytes.length) throw new Error('transaction has trailing bytes');
  if (required === 0 || required > keys.length || readonlySigned >= required || readonlyUnsigned > keys.length - required) {
    throw new Error('message header does not fit its accounts');
  }
  for (const i of instructions) {
    if (i.program === 0 || [i.program, ...i.accounts].some((a) => a >= keys.length)) {
      throw new Error('instruction names an account that is not there');
    }
  }
  const writable = (i) => (i < required ? i < required - readonlySigned : i < keys.length - readonlyUnsigned);
  return { version, required, readonlySigned, readonlyUnsigned, keys, blockhash, instructions, writable, bytes };
}

// Parses a wire transaction. Throws an Error that says what is malformed.
function parse(bytes) {
  const r = new Reader(bytes);
  const signatures = Array.from({ length: r.length() }, () => Buffer.from(r.take(64)));
  const message = parseMessage(bytes.subarray(r.at));
  if (signatures.length !== message.required) throw new Error('number of signatures does not fit the header');
  return { signatures, signature: base58.encode(signatures[0]), message, bytes };
}

function signaturesValid(tx) {
  return tx.signatures.every((signature, i) => {
    const raw = base58.decode(tx.message.keys[i], 44);
    try {
      const key = crypto.createPublicKey({ key: Buffer.concat([ED25519_SPKI, raw]), format: 'der', type: 'spki' });
      return crypto.verify(null, tx.message.bytes, key, signature);
    } catch {
      return false; // not a point on the curve
    }
  });
}

// Returns the fee in lamports: 5000 per signature, plus the bid of the compute budget.
function fee(message) {
  let price = 0n;
  let limit = null;
  let others = 0;
  for (const i of message.instructions) {
    if (message.keys[i.program] !== COMPUTE_BUDGET) {
      others++;
    } else if (i.data[0] === 2 && i.data.length === 5) {
      limit = i.data.readUInt32LE(1);
    } else if (i.data[0] === 3 && i.data.length === 9) {
      price = i.data.readBigUInt64LE(1);
    }
  }
  const units = BigInt(Math.min(limit ?? others * 200_000, 1_400_000));
  return BigInt(message.required) * 5000n + (price * units + 999_999n) / 1_000_000n;
}

module.exports = { MAX_BYTES, parse, parseMessage, signaturesValid, fee };
