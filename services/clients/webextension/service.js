// The service: its address, the session, and the calls. All state is in storage.local: url,
// session {url, owner, token, expiresAt}, signIn {url, state}, drop {url, owner, drop}, writer
// {url, owner, client, token, refresh}, queue (queue.js). url is the extension API's address,
// and writer.url the core API's.
import { Transport } from './client/http.js';
import { Queue } from './queue.js';

export const localRun = 'http://127.0.0.1:3002';
const local = chrome.storage.local;
// Chrome lets scripts in pages read it unless told otherwise. In Firefox, where such scripts can
// always read it, setAccessLevel is missing.
local.setAccessLevel?.({ accessLevel: 'TRUSTED_CONTEXTS' });
// No retries here: the queue repeats a write itself, minutes later if necessary.
const transport = new Transport({ fetch: (...args) => fetch(...args), timeoutMs: 30_000, retries: 0, backoffMs: 0, apis: [] });

export const queue = new Queue(local, (name, fn) => navigator.locks.request(name, fn));

export async function serviceURL() {
  return (await local.get('url')).url ?? localRun;
}

/**
 * Returns the connection that only saves, or else the last session with the configured service,
 * or the link that saves there, or undefined. An ended connection or session has no token. A
 * link has no token, and its path is its owner: what was saved for it goes to no other log.
 */
export async function session() {
  const { writer, session, drop } = await local.get(['writer', 'session', 'drop']), url = await serviceURL();
  return writer ?? [session, drop].find((way) => way?.url === url);
}

/** Says what answers at an address: undefined if it is not a service of ours. Throws if nothing answers. */
export async function serviceAt(url) {
  const { body } = await transport.send({ method: 'GET', url: `${url}/health`, timeoutMs: 5000 });
  return body?.service;
}

/** Takes a link to add, and its service: it saves without a sign-in, and reads nothing. */
export const saveByLink = (url, path) => replace({ url, drop: { url, owner: path, drop: path } });

/** Changes the service. It signs out, because the session is of no use at the new service. */
export const configure = (url) => replace({ url });

/** Whether the core API of a service of ours has this address. Throws if nothing answers. */
export async function isCore(url) {
  const { body } = await transport.send({ method: 'GET', url: `${url}/.well-known/oauth-authorization-server`, timeoutMs: 5000 });
  return body?.issuer === url;
}

/**
 * Connects to a core API as an app that may add memories, and do nothing else. The user allows
 * it with the wallet, in a window whose answer the browser gives to this extension alone.
 */
export async function connectToSave(url) {
  const redirect_uri = chrome.identity.getRedirectURL(), state = crypto.randomUUID();
  const code_verifier = crypto.randomUUID() + crypto.randomUUID();
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(code_verifier));
  const code_challenge = btoa(String.fromCharCode(...new Uint8Array(hash))).replaceAll('+', '-').replaceAll('/', '_').replace('=', '');
  const app = { client_name: 'Memory Ledger extension', redirect_uris: [redirect_uri] };
  const { client_id } = (await transport.send({ method: 'POST', url: `${url}/oauth/register`, body: app })).body;
  const asked = { client_id, redirect_uri, response_type: 'code', scope: 'write', resource: url, state, code_challenge, code_challenge_method: 'S256' };
  const page = `${url}/oauth/authorize?${new URLSearchParams(asked)}`;
  const answer = new URL(await chrome.identity.launchWebAuthFlow({ url: page, interactive: true })).searchParams;
  if (answer.get('state') !== state || answer.get('iss') !== url) throw new Error('the answer is of another request');
  if (!answer.has('code')) throw new Error('you did not allow it');
  const given = await post(`${url}/oauth/token`, { grant_type: 'authorization_code', code: answer.get('code'), redirect_uri, client_id, code_verifier });
  // The access token is a JWT (RFC 9068), and its subject the wallet.
  const { sub: owner } = JSON.parse(atob(given.access_token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/')));
  await replace({ writer: { url, owner, client: client_id, token: given.access_token, refresh: given.refresh_token } });
}

/** Sends a form to a route of apps. */
async function post(url, form) {
  const response = await fetch(url, { method: 'POST', redirect: 'error', body: new URLSearchParams(form), signal: AbortSignal.timeout(30_000) });
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(body.error_description ?? `status ${response.status}`), { status: response.status });
  return body;
}

