// Finds the wallets of this browser, and calls them by the Wallet Standard or, for wallets
// without it, by window.solana. The sign-in page and the dashboard share this file.

/** A failure of a wallet. kind is 'locked', 'changed' or 'mismatch'; the message is for people. */
export class WalletError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

/**
 * Calls found with all wallets, now and whenever they change. Returns a function that stops
 * it. A wallet has name, icon, its abilities (envelopes: for hardware wallets, sends: sign and
 * send a transaction, signs: sign a transaction), and connect, which resolves to an account:
 * - publicKey, in base58
 * - signChallenge(text, signal), the signature of a Sign-In With Solana text, or of an
 *   off-chain envelope around it
 * - signMessage(bytes), the same for a text in bytes
 * - sendTransaction(bytes, chain), the transaction's signature; chain is solana:mainnet or similar
 * - signTransaction(bytes, chain), the signed transaction
 */
export function findWallets(found) {
  const wallets = new Map(); // the browser's object -> the wallet
  const tell = () => {
    const all = [...wallets.values()];
    // If there are others, window.solana is the older interface of one of them: leave it out.
    found(all.some((wallet) => !wallet.injected) ? all.filter((wallet) => !wallet.injected) : all);
  };
  const add = (key, adapt) => {
    try {
      const wallet = wallets.has(key) ? null : adapt(key);
      if (!wallet) return;
      wallets.set(key, wallet);
    } catch {
      return; // a wallet that throws here can't be used
    }
    tell();
  };
  const register = (...all) => {
    for (const wallet of all) add(wallet, standardWallet);
    return () => {
      for (const wallet of all) wallets.delete(wallet);
      tell();
    };
  };
  const api = Object.freeze({ register });
  const hear = (event) => event.detail?.(api);
  window.addEventListener('wallet-standard:register-wallet', hear);
  window.dispatchEvent(new CustomEvent('wallet-standard:app-ready', { detail: api }));
  const look = () => wallets.size === 0 && add(window.solana, injectedWallet);
  look();
  const timer = setInterval(look, 400); // ms; window.solana appears when its extension is ready
  return () => {
    clearInterval(timer);
    window.removeEventListener('wallet-standard:register-wallet', hear);
  };
}

// standardWallet adapts a wallet of the Wallet Standard, or returns null if the wallet
// can't sign in.
function standardWallet(wallet) {
  const {
    'standard:connect': connecting, 'solana:signIn': signingIn, 'solana:signOffchainMessage': enveloping,
    'solana:signMessage': signing, 'solana:signAndSendTransaction': sending, 'solana:signTransaction': approving,
  } = wallet.features;
  const messageVersion = 1; // of off-chain messages
  const [major, minor] = (signingIn?.version ?? '').split('.').map(Number);
  const envelopes = major > 1 || major === 1 && minor > 0; // the signIn feature knows of them
  const ways = []; // the best first; each resolves to the signature of a text, and what was signed
  if (signingIn) {
    ways.push(['solana:signIn', async (_, text) => {
      const [signed] = await signingIn.signIn({ ...signInInput(text), ...(envelopes && { useOffchainMessage: { messageVersion } }) });
      return signed;
    }]);
  }
  if (enveloping?.supportedMessageVersions?.includes(messageVersion)) {
    ways.push(['solana:signOffchainMessage', async (account, message) => {
      const [signed] = await enveloping.signOffchainMessage({ messageVersion, account, message, requiredSigners: [account.publicKey] });
      return { ...signed, signedMessage: signed.signedOffchainMessage };
    }]);
  }
  if (signing) {
    ways.push(['solana:signMessage', async (account, text) => {
      const message = new TextEncoder().encode(text), [signed] = await signing.signMessage({ account, message });
      return { signedMessage: message, ...signed };
    }]);
  }
  if (!connecting || ways.length === 0) return null;
  let next = 0; // after a failure, the next way
  return {
    name: plainName(wallet.name), icon: wallet.icon, envelopes: envelopes || Boolean(enveloping), sends: Boolean(sending), signs: Boolean(approving),
    async connect() {
      const shared = (await connecting.connect())?.accounts ?? [];
      const accounts = shared.length > 0 ? shared : wallet.accounts ?? [];
      const account = accounts.find((a) => a.features?.includes(ways[0][0])) ?? accounts[0];
      const signChallenge = async (text, signal) => {
        const message = new TextEncoder().encode(text);
        for (let left = ways.length; left > 0; left--) {
          const now = next;
          next = (now + 1) % ways.length; // until this way succeeds
          const signed = await ways[now][1](account, text);
          if (holds(signed.signedMessage ?? [], message)) {
            next = now;
            return checkedSignature(signed.signature);
          }
          signal?.throwIfAborted(); // after a cancel, the wallet must not ask again
        }
        throw changed();
      };
      return {
        publicKey: checkedAddress(account?.address), signChallenge, signMessage: (bytes) => signChallenge(new TextDecoder().decode(bytes)),
        sendTransaction: sending && (async (transaction, chain) => (await sending.signAndSendTransaction({ account, transaction, chain }))[0].signature),
        signTransaction: approving && (async (transaction, chain) => (await approving.signTransaction({ account, transaction, chain }))[0].signedTransaction),
      };
    },
  };
}

