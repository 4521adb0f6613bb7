// The service: its address, the session, and the calls. All state is in storage.local: url,
// session {url, owner, token, expiresAt}, signIn {url, state}, drop {url, owner, drop}, queue
// (queue.js).
import { Transport } from './client/http.js';
import { Queue } from './queue.js';

export const localRun = 'http://127.0.0.1:3002';
const local = chrome.storage.local;
// Chrome lets scripts in pages read it unless told otherwise. In Firefox, where such scripts can
// always read it, setAccessLevel is missing.
local.setAccessLevel?.({ accessLevel: 'TRUSTED_CONTEXTS' });
// No retries here: the queue repeats a write itself, minutes later if necessary.
const transport = new Transport({ fetch: (...args) => fetch(...args), timeoutMs: 30_000, retries: 0, backoffMs: 0 });

export const queue = new Queue(local, (name, fn) => navigator.locks.request(name, fn));

export async function serviceURL() {
  return (await local.get('url')).url ?? localRun;
}

/**
 * Returns the last session with the configured service, or else the link that saves there, or
 * undefined. An ended session has no token. A link has no token, and its path is its owner: what
 * was saved for it goes to no other log.
 */
export async function session() {
  const { session, drop } = await local.get(['session', 'drop']), url = await serviceURL();
  return [session, drop].find((way) => way?.url === url);
}

/** Says what answers at an address: undefined if it is not a service of ours. Throws if nothing answers. */
export async function serviceAt(url) {
  const { body } = await transport.send({ method: 'GET', url: `${url}/health`, timeoutMs: 5000 });
  return body?.service;
}

/** Takes a link to add, at the configured service: it saves without a sign-in, and reads nothing. */
export async function saveByLink(url, path) {
  await signOut();
  await configure(url);
  await local.set({ drop: { url, owner: path, drop: path } });
}

/** Changes the service. The session is deleted, because its token is of no use at the new service. */
export async function configure(url) {
  await local.set({ url });
  await local.remove(['session', 'signIn', 'drop']);
}

/**
 * Opens the sign-in page. Only a callback with this state is accepted: otherwise another page
 * could sign the user in to that page's own account.
 */
export async function signIn() {
  const state = crypto.randomUUID(), url = await serviceURL();
  await local.set({ signIn: { url, state } });
  const callback = `${chrome.runtime.getURL('callback.html')}?state=${state}`;
  await chrome.tabs.create({ url: `${url}/connect?callback=${encodeURIComponent(callback)}` });
}

/** Takes the session out of a callback's address. Returns false if the state is not the one that signIn sent. */
export async function accept(search, hash) {
  const { signIn } = await local.get('signIn');
  const state = new URLSearchParams(search).get('state');
  if (!signIn || state !== signIn.state) return false;
  const given = Object.fromEntries(new URLSearchParams(hash.slice(1)));
  if (!given.token || !given.publicKey) return false;
  await local.set({ session: { url: signIn.url, owner: given.publicKey, token: given.token, expiresAt: given.expiresAt } });
  await local.remove(['signIn', 'drop']);
  return true;
}

/** Ends the session; locally, even if the service can't be reached. Queued entries still belong to its wallet. */
export async function signOut() {
  const ended = await session();
  await local.remove(['session', 'drop']);
  if (ended?.token) await call(ended, 'POST', '/auth/logout').catch(() => {});
}

/** Calls the service. After a 401, the stored session loses its token and keeps its owner. */
async function call({ url, token }, method, path, request) {
  try {
    return (await transport.send({ ...request, method, url: url + path, credential: token })).body;
  } catch (error) {
    if (error.status === 401) {
      const { session } = await local.get('session');
      // Leave the token of a newer sign-in alone.
      if (session?.token === token) await local.set({ session: { ...session, token: undefined } });
    }
    throw error;
  }
}

/** Queues {content, source, metadata}. The worker sends it when it sees the queue change. */
export async function save(body) {
  const url = await serviceURL(), owner = (await session())?.owner ?? null;
  await queue.add({ key: crypto.randomUUID(), url, owner, body });
}

/** Sends the queue. Returns the number of entries stored; 0 without a session or a link. */
export async function sendQueue() {
  const to = await session();
  if (!to?.token && !to?.drop) return 0;
  return queue.flush(to, ({ key, body }) => call(to, 'POST', to.drop ?? '/memories', { idempotencyKey: key, body }).catch((error) => {
    if (!to.drop || error.status !== 404) throw error;
    // The link takes nothing more. The owner decides what becomes of what is left.
    local.remove('drop');
    throw Object.assign(new Error('The link was used up, or has ended.'), { status: 400 });
  }));
}

/** How many results a search shows. */
export const shown = 50;

/** Returns the memories that answer a question best; the newest, if it is empty. */
export async function search(text, signal) {
  const how = text ? { query: text, mode: 'ranked' } : { order: 'newest' };
  const { memories } = await call(await session(), 'POST', '/memories/search', { signal, body: { ...how, limit: shown } });
  return memories;
}
