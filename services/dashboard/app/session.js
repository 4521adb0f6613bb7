// The session, and the clients that call the APIs.
import { MemoryLedger } from './vendor-ledger.js';

export const site = { coreUrl: document.body.dataset.coreUrl, extensionUrl: document.body.dataset.extensionUrl, rpcUrl: document.body.dataset.rpcUrl, chain: document.body.dataset.chain };

// The address that wallets are shown. If this page is at another one, a relay may have sent
// it, so nothing is signed here that is valid there.
const publicUrl = new URL(site.coreUrl).origin === location.origin ? site.coreUrl : location.origin;

// A transaction that does anything else than move tokens by this program is not signed.
const { stakingProgram: programId, stakeMint: mint } = document.body.dataset;
const stakingProgram = programId && mint ? { programId, mint } : undefined;

// Sessions are kept in sessionStorage: they survive a reload, end with the tab, and no
// other tab or site sees them. The browser would send a cookie by itself, and localStorage
// would keep a token on a shared computer after the tab was closed.
const stored = (name) => JSON.parse(sessionStorage.getItem(name) ?? 'null');

export function loadSession() {
  const session = stored('session');
  return session && Date.parse(session.expiresAt) > Date.now() ? session : null;
}

export function keepSession(session) {
  if (session) sessionStorage.setItem('session', JSON.stringify(session));
  else for (const name of Object.keys(sessionStorage)) if (!name.startsWith('draft:')) sessionStorage.removeItem(name);
}

// Drafts outlive the session, so that its end loses no words: until their owner signs out, or
// another one signs in.
const draftName = (owner, name) => `draft:${owner}:${name}`;

export const draftOf = (owner, name) => stored(draftName(owner, name));

export function keepDraft(owner, name, draft) {
  if (draft) sessionStorage.setItem(draftName(owner, name), JSON.stringify(draft));
  else sessionStorage.removeItem(draftName(owner, name));
}

/** Removes the drafts of all owners, or of all but one. */
export function dropDrafts(owner = '') {
  for (const name of Object.keys(sessionStorage)) if (name.startsWith('draft:') && !name.startsWith(`draft:${owner}:`)) sessionStorage.removeItem(name);
}

// Heads of the log outlive the session: they are public, and only an older head can
// reveal a rewritten log. One that finds the storage full lasts as long as this tab.
const unkept = new Map();
const heads = {
  get: (owner) => unkept.get(owner) ?? JSON.parse(localStorage.getItem(`head:${owner}`) ?? 'null') ?? undefined,
  set(owner, head) {
    unkept.delete(owner);
    try { localStorage.setItem(`head:${owner}`, JSON.stringify(head)); } catch { unkept.set(owner, head); }
  },
};

export function ledgerOf(session) {
  return new MemoryLedger({
    url: location.origin, publicUrl, session: session.token, owner: session.publicKey, heads,
    rpcUrl: site.rpcUrl || undefined, stakingProgram, retries: 1,
  });
}

// signInTo signs in to one of the two APIs. Both have the same routes for sign-in. The session's end is by this machine's
// clock, which may be ahead of the service's by some milliseconds or an hour: the challenge says when it was made.
export async function signInTo(url, wallet) {
  let ahead;
  const signMessage = (message) => {
    ahead = Date.now() - Date.parse(/^Issued At: (.+)$/m.exec(new TextDecoder().decode(message))[1]);
    return wallet.signMessage(message);
  };
  const session = await new MemoryLedger({ url, publicUrl: url === location.origin ? publicUrl : url, retries: 1 }).signIn({ ...wallet, signMessage });
  return { ...session, ahead, expiresAt: new Date(Date.parse(session.expiresAt) + ahead).toISOString() };
}

// grantsOf returns the client of the extension API, which makes links. That API has its
// own session, which takes another signature. Until then, grantsOf returns null.
export function grantsOf(session) {
  const extension = stored('extension');
  if (!extension || Date.parse(extension.expiresAt) <= Date.now()) return null;
  return new MemoryLedger({
    url: location.origin, session: session.token, owner: session.publicKey, retries: 1,
    extensionUrl: site.extensionUrl, extensionSession: extension.token,
  }).grants;
}

// linksOf returns the newest link of each kind that this tab made. Only the tab that made a link
// knows its address.
export const linksOf = (owner) => stored('links')?.[owner] ?? {};

export const keepLinks = (owner, links) => sessionStorage.setItem('links', JSON.stringify({ [owner]: links }));

export const keepExtensionSession = (extension) => sessionStorage.setItem('extension', JSON.stringify(extension));
