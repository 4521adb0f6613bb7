'use strict';
// The chain: one bank that executes immediately, slots that pass, and the rules
// that a validator enforces around the runtime. A transaction runs in the current
// slot (processed); later slots raise it to confirmed and finalized. Every slot
// with a change is saved before any of its changes is confirmed. So a change that
// was ever reported as confirmed survives kill -9. A change that was only
// processed may be lost, as on a fork.

const crypto = require('node:crypto');
const { performance } = require('node:perf_hooks');
const svm = require('litesvm/dist/internal.js');
const base58 = require('./base58');
const failures = require('./failures');
const wire = require('./transaction');
const { summary } = require('./accounts');

const BLOCKHASH_WINDOW = 150;
const STATUS_WINDOW = 300; // slots for which a status is found without searching history
const KEPT_BLOCKS = 1000;

class Chain {
  // options: store, slotMs, confirmSlots, finalizeSlots, programs [{id, elf}], now()
  constructor(options) {
    Object.assign(this, options);
    this.history = new Map(); // signature -> { slot, at, length, err, blockTime, seq }
    this.byAddress = new Map(); // address -> [signature], oldest first
    const saved = this.store.load();
    if (saved) this.restore(saved);
    else this.genesis(crypto.randomBytes(32));
    this.deploy();
    this.save();
  }

  genesis(seed) {
    this.genesisHash = base58.encode(seed);
    this.runtime = new svm.LiteSvm();
    this.clockOffset = 0;
    this.begin(1, 0);
  }

  restore({ header, runtime, records }) {
    this.genesisHash = header.genesisHash;
    this.runtime = svm.LiteSvm.fromBytes(runtime);
    this.clockOffset = header.clockOffset;
    for (const { record, at, length } of records) this.index(record, { at, length });
    // Count the slots that have passed: unsaved idle slots before the end, and the
    // slots since. So no slot and no blockhash that was ever shown is used again.
    const passed = header.slotMs > 0 ? Math.ceil((this.now() - header.savedAt) / header.slotMs) : 0;
    this.begin(header.slot + 2 + Math.max(0, passed), header.expiredBefore);
  }

  begin(slot, expiredBefore) {
    this.runtime.setBlockhashCheck(false); // this class keeps the window
    this.runtime.setTransactionHistory(0n); // and finds duplicates
    this.slot = slot;
    this.confirmed = slot - 1;
    this.finalized = slot - 1;
    this.savedSlot = slot - 1;
    this.savedLast = 0;
    this.saveTook = 0;
    this.lag = 0;
    this.blocks = new Map(); // slot -> { hash, time }
    this.undo = new Map(); // key -> [{ slot, before }]: states that were replaced in a slot not yet finalized
    this.dirty = true;
    this.expiredBefore = expiredBefore; // set by a fault
    // Make the hashes of the whole window, so that a transaction signed before a
    // restart may still land after it.
    for (let s = Math.max(0, slot - BLOCKHASH_WINDOW); s <= slot; s++) this.openBlock(s);
  }

  openBlock(slot) {
    const hash = crypto.createHash('sha256').update(`${this.genesisHash}/${slot}`).digest();
    const last = this.blocks.get(slot - 1)?.time ?? 0;
    const time = Math.max(last, Math.floor(this.now() / 1000) + this.clockOffset);
    this.blocks.set(slot, { hash: base58.encode(hash), time });
    this.blocks.delete(slot - KEPT_BLOCKS);
    this.setClock(slot, time);
  }

  setClock(slot, time) {
    this.runtime.setClock(new svm.Clock(BigInt(slot), 0n, 0n, 1n, BigInt(time)));
  }

  deploy() {
    for (const { id, elf } of this.programs) this.runtime.addProgram(base58.decode(id, 44), elf);
  }

