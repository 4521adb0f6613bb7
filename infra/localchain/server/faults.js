'use strict';
// Faults on demand, for tests. `_fault` exists only if the server was started
// with --faults. Each fault is one object: { op, ... }.
//
//   drop        { count }                  the next transactions get a signature and are lost
//   loseReply   { method, count }          the next calls are done, but the connection is closed without an answer
//   fail        { method, count, code?, message? }  the next calls are refused and not done
//   down        { on }                     every connection is closed without an answer
//   lag         { slots }                  confirmations are that many slots late
//   expire      {}                         every blockhash handed out so far is too old
//   advance     { slots }                  slots pass now
//   clock       { unixTimestamp }          the chain's time jumps there and runs on
//   setAccount  { address, lamports, owner, data (base64) }
//   rent        { rate, threshold }        the rent sysvar: lamports a byte and year, and years
//   reset       {}                         another genesis: all state and history gone

const svm = require('litesvm/dist/internal.js');
const base58 = require('./base58');
const { RpcError, INVALID_PARAMS, INTERNAL } = require('./errors');

class Faults {
  constructor() {
    this.drops = 0;
    this.down = false;
    this.lost = new Map(); // method -> calls left
    this.failing = new Map(); // method -> { count, code, message }
  }

  takeDrop() {
    if (this.drops === 0) return false;
    this.drops--;
    return true;
  }

  takeLostReply(method) {
    const left = this.lost.get(method) ?? 0;
    if (left > 0) this.lost.set(method, left - 1);
    return left > 0;
  }

  // Throws if a fault forbids this call.
  before(method) {
    const failing = this.failing.get(method);
    if (failing && failing.count > 0) {
      failing.count--;
      throw new RpcError(failing.code ?? INTERNAL, failing.message ?? 'Internal error');
    }
  }

  apply(chain, fault) {
    switch (fault?.op) {
      case 'drop':
        this.drops = fault.count;
        return null;
      case 'loseReply':
        this.lost.set(fault.method, fault.count);
        return null;
      case 'fail':
        this.failing.set(fault.method, { ...fault });
        return null;
      case 'down':
        this.down = fault.on === true;
        return null;
      default:
        return this.bend(chain, fault);
    }
  }

  bend(chain, fault) {
    switch (fault?.op) {
      case 'lag':
        chain.lag = fault.slots;
        return null;
      case 'expire':
        chain.expireBlockhashes();
        return chain.slot;
      case 'advance':
        for (let i = 0; i < fault.slots; i++) chain.tick(true);
        chain.save(); // after a restart, the wall clock can't account for these slots
        return chain.slot;
      case 'clock':
        chain.clockOffset = fault.unixTimestamp - Math.floor(chain.now() / 1000);
        chain.blocks.get(chain.slot).time = 0; // a test may also move time back
        chain.tick(true);
        chain.save();
        return chain.slot;
      case 'setAccount':
        return this.setAccount(chain, fault);
      case 'rent':
        chain.runtime.setRent(new svm.Rent(BigInt(fault.rate), fault.threshold, 50));
        chain.dirty = true;
        return null;
      case 'reset':
        chain.reset();
        return chain.genesisHash;
      default:
        throw new RpcError(INVALID_PARAMS, `unknown fault ${fault?.op}`);
    }
  }

  setAccount(chain, { address, lamports, owner, data }) {
    const bytes = Buffer.from(data ?? '', 'base64');
    const account = new svm.Account(BigInt(lamports), bytes, base58.decode(owner, 44), false, 0n);
    chain.remember(address, chain.current(address));
    chain.runtime.setAccount(base58.decode(address, 44), account);
    chain.dirty = true;
    return null;
  }
}

module.exports = { Faults };
