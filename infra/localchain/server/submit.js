'use strict';
// The JSON-RPC methods that take a transaction: send, simulate, airdrop.

const base58 = require('./base58');
const accounts = require('./accounts');
const failures = require('./failures');
const wire = require('./transaction');
const { address, level, contextual, lamports, invalid } = require('./methods');
const { RpcError, PREFLIGHT, SIGNATURE } = require('./errors');

const MAX_TEXT = { base58: 1683, base64: 1644 };

function decode(text, encoding = 'base58') {
  if (!(encoding in MAX_TEXT)) throw invalid(`unsupported encoding: ${encoding}. Supported encodings: base58, base64`);
  if (typeof text !== 'string') throw invalid('Invalid params: expected a transaction');
  const what = 'solana_transaction::versioned::VersionedTransaction';
  if (text.length > MAX_TEXT[encoding]) {
    throw invalid(`${encoding} encoded ${what} too large: ${text.length} bytes (max: encoded/raw ${MAX_TEXT[encoding]}/${wire.MAX_BYTES})`);
  }
  const bytes = encoding === 'base64' ? Buffer.from(text, 'base64') : base58.decode(text, MAX_TEXT.base58);
  if (bytes === null) throw invalid(`invalid ${encoding} encoding`);
  if (bytes.length > wire.MAX_BYTES) {
    throw invalid(`decoded ${what} too large: ${bytes.length} bytes (max: ${wire.MAX_BYTES} bytes)`);
  }
  try {
    return wire.parse(bytes);
  } catch (err) {
    throw invalid(`failed to deserialize ${what}: ${err.message}`);
  }
}

function preflight(chain, tx, commitment) {
  if (!wire.signaturesValid(tx)) throw new RpcError(SIGNATURE, 'Transaction signature verification failure');
  const result = chain.simulate(tx, { verify: true, level: commitment });
  if (result.err === null) return;
  throw new RpcError(PREFLIGHT, `Transaction simulation failed: ${failures.words(result.err)}`, {
    accounts: null,
    err: result.err,
    innerInstructions: null,
    logs: result.logs,
    replacementBlockhash: null,
    returnData: null,
    unitsConsumed: result.units,
  });
}

function send(chain, [text, config], faults) {
  const tx = decode(text, config?.encoding);
  if (!config?.skipPreflight) {
    preflight(chain, tx, level({ commitment: config?.preflightCommitment }));
  }
  // To its sender, a lost transaction looks like any other.
  if (!faults.takeDrop()) chain.execute(tx);
  return tx.signature;
}

function simulate(chain, [text, config]) {
  const tx = decode(text, config?.encoding);
  if (config?.sigVerify && config?.replaceRecentBlockhash) {
    throw invalid('sigVerify may not be used with replaceRecentBlockhash');
  }
  if (config?.sigVerify && !wire.signaturesValid(tx)) {
    throw new RpcError(SIGNATURE, 'Transaction signature verification failure');
  }
  return contextual(chain, config, (commitment) => {
    const result = chain.simulate(tx, {
      verify: false,
      level: commitment,
      replaceBlockhash: config?.replaceRecentBlockhash === true,
    });
    const wanted = config?.accounts?.addresses;
    const shown = (a) =>
      a === undefined
        ? null
        : accounts.toJSON({ lamports: a.lamports(), data: Buffer.from(a.data()), owner: base58.encode(a.owner()), executable: a.executable() }, 'base64');
    return {
      err: result.err,
      logs: result.logs,
      accounts: wanted && result.err === null ? wanted.map((k) => shown(result.accounts.get(address(k)))) : null,
      unitsConsumed: result.units,
      returnData: result.returnData ?? null,
      innerInstructions: config?.innerInstructions ? (result.inner ?? []) : null,
      ...(config?.replaceRecentBlockhash && { replacementBlockhash: chain.latestBlockhash(commitment) }),
    };
  });
}

function airdrop(chain, [key, amount]) {
  const to = address(key);
  const granted = lamports(amount);
  try {
    return chain.airdrop(to, granted);
  } catch (err) {
    throw invalid(`airdrop request failed: ${err.message}`);
  }
}

module.exports = { send, simulate, airdrop };