  // Passes one slot. If a save is due too soon after the last one, it is put off,
  // and so is the confirmation of its changes: however short the slots are, saving
  // may take only a third of the time. `now` forces the save.
  tick(now = this.slotMs === 0) {
    const rested = performance.now() - this.savedLast >= 2 * this.saveTook;
    if (this.dirty && (now || rested)) this.save();
    if (!this.dirty) this.savedSlot = this.slot;
    this.slot++;
    this.openBlock(this.slot);
    const reached = (slots) => Math.min(this.slot - slots - this.lag, this.savedSlot);
    this.confirmed = Math.max(this.confirmed, reached(this.confirmSlots));
    this.finalized = Math.max(this.finalized, reached(this.finalizeSlots));
    for (const [key, states] of this.undo) {
      const kept = states.filter((s) => s.slot > this.finalized);
      if (kept.length > 0) this.undo.set(key, kept);
      else this.undo.delete(key);
    }
  }

  // Keeps the state of an account before this slot until this slot is finalized.
  remember(key, before) {
    const states = this.undo.get(key) ?? [];
    if (states.at(-1)?.slot === this.slot) return;
    states.push({ slot: this.slot, before });
    this.undo.set(key, states);
  }

  save() {
    const started = performance.now();
    const header = {
      genesisHash: this.genesisHash,
      slot: this.slot,
      slotMs: this.slotMs,
      savedAt: this.now(),
      clockOffset: this.clockOffset,
      expiredBefore: this.expiredBefore,
    };
    this.store.save(header, this.runtime.toBytes());
    this.dirty = false;
    this.savedLast = performance.now();
    this.saveTook = this.savedLast - started;
  }

  reset() {
    this.store.clear();
    this.history.clear();
    this.byAddress.clear();
    this.genesis(crypto.randomBytes(32));
    this.deploy();
    this.save();
  }

  // Returns the newest slot that has reached a commitment level.
  at(level) {
    return level === 'processed' ? this.slot : level === 'confirmed' ? this.confirmed : this.finalized;
  }

  latestBlockhash(level) {
    const slot = this.at(level);
    return { slot, blockhash: this.blocks.get(slot).hash, lastValidBlockHeight: slot + BLOCKHASH_WINDOW };
  }

  // Reports whether a bank of that level would accept the blockhash.
  blockhashValid(hash, level) {
    const newest = this.at(level);
    for (let slot = newest; slot >= Math.max(newest - BLOCKHASH_WINDOW, this.expiredBefore); slot--) {
      if (this.blocks.get(slot)?.hash === hash) return true;
    }
    return false;
  }

  expireBlockhashes() {
    for (let i = 0; i <= BLOCKHASH_WINDOW; i++) this.tick(true);
    this.expiredBefore = this.slot;
    this.save();
  }

  // Returns an account as banks of that level see it, or null.
  account(key, level) {
    const slot = this.at(level);
    const later = this.undo.get(key)?.find((s) => s.slot > slot);
    return later ? later.before : this.current(key);
  }

  current(key) {
    const account = this.runtime.getAccount(base58.decode(key, 44));
    if (account === null || account.lamports() === 0n) return null;
    return {
      lamports: account.lamports(),
      data: Buffer.from(account.data()),
      owner: base58.encode(account.owner()),
      executable: account.executable(),
    };
  }

  // The bank's check before it runs a transaction. Returns null, or an error.
  admissible(tx, level) {
    if (!this.blockhashValid(tx.message.blockhash, level)) return 'BlockhashNotFound';
    if (this.history.has(tx.signature)) return 'AlreadyProcessed';
    return null;
  }

  simulate(tx, { verify, level, replaceBlockhash = false }) {
    const refusal = replaceBlockhash ? null : this.admissible(tx, level);
    if (refusal) return { err: refusal, logs: [], units: 0n, accounts: new Map() };
    this.runtime.setSigverify(verify);
    const legacy = tx.message.version === 'legacy';
    const result = legacy
      ? this.runtime.simulateLegacyTransaction(tx.bytes)
      : this.runtime.simulateVersionedTransaction(tx.bytes);
    this.runtime.setSigverify(true);
    const err = typeof result.err === 'function' ? failures.toJSON(result.err()) : null;
    const after = err === null ? result.postAccounts() : [];
    return {
      err,
      ...outcome(result.meta()),
      accounts: new Map(after.map((a) => [base58.encode(a.address), a.account()])),
    };
  }

