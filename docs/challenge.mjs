// Refuses any text to sign but the one that a service has for signing in: a signature over
// another text could sign in somewhere else, or do something else.
const time = "\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z";

// A terminal would act on control characters.
const printable = (text) => text.replace(/[^\n\x20-\x7e]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

// base is the service's public base URL, publicKey the account. Returns the message.
export function expected(message, base, publicKey) {
  const site = base.replace(/\/+$/, "");
  const fixed = `${new URL(site).host} wants you to sign in with your Solana account:
${publicKey}

Sign in to Memory Ledger. This proves that you hold this wallet's key. It costs nothing and moves nothing.

URI: ${site}
Version: 1
`;
  const rest = new RegExp(`^Chain ID: [\\w:.-]+\nNonce: [A-Za-z0-9]{8,}\nIssued At: ${time}\nExpiration Time: ${time}$`);
  if (message.startsWith(fixed) && rest.test(message.slice(fixed.length))) return message;
  console.error(`This is not the text for signing in to ${site}, so it was not signed:\n${printable(message)}\nIf ${site} is another address of the same service, name its own.`);
  process.exit(1);
}
