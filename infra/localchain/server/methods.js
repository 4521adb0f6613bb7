'use strict';
// The JSON-RPC methods that read, shaped as Agave shapes them.

const base58 = require('./base58');
const accounts = require('./accounts');
const wire = require('./transaction');
const { RpcError, INVALID_PARAMS } = require('./errors');

const LEVELS = ['processed', 'confirmed', 'finalized'];

function invalid(message) {
  return new RpcError(INVALID_PARAMS, message);
}

function address(text) {
  const bytes = base58.decode(text, 44);
  if (bytes === null || bytes.length !== 32) throw invalid('Invalid param: WrongSize');
  return text;
}

function signature(text) {
  const bytes = base58.decode(text, 88);
  if (bytes === null || bytes.length !== 64) throw invalid('Invalid param: WrongSize');
  return text;
}

function level(config, atLeast) {
  const commitment = config?.commitment ?? 'finalized';
  if (!LEVELS.includes(commitment)) throw invalid(`Invalid params: unknown commitment ${commitment}`);
  if (atLeast && LEVELS.indexOf(commitment) < LEVELS.indexOf(atLeast)) {
    throw invalid(`Method does not support commitment below \`${atLeast}\``);
  }
  return commitment;
}

// Evaluates `read` at the requested level and wraps the result as { context, value }.
function contextual(chain, config, read) {
  const commitment = level(config);
  const slot = chain.at(commitment);
  if (config?.minContextSlot > slot) {
    throw new RpcError(-32016, 'Minimum context slot has not been reached', { contextSlot: slot });
  }
  return { context: { slot, apiVersion: '2.3.0' }, value: read(commitment, slot) };
}

function lamports(value) {
  if (!Number.isSafeInteger(value) || value < 0) throw invalid('Invalid params: expected u64');
  return BigInt(value);
}

function transaction(chain, sig, config) {
  const options = typeof config === 'string' ? { encoding: config } : (config ?? {});
  const entry = chain.history.get(signature(sig));
  if (!entry || entry.slot > chain.at(level(options, 'confirmed'))) return null;
  const record = chain.store.read(entry.place);
  const bytes = Buffer.from(record.bytes, 'base64');
  const parsed = bytes.length > 0 ? wire.parse(bytes) : null;
  const version = parsed?.message.version ?? 'legacy';
  if (version !== 'legacy' && options.maxSupportedTransactionVersion === undefined) {
    throw new RpcError(-32015, `Transaction version (${version}) is not supported by the requesting client. Please try the request again with the following configuration parameter: "maxSupportedTransactionVersion": ${version}`);
  }
  return {
    slot: record.slot,
    blockTime: record.blockTime,
    transaction: encodeTransaction(bytes, parsed, options.encoding ?? 'json'),
    meta: meta(chain, record),
    version,
  };
}

function encodeTransaction(bytes, parsed, encoding) {
  if (encoding === 'base64') return [bytes.toString('base64'), 'base64'];
  if (encoding === 'base58') return [base58.encode(bytes), 'base58'];
  if (parsed === null) return null;
  const m = parsed.message;
  return {
    signatures: parsed.signatures.map((s) => base58.encode(s)),
    message: {
      header: {
        numRequiredSignatures: m.required,
        numReadonlySignedAccounts: m.readonlySigned,
        numReadonlyUnsignedAccounts: m.readonlyUnsigned,
      },
      accountKeys: m.keys,
      recentBlockhash: m.blockhash,
      instructions: m.instructions.map((i) => ({
        programIdIndex: i.program,
        accounts: i.accounts,
        data: base58.encode(i.data),
        stackHeight: 1,
      })),
    },
  };
}

function meta(chain, record) {
  const tokens = (states) =>
    states.flatMap(({ token }, accountIndex) => {
      if (!token) return [];
      const decimals = accounts.decimals(chain.current(token.mint)) ?? 0;
      return [{ accountIndex, mint: token.mint, owner: token.owner, programId: token.programId, uiTokenAmount: accounts.uiAmount(BigInt(token.amount), decimals) }];
    });
  return {
    err: record.err,
    status: record.err === null ? { Ok: null } : { Err: record.err },
    fee: BigInt(record.fee),
    preBalances: record.before.map((a) => BigInt(a.lamports)),
    postBalances: record.after.map((a) => BigInt(a.lamports)),
    preTokenBalances: tokens(record.before),
    postTokenBalances: tokens(record.after),
    innerInstructions: record.inner,
    logMessages: record.logs,
    rewards: [],
    loadedAddresses: { writable: [], readonly: [] },
    computeUnitsConsumed: BigInt(record.units),
    ...(record.returnData && { returnData: record.returnData }),
  };
}

function signaturesFor(chain, key, config) {
  const limit = config?.limit ?? 1000;
  if (!Number.isInteger(limit) || limit < 1 || limit > 1000) throw invalid('Invalid limit; max 1000');
  const newest = chain.at(level(config, 'confirmed'));
  const all = chain.byAddress.get(address(key)) ?? [];
  const found = [];
  let i = all.length - 1;
  if (config?.before) {
    i = all.lastIndexOf(signature(config.before)) - 1;
  }
  for (; i >= 0 && found.length < limit && all[i] !== config?.until; i--) {
    const { slot, err, blockTime } = chain.history.get(all[i]);
    if (slot > newest) continue;
    found.push({ signature: all[i], slot, err, memo: null, blockTime, confirmationStatus: chain.level(slot) });
  }
  return found;
}