  // Runs a transaction in this slot. Returns false if a leader would have dropped it
  // without a trace: expired, repeated, unsigned, or unable to pay.
  execute(tx) {
    if (this.admissible(tx, 'processed')) return false;
    const { keys, version, writable } = tx.message;
    // An account that cannot change is not copied: a program may be large.
    const look = (k, i) => (writable(i) ? this.current(k) : { lamports: this.runtime.getBalance(base58.decode(k, 44)) ?? 0n });
    const before = keys.map(look);
    const legacy = version === 'legacy';
    const result = legacy
      ? this.runtime.sendLegacyTransaction(tx.bytes)
      : this.runtime.sendVersionedTransaction(tx.bytes);
    const failed = typeof result.err === 'function';
    const err = failed ? failures.toJSON(result.err()) : null;
    // Only a transaction that failed while it ran paid its fee, and so is on the chain.
    if (failed && typeof err === 'string') return false;
    const after = keys.map(look);
    keys.forEach((key, i) => {
      if (writable(i)) this.remember(key, before[i]);
    });
    const meta = failed ? result.meta() : result;
    this.record(tx, err, before.map(summary), after.map(summary), outcome(meta));
    return true;
  }

  // Creates lamports by a transfer from the runtime's own faucet. Returns the
  // transfer's signature, or throws the runtime's error: an account must hold its
  // rent, here as on a cluster.
  airdrop(key, lamports) {
    const address = base58.decode(key, 44);
    const before = this.current(key);
    this.runtime.expireBlockhash(); // otherwise a repeated airdrop would be a duplicate
    const result = this.runtime.airdrop(address, lamports);
    if (result === null) throw new Error('the faucet is empty');
    if (typeof result.err === 'function') throw new Error(failures.words(failures.toJSON(result.err())));
    this.remember(key, before);
    const signature = base58.encode(result.signature());
    const tx = { signature, bytes: Buffer.alloc(0), message: { keys: [key], required: 0, instructions: [] } };
    this.record(tx, null, [summary(before)], [summary(this.current(key))], outcome(result));
    return signature;
  }

  record(tx, err, before, after, { logs, units, inner, returnData }) {
    const record = {
      signature: tx.signature,
      slot: this.slot,
      blockTime: this.blocks.get(this.slot).time,
      err,
      bytes: tx.bytes.toString('base64'),
      keys: tx.message.keys,
      fee: String(wire.fee(tx.message)),
      units: String(units),
      logs,
      inner,
      returnData,
      before,
      after,
    };
    this.index(record, this.store.append(record));
    this.dirty = true;
  }

  index({ signature, slot, blockTime, err, keys }, place) {
    this.history.set(signature, { slot, blockTime, err, place });
    for (const key of new Set(keys)) {
      if (!this.byAddress.has(key)) this.byAddress.set(key, []);
      this.byAddress.get(key).push(signature);
    }
  }

  status(signature, searchHistory) {
    const entry = this.history.get(signature);
    if (!entry) return null;
    if (!searchHistory && entry.slot < this.finalized - STATUS_WINDOW) return null;
    return entry;
  }

  level(slot) {
    return slot <= this.finalized ? 'finalized' : slot <= this.confirmed ? 'confirmed' : 'processed';
  }
}

function outcome(meta) {
  const returned = meta.returnData();
  const data = Buffer.from(returned.data());
  return {
    logs: meta.logs(),
    units: meta.computeUnitsConsumed(),
    returnData: data.length === 0 ? null : { programId: base58.encode(returned.programId()), data: [data.toString('base64'), 'base64'] },
    inner: meta.innerInstructions().map((list, index) => ({
      index,
      instructions: list.map((i) => {
        const c = i.instruction();
        return {
          programIdIndex: c.programIdIndex(),
          accounts: [...c.accounts()],
          data: base58.encode(c.data()),
          stackHeight: i.stackHeight(),
        };
      }),
    })).filter((i) => i.instructions.length > 0),
  };
}

module.exports = { Chain, BLOCKHASH_WINDOW };