/**
 * Replaces the access token of a connection. Returns the new one, or undefined if the connection
 * has ended. A refresh token works once, so only one page or worker replaces it at a time. A
 * crash before the answer is stored ends the connection: its user connects once more.
 */
function renew({ client, token }) {
  return navigator.locks.request('writer', async () => {
    const { writer } = await local.get('writer');
    if (writer?.client !== client) return undefined;
    if (writer.token !== token) return writer.token;
    const given = await post(`${writer.url}/oauth/token`, { grant_type: 'refresh_token', refresh_token: writer.refresh, client_id: client }).catch((error) => {
      if (error.status !== 400 && error.status !== 401) throw error;
    });
    await local.set({ writer: { ...writer, token: given?.access_token, refresh: given?.refresh_token } });
    return given?.access_token;
  });
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
  await replace({ session: { url: signIn.url, owner: given.publicKey, token: given.token, expiresAt: given.expiresAt } });
  return true;
}

export const signOut = () => replace({});

/**
 * Puts other entries into the storage in place of the session, the connection or the link, and
 * ends it; locally, even if the service can't be reached. Queued entries still belong to its
 * wallet.
 */
async function replace(entries) {
  const ended = await navigator.locks.request('writer', async () => {
    const way = await session();
    await local.remove(['writer', 'session', 'drop', 'signIn']);
    await local.set(entries);
    return way;
  });
  if (ended?.refresh) await post(`${ended.url}/oauth/revoke`, { token: ended.refresh, client_id: ended.client }).catch(() => {});
  else if (ended?.token) await call(ended, 'POST', '/auth/logout').catch(() => {});
}

/**
 * Calls the service. After a 401, a connection replaces its token and calls again; the stored
 * session loses its token and keeps its owner.
 */
async function call(way, method, path, request) {
  const send = async (credential) => (await transport.send({ ...request, method, url: way.url + path, credential })).body;
  try {
    return await send(way.token);
  } catch (error) {
    if (error.status !== 401) throw error;
    const token = way.client && await renew(way);
    if (token) return send(token);
    await navigator.locks.request('writer', async () => {
      const { session } = await local.get('session');
      // Leave the token of a newer sign-in alone.
      if (session && session.token === way.token) await local.set({ session: { ...session, token: undefined } });
    });
    throw error;
  }
}

/** Queues {content, source, metadata}. The worker sends it when it sees the queue change. */
export async function save(body) {
  const { url, owner } = (await session()) ?? { url: await serviceURL(), owner: null };
  await queue.add({ key: crypto.randomUUID(), url, owner, body });
}

const canSend = (to) => Boolean(to?.token || to?.drop);

/** Sends the queue. Returns the number of entries stored; 0 without a session or a link. */
export function sendQueue() {
  const able = async () => {
    const to = await session();
    return canSend(to) ? to : undefined;
  };
  return queue.flush(able, ({ key, body }, to) => call(to, 'POST', to.drop ?? '/memories', { idempotencyKey: key, body }).then(({ leafHash }) => {
    if (!leafHash) throw new Error('Another service answers there.');
  }, async (error) => {
    if (!to.drop || error.status !== 404) throw error;
    // The link takes nothing more. The owner decides what becomes of what is left.
    await navigator.locks.request('writer', async () => {
      const { drop } = await local.get('drop');
      // Leave a newer link alone: making it may be what ended this one.
      if (drop?.drop === to.drop) await local.remove('drop');
    });
    throw Object.assign(new Error('The link was used up, or has ended.'), { status: 400 });
  }));
}

/** Says when entries that wait are sent. */
export function whenSent(to) {
  return canSend(to) ? 'as soon as the service answers' : `after you ${to?.client ? 'connect again' : 'sign in'}`;
}

/** How many results a search shows. */
export const shown = 50;

/** Returns the memories that answer a question best; the newest, if it is empty. */
export async function search(text, signal) {
  const how = text ? { query: text, mode: 'ranked' } : { order: 'newest' };
  const { memories } = await call(await session(), 'POST', '/memories/search', { signal, body: { ...how, limit: shown } });
  return memories;
}
