import { fromBase58, toBase58 } from "./bytes.js";

/** A wallet that can sign in: a public key in base58, and a function that signs bytes with its private key. */
export interface Wallet {
  publicKey: string;
  signMessage(message: Uint8Array): Promise<Uint8Array>;
}

/** The part of a Wallet Standard account and wallet that signing in needs. */
export interface StandardAccount { address: string }
export interface StandardWallet<A extends StandardAccount = StandardAccount> {
  accounts: readonly A[];
  features: Record<string, unknown>;
}

/**
 * Adapts a wallet of the Wallet Standard: by its solana:signOffchainMessage feature, which
 * hardware wallets need, or else by solana:signMessage.
 */
export function standardWallet<A extends StandardAccount>(wallet: StandardWallet<A>, account: A | undefined = wallet.accounts[0]): Wallet {
  const plain = wallet.features["solana:signMessage"] as
    | { signMessage(input: { account: A; message: Uint8Array }): Promise<readonly { signature: Uint8Array }[]> }
    | undefined;
  const enveloping = wallet.features["solana:signOffchainMessage"] as
    | {
      supportedMessageVersions: readonly number[];
      signOffchainMessage(input: { messageVersion: 1; account: A; message: string; requiredSigners: Uint8Array[] }): Promise<readonly { signature: Uint8Array }[]>;
    }
    | undefined;
  const envelope = enveloping?.supportedMessageVersions?.includes(1) ? enveloping : undefined;
  const signer = account && fromBase58(account.address, 32);
  if (!(plain || envelope) || !account || !signer) throw new TypeError("the wallet has no account that signs messages");
  return {
    publicKey: account.address,
    async signMessage(message) {
      const [output] = envelope
        ? await envelope.signOffchainMessage({ messageVersion: 1, account, message: new TextDecoder().decode(message), requiredSigners: [signer] })
        : await plain!.signMessage({ account, message });
      if (!output) throw new TypeError("the wallet signed nothing");
      return output.signature;
    },
  };
}

/**
 * Makes a wallet from a key pair in the form of Solana's command line: 64 bytes, the seed
 * and the public key. Needs WebCrypto with Ed25519 (Node 20, Deno, Bun, browsers of 2025).
 */
export async function keypairWallet(secretKey: Uint8Array): Promise<Wallet> {
  if (secretKey.length !== 64) throw new TypeError("a key pair has 64 bytes");
  const seed = secretKey.slice(0, 32), publicKey = secretKey.slice(32);
  // An Ed25519 private key in PKCS #8 (RFC 8410) is this prefix and the seed.
  const pkcs8 = Uint8Array.from([48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32, ...seed]);
  const key = await crypto.subtle.importKey("pkcs8", pkcs8 as unknown as BufferSource, "Ed25519", false, ["sign"]);
  return {
    publicKey: toBase58(publicKey),
    signMessage: async (message) => new Uint8Array(await crypto.subtle.sign("Ed25519", key, message as unknown as BufferSource)),
  };
}
