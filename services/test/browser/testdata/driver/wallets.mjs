// Wallets for the tests, each with a real ed25519 key. They run inside the
// page, before its own script, as a wallet's content script does. So each
// function must be self-contained.

// installWallet puts a wallet into the page. Options:
//   name, icon
//   key      {pkcs8, raw} in base64, to have the same key on every page; if left out,
//            the wallet makes a fresh key
//   kind     'standard' (default), 'injected' (window.solana alone), 'both'
//   features some of 'solana:signMessage' (default), 'solana:signIn' and others
//   hardware it signs only transactions and off-chain envelopes, of version 1
//   rpc      the Solana node that transactions are sent to
//   late     register only when the test calls window.testWallet.arrive()
//   connect  answers to connect, in order; the last one repeats:
//            'ok', 'locked', 'hang', 'nothing'
//   sign     answers to sign, likewise: 'ok', 'refuse', 'hang', 'change', 'wrong',
//            'short', and for a transaction 'keep', which signs but does not send it
export function installWallet(options) {
  if (!crypto.subtle) return; // a page that is not secure, such as about:blank of an extension
  const alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
  const base58 = (bytes) => {
    let number = bytes.reduce((n, byte) => n * 256n + BigInt(byte), 0n);
    let text = '';
    for (; number > 0n; number /= 58n) text = alphabet[Number(number % 58n)] + text;
    for (const byte of bytes) {
      if (byte !== 0) break;
      text = '1' + text;
    }
    return text;
  };

  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const keys = options.key
    ? crypto.subtle.importKey('pkcs8', bytes(options.key.pkcs8), 'Ed25519', false, ['sign']).then((privateKey) => ({ privateKey }))
    : crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify']);
  const publicKey = options.key
    ? Promise.resolve(bytes(options.key.raw))
    : keys.then(async (pair) => new Uint8Array(await crypto.subtle.exportKey('raw', pair.publicKey)));
  const seen = []; // every text that the wallet was asked to sign
  const asked = []; // the feature of each request

  const behave = (script = ['ok']) => () => (script.length > 1 ? script.shift() : script[0]);
  const connecting = behave(options.connect);
  const signing = behave(options.sign);
  const never = new Promise(() => {});
  const declined = (text) => Object.assign(new Error(text), { code: 4001 });

  const share = async () => {
    const how = connecting();
    if (how === 'locked') throw declined('The wallet is locked.');
    if (how === 'hang') return never;
    if (how === 'nothing') return null;
    return publicKey;
  };

  const sign = async (message, feature) => {
    const text = new TextDecoder().decode(message);
    seen.push(text);
    asked.push(feature);
    const how = signing();
    if (how === 'refuse' || options.hardware && message[0] !== 0xff) throw declined('User rejected the request.');
    if (how === 'hang') return never;
    if (how === 'short') return { signedMessage: message, signature: new Uint8Array(63) };
    let signedMessage = message;
    if (how === 'change') signedMessage = new TextEncoder().encode(`${text}\nResources:`);
    const toSign = how === 'wrong' ? new Uint8Array([1, 2, 3]) : signedMessage;
    const { privateKey } = await keys;
    return { signedMessage, signature: new Uint8Array(await crypto.subtle.sign('Ed25519', privateKey, toSign)) };
  };

  // A transaction is the number of signatures, the one signature, and the message.
  const signTransaction = async ({ transaction, chain }, feature) => {
    asked.push(`${feature} ${chain}`);
    const how = signing();
    if (how === 'refuse') throw declined('User rejected the request.');
    if (how === 'hang') return never;
    const signature = new Uint8Array(await crypto.subtle.sign('Ed25519', (await keys).privateKey, transaction.slice(65)));
    const signedTransaction = Uint8Array.from([1, ...signature, ...transaction.slice(65)]);
    if (feature === 'signTransaction' || how === 'keep') return { signature, signedTransaction };
    const params = [btoa(String.fromCharCode(...signedTransaction)), { encoding: 'base64', preflightCommitment: 'confirmed' }];
    const response = await fetch(options.rpc, {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'sendTransaction', params }),
    });
    const { error } = await response.json();
    if (error) throw new Error(error.message);
    return { signature };
  };

  // The text of Sign-In With Solana, made from its fields as wallets do.
  const signInText = (input) => [
    `${input.domain} wants you to sign in with your Solana account:`, input.address, '', input.statement, '',
    `URI: ${input.uri}`, `Version: ${input.version}`, `Chain ID: ${input.chainId}`, `Nonce: ${input.nonce}`,
    `Issued At: ${input.issuedAt}`, `Expiration Time: ${input.expirationTime}`,
  ].join('\n');

  const envelope = async (text) => Uint8Array.from([0xff, ...new TextEncoder().encode('solana offchain'), 1, 1, ...await publicKey, ...new TextEncoder().encode(text)]);

  const features = options.features ?? ['solana:signMessage'];
  const methods = {
    version: options.hardware ? '1.1.0' : '1.0.0',
    supportedMessageVersions: [1],
    signOffchainMessage: async (...inputs) => Promise.all(inputs.map(async ({ message, messageVersion, requiredSigners }) => {
      if (messageVersion !== 1 || requiredSigners.length !== 1) throw new Error('another version or another signer');
      const { signedMessage, signature } = await sign(await envelope(message), 'signOffchainMessage');
      return { signedOffchainMessage: signedMessage, signature };
    })),
    signMessage: async (...inputs) => Promise.all(inputs.map(({ message }) => sign(message, 'signMessage'))),
    signTransaction: async (...inputs) => Promise.all(inputs.map((input) => signTransaction(input, 'signTransaction'))),
    signAndSendTransaction: async (...inputs) => Promise.all(inputs.map((input) => signTransaction(input, 'signAndSendTransaction'))),
    signIn: async (...inputs) => Promise.all(inputs.map(async (input) =>
      sign(input.useOffchainMessage?.messageVersion === 1 ? await envelope(signInText(input)) : new TextEncoder().encode(signInText(input)), 'signIn'))),
  };
  const wallet = {
    version: '1.0.0', name: options.name, icon: options.icon, chains: ['solana:mainnet'], accounts: [],
    features: {
      'standard:connect': {
        version: '1.0.0',
        connect: async () => {
          const key = await share();
          if (!key) return { accounts: [] };
          const account = { address: base58(key), publicKey: key, chains: wallet.chains, features };
          return { accounts: [account] };
        },
      },
      ...Object.fromEntries(features.map((feature) => [feature, methods])),
    },
  };

  const injected = {
    isPhantom: true,
    publicKey: null,
    connect: async () => {
      const key = await share();
      injected.publicKey = { toBase58: () => base58(key), toString: () => base58(key) };
      return { publicKey: injected.publicKey };
    },
    signMessage: async (message) => ({ signature: (await sign(message)).signature, publicKey: injected.publicKey }),
  };

  const arrive = () => {
    if (options.kind === 'injected' || options.kind === 'both') window.solana = injected;
    if (options.kind === 'injected') return;
    const register = (api) => api.register(wallet);
    window.dispatchEvent(new CustomEvent('wallet-standard:register-wallet', { detail: register }));
    window.addEventListener('wallet-standard:app-ready', (event) => register(event.detail));
  };
  window.testWallet = { seen, asked, arrive };
  if (!options.late) arrive();
}