function statuses(chain, signatures, config) {
  if (!Array.isArray(signatures)) throw invalid('Invalid params: expected signatures');
  if (signatures.length > 256) throw invalid('Too many inputs provided; max 256');
  const value = signatures.map((s) => {
    const entry = chain.status(signature(s), config?.searchTransactionHistory === true);
    if (entry === null) return null;
    const final = entry.slot <= chain.finalized;
    return {
      slot: entry.slot,
      confirmations: final ? null : chain.slot - entry.slot,
      err: entry.err,
      status: entry.err === null ? { Ok: null } : { Err: entry.err },
      confirmationStatus: chain.level(entry.slot),
    };
  });
  return { context: { slot: chain.slot, apiVersion: '2.3.0' }, value };
}

function tokenBalance(chain, key, config) {
  return contextual(chain, config, (commitment) => {
    const account = chain.account(address(key), commitment);
    if (account === null) throw invalid('Invalid param: could not find account');
    const t = accounts.token(account);
    if (t === null) throw invalid('Invalid param: not a Token account');
    return accounts.uiAmount(t.amount, accounts.decimals(chain.current(t.mint)) ?? 0);
  });
}

function blockTime(chain, slot) {
  const block = chain.blocks.get(slot);
  if (!block) throw new RpcError(-32009, `Slot ${slot} was skipped, or missing in long-term storage`);
  return block.time;
}

function programAccounts(chain, program, config) {
  const found = chain.runtime.getProgramAccounts(base58.decode(address(program), 44));
  const wanted = (data) =>
    (config?.filters ?? []).every((f) => {
      if (f.dataSize !== undefined) return data.length === f.dataSize;
      const { offset, bytes, encoding } = f.memcmp;
      const want = encoding === 'base64' ? Buffer.from(bytes, 'base64') : base58.decode(bytes, 180);
      return want !== null && data.subarray(offset, offset + want.length).equals(want);
    });
  return found
    .map((a) => base58.encode(a.address))
    .map((pubkey) => ({ pubkey, account: chain.account(pubkey, level(config)) }))
    .filter((a) => a.account !== null && a.account.owner === program && wanted(a.account.data))
    .map(({ pubkey, account }) => ({ pubkey, account: accounts.toJSON(account, config?.encoding, config?.dataSlice) }));
}

function messageFee(chain, text, config) {
  return contextual(chain, config, (commitment) => {
    let message;
    try {
      message = wire.parseMessage(Buffer.from(text, 'base64'));
    } catch (err) {
      throw invalid(`invalid message: ${err.message}`);
    }
    return chain.blockhashValid(message.blockhash, commitment) ? wire.fee(message) : null;
  });
}

function epochInfo(chain, config) {
  const slot = chain.at(level(config));
  return { absoluteSlot: slot, blockHeight: slot, epoch: 0, slotIndex: slot, slotsInEpoch: 432000, transactionCount: chain.history.size };
}

// name -> (chain, params) -> result
const methods = {
  getHealth: () => 'ok',
  getVersion: () => ({ 'solana-core': '2.3.0', 'feature-set': 0 }),
  getGenesisHash: (chain) => chain.genesisHash,
  getSlot: (chain, [config]) => chain.at(level(config)),
  getBlockHeight: (chain, [config]) => chain.at(level(config)),
  getBlockTime: (chain, [slot]) => blockTime(chain, slot),
  getEpochInfo: (chain, [config]) => epochInfo(chain, config),
  getTransactionCount: (chain) => chain.history.size,
  getLatestBlockhash: (chain, [config]) =>
    contextual(chain, config, (commitment) => {
      const { blockhash, lastValidBlockHeight } = chain.latestBlockhash(commitment);
      return { blockhash, lastValidBlockHeight };
    }),
  isBlockhashValid: (chain, [hash, config]) =>
    contextual(chain, config, (commitment) => chain.blockhashValid(address(hash), commitment)),
  getBalance: (chain, [key, config]) =>
    contextual(chain, config, (commitment) => chain.account(address(key), commitment)?.lamports ?? 0),
  getAccountInfo: (chain, [key, config]) =>
    contextual(chain, config, (commitment) =>
      accounts.toJSON(chain.account(address(key), commitment), config?.encoding, config?.dataSlice)),
  getMultipleAccounts: (chain, [keys, config]) => {
    if (!Array.isArray(keys) || keys.length > 100) throw invalid('Too many inputs provided; max 100');
    return contextual(chain, config, (commitment) =>
      keys.map((k) => accounts.toJSON(chain.account(address(k), commitment), config?.encoding, config?.dataSlice)));
  },
  getProgramAccounts: (chain, [program, config]) => programAccounts(chain, program, config),
  getTokenAccountBalance: (chain, [key, config]) => tokenBalance(chain, key, config),
  getMinimumBalanceForRentExemption: (chain, [length]) =>
    chain.runtime.minimumBalanceForRentExemption(lamports(length)),
  getFeeForMessage: (chain, [message, config]) => messageFee(chain, message, config),
  getRecentPrioritizationFees: (chain) => [{ slot: chain.slot, prioritizationFee: 0 }],
  getSignatureStatuses: (chain, [signatures, config]) => statuses(chain, signatures, config),
  getSignaturesForAddress: (chain, [key, config]) => signaturesFor(chain, key, config),
  getTransaction: (chain, [sig, config]) => transaction(chain, sig, config),
};

module.exports = { methods, address, level, contextual, lamports, invalid };
