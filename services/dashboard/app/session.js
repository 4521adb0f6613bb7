// The session, the clients that call the APIs, and the feed of the owner's events.
import { MemoryLedger, UnauthorizedError } from './vendor-ledger.js';

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
  else sessionStorage.clear();
}

// Heads of the log outlive the session: they are public, and only an older head can
// reveal a rewritten log.
const heads = {
  get: (owner) => JSON.parse(localStorage.getItem(`head:${owner}`) ?? 'null') ?? undefined,
  set: (owner, head) => localStorage.setItem(`head:${owner}`, JSON.stringify(head)),
};

export function ledgerOf(session) {
  return new MemoryLedger({
    url: location.origin, publicUrl, session: session.token, owner: session.publicKey, heads,
    rpcUrl: site.rpcUrl || undefined, stakingProgram, retries: 1,
  });
}

// signInTo signs in to one of the two APIs. Both have the same routes for sign-in.
export async function signInTo(url, wallet) {
  return new MemoryLedger({ url, publicUrl: url === location.origin ? publicUrl : url, retries: 1 }).signIn(wallet);
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

export const keepExtensionSession = (extension) => sessionStorage.setItem('extension', JSON.stringify(extension));

// follow reads the owner's events as they happen, from now on. After a failure, it
// reconnects where it left off. on.events gets each page, on.start the first cursor,
// on.state "live" or "offline". follow returns a function that stops it.
export function follow(session, on) {
  const ended = new AbortController();
  let last = '', quiet;
  const stream = async () => {
    // A connection may die without a sign. The limit is three of the service's heartbeats.
    const silent = new AbortController();
    const heard = () => { clearTimeout(quiet); quiet = setTimeout(() => silent.abort(), 45_000); };
    heard();
    const headers = { Authorization: `Bearer ${session.token}`, Accept: 'text/event-stream' };
    if (last) headers['Last-Event-ID'] = last;
    const response = await fetch('/events', { headers, signal: AbortSignal.any([ended.signal, silent.signal]) });
    if (response.status === 401) throw new UnauthorizedError(401, 'the session has ended');
    if (!response.ok) throw new Error(`events: ${response.status}`);
    on.state('live');
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ''; ;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const messages = (text + value).split('\n\n');
      text = messages.pop();
      for (const message of messages) read(message);
    }
  };
  const read = (message) => {
    let data = '';
    for (const line of message.split('\n')) {
      if (line.startsWith('id: ')) {
        if (!last) on.start(line.slice(4));
        last = line.slice(4);
      } else if (line.startsWith('data: ')) data += line.slice(6);
    }
    if (data) on.events(JSON.parse(data).events);
  };
  (async () => {
    for (let wait = 1000; !ended.signal.aborted; wait = Math.min(wait * 2, 30_000)) {
      const began = Date.now();
      try {
        await stream();
      } catch (error) {
        if (ended.signal.aborted) return;
        if (error instanceof UnauthorizedError) return on.expired();
      } finally {
        clearTimeout(quiet);
      }
      on.state('offline');
      if (Date.now() - began > 30_000) wait = 1000; // the connection was up in between
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  })();
  return () => ended.abort();
}
