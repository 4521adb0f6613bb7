'use strict';
// Accounts in the form of JSON-RPC, including SPL Token balances.

const base58 = require('./base58');

const TOKEN_PROGRAMS = new Set([
  'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
  'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb',
]);
const TOKEN_ACCOUNT_LEN = 165;
const MINT_LEN = 82;

// Returns { mint, owner, amount } of an initialized token account, else null.
function token(account) {
  if (!account || !TOKEN_PROGRAMS.has(account.owner) || account.data.length < TOKEN_ACCOUNT_LEN) return null;
  if (account.data.length > TOKEN_ACCOUNT_LEN && account.data[TOKEN_ACCOUNT_LEN] !== 2) return null;
  if (account.data[108] === 0) return null;
  return {
    mint: base58.encode(account.data.subarray(0, 32)),
    owner: base58.encode(account.data.subarray(32, 64)),
    amount: account.data.readBigUInt64LE(64),
    programId: account.owner,
  };
}

// Returns a mint's decimals, or null if the account is not a mint.
function decimals(account) {
  if (!account || !TOKEN_PROGRAMS.has(account.owner) || account.data.length < MINT_LEN) return null;
  return account.data[44];
}

function uiAmount(amount, decimals) {
  const digits = String(amount).padStart(decimals + 1, '0');
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, '');
  const text = fraction === '' ? whole : `${whole}.${fraction}`;
  return { amount: String(amount), decimals, uiAmount: Number(text), uiAmountString: text };
}

// Returns the part of an account that a transaction's record keeps, before and after
// the transaction.
function summary(account) {
  const t = token(account);
  return {
    lamports: String(account?.lamports ?? 0n),
    ...(t && { token: { ...t, amount: String(t.amount) } }),
  };
}

function toJSON(account, encoding, slice) {
  if (account === null) return null;
  const data = slice ? account.data.subarray(slice.offset, slice.offset + slice.length) : account.data;
  const encoded = encoding === 'base58' ? [base58.encode(data), 'base58'] : [data.toString('base64'), 'base64'];
  return {
    lamports: account.lamports,
    data: encoded,
    owner: account.owner,
    executable: account.executable,
    rentEpoch: 18446744073709551615n,
    space: account.data.length,
  };
}

module.exports = { token, decimals, uiAmount, summary, toJSON };
