const encoder = new TextEncoder();

export const utf8 = (text: string): Uint8Array => encoder.encode(text);

export const toHex = (bytes: Uint8Array): string => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");

export function fromHex(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length >> 1);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

export const isHash = (value: unknown): value is string => typeof value === "string" && /^[0-9a-f]{64}$/.test(value);

export function concat(...parts: Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

export async function sha256(...parts: Uint8Array[]): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", concat(...parts) as unknown as BufferSource));
}

const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/** Writes bytes in base58, Bitcoin's alphabet. */
export function toBase58(bytes: Uint8Array): string {
  let n = BigInt("0x0" + toHex(bytes)), text = "";
  for (; n > 0n; n /= 58n) text = alphabet[Number(n % 58n)] + text;
  for (const b of bytes) {
    if (b !== 0) break;
    text = "1" + text;
  }
  return text;
}

/**
 * Decodes base58 text to `size` bytes. Returns undefined unless the text is their
 * canonical form. A text that is too long is refused before it is decoded, because
 * decoding takes quadratic time.
 */
export function fromBase58(text: unknown, size: number): Uint8Array | undefined {
  if (typeof text !== "string" || text.length > (size * 11) / 8) return undefined;
  let n = 0n;
  for (const c of text) {
    const digit = alphabet.indexOf(c);
    if (digit < 0) return undefined;
    n = n * 58n + BigInt(digit);
  }
  const digits = n.toString(16).padStart(size * 2, "0");
  const bytes = digits.length === size * 2 ? fromHex(digits) : undefined;
  return bytes && toBase58(bytes) === text ? bytes : undefined;
}

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

export function u64(n: number | bigint): Uint8Array {
  const out = new Uint8Array(8);
  new DataView(out.buffer).setBigUint64(0, BigInt(n), true);
  return out;
}