// holds reports whether a wallet signed the message itself, or an envelope around it, whose
// first byte begins no text. The service compares the rest.
function holds(signed, message) {
  return sameBytes(signed, message) || signed[0] === 0xff && sameBytes(signed.slice(-message.length), message);
}

// injectedWallet adapts window.solana, for wallets without the Wallet Standard.
function injectedWallet(provider) {
  if (typeof provider?.connect !== 'function' || typeof provider.signMessage !== 'function') return null;
  const known = [['isPhantom', 'Phantom'], ['isSolflare', 'Solflare'], ['isBackpack', 'Backpack']];
  return {
    name: known.find(([flag]) => provider[flag])?.[1] ?? "This browser's wallet",
    injected: true,
    async connect() {
      const key = (await provider.connect())?.publicKey ?? provider.publicKey;
      const signMessage = async (message) => {
        const signed = await provider.signMessage(message, 'utf8');
        return checkedSignature(signed?.signature ?? signed);
      };
      return {
        publicKey: checkedAddress(String(key?.toBase58?.() ?? key)), signMessage,
        signChallenge: (text) => signMessage(new TextEncoder().encode(text)),
      };
    },
  };
}

const longestName = 40;

// plainName cleans and shortens a wallet's name, so that it can't pose as other text.
function plainName(name) {
  const letters = [...String(name ?? '').replace(/[\p{C}\p{Z}]+/gu, ' ').trim()];
  if (letters.length > longestName) return `${letters.slice(0, longestName - 1).join('').trim()}…`;
  return letters.join('') || 'Wallet';
}

const addressForm = /^[1-9A-HJ-NP-Za-km-z]{32,44}$/;

function checkedAddress(text) {
  if (!addressForm.test(text)) throw new WalletError('locked', 'The wallet shared no address. Unlock it, then try again.');
  return text;
}

function checkedSignature(bytes) {
  const signature = Uint8Array.from(bytes ?? []);
  if (signature.length !== 64) throw new WalletError('mismatch', 'What the wallet gave is no signature. Try again, or use another wallet.');
  return signature;
}

function changed() {
  return new WalletError('changed', 'The wallet signed another text than it was given. Use another wallet.');
}

function sameBytes(a, b) {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

// signInInput parses the challenge back into its fields.
function signInInput(text) {
  const lines = text.split('\n');
  const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
  return {
    domain: lines[0].split(' ')[0], address: lines[1], statement: lines[3],
    uri: field('URI'), version: field('Version'), chainId: field('Chain ID'), nonce: field('Nonce'),
    issuedAt: field('Issued At'), expirationTime: field('Expiration Time'),
  };
}
