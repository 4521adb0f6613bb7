// Finds the wallets of this browser and makes each into what the client signs in with:
// a public key, and something that signs bytes. Knows the Wallet Standard and, for
// wallets that do not, window.solana.

/** What a wallet did, or did not, in words for people. */
export class WalletError extends Error {}

function standard(wallet) {
  const connecting = wallet.features['standard:connect'], signing = wallet.features['solana:signMessage'];
  const sending = wallet.features['solana:signAndSendTransaction'], approving = wallet.features['solana:signTransaction'];
  if (!connecting || !signing) return null;
  return {
    name: plain(wallet.name), icon: wallet.icon, sends: Boolean(sending), signs: Boolean(approving),
    async connect() {
      const shared = (await connecting.connect())?.accounts ?? [];
      const accounts = shared.length > 0 ? shared : wallet.accounts ?? [];
      const account = accounts.find((a) => a.features?.includes('solana:signMessage')) ?? accounts[0];
      if (!account) throw new WalletError('The wallet shared no address. Unlock it, then try again.');
      return {
        publicKey: account.address, account,
        async signMessage(message) {
          const [signed] = await signing.signMessage({ account, message });
          if (signed.signedMessage && !same(signed.signedMessage, message)) throw new WalletError('The wallet signed another text than it was given. Use another wallet.');
          return signed.signature;
        },
        // Both take the bytes of a transaction and a chain such as solana:mainnet.
        sendTransaction: sending && (async (transaction, chain) => (await sending.signAndSendTransaction({ account, transaction, chain }))[0].signature),
        signTransaction: approving && (async (transaction, chain) => (await approving.signTransaction({ account, transaction, chain }))[0].signedTransaction),
      };
    },
  };
}

function injected(provider) {
  if (typeof provider?.connect !== 'function' || typeof provider.signMessage !== 'function') return null;
  const known = [['isPhantom', 'Phantom'], ['isSolflare', 'Solflare'], ['isBackpack', 'Backpack']];
  return {
    name: known.find(([flag]) => provider[flag])?.[1] ?? "This browser's wallet", injected: true,
    async connect() {
      const key = (await provider.connect())?.publicKey ?? provider.publicKey;
      return {
        publicKey: String(key?.toBase58?.() ?? key),
        async signMessage(message) {
          const signed = await provider.signMessage(message, 'utf8');
          return Uint8Array.from(signed?.signature ?? signed);
        },
      };
    },
  };
}

const same = (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]);

// plain keeps a wallet's name from posing as more than a name.
function plain(name) {
  const letters = [...String(name ?? '').replace(/[\p{C}\p{Z}]+/gu, ' ').trim()];
  return (letters.length > 40 ? `${letters.slice(0, 39).join('')}…` : letters.join('')) || 'Wallet';
}

/** Calls found with all wallets, now and whenever they change. Returns what ends it. */
export function findWallets(found) {
  const wallets = new Map();
  const tell = () => {
    const all = [...wallets.values()];
    // window.solana is one of the others, by its older way in.
    found(all.some((w) => !w.injected) ? all.filter((w) => !w.injected) : all);
  };
  const add = (key, adapt) => {
    try {
      const wallet = wallets.has(key) ? null : adapt(key);
      if (!wallet) return;
      wallets.set(key, wallet);
      tell();
    } catch { /* a wallet that breaks when looked at can't be used */ }
  };
  const register = (...all) => {
    for (const wallet of all) add(wallet, standard);
    return () => {
      for (const wallet of all) wallets.delete(wallet);
      tell();
    };
  };
  const api = Object.freeze({ register });
  const hear = (event) => event.detail?.(api);
  window.addEventListener('wallet-standard:register-wallet', hear);
  window.dispatchEvent(new CustomEvent('wallet-standard:app-ready', { detail: api }));
  const look = () => wallets.size === 0 && add(window.solana, injected);
  look();
  const timer = setInterval(look, 400);
  return () => {
    clearInterval(timer);
    window.removeEventListener('wallet-standard:register-wallet', hear);
  };
}
