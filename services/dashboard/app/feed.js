// The feed of the owner's events. All tabs of an owner share one stream, because browsers open
// only six connections to a host over HTTP/1.1: the tab that holds a lock reads the stream, and
// passes it on. A tab that nobody looks at gives the lock away, so without a visible tab there
// is no stream.
//
//   hidden --looked at--> waiting --lock--> reading
//     ^                      |                 |
//     +------looked away-----+-----------------+
import { UnauthorizedError } from './vendor-ledger.js';

/**
 * Reads the owner's events as they happen, from now on. After a failure, or after other tabs
 * were read, it goes on where it left off. on.events gets each page, on.start the first cursor,
 * on.state "live" or "offline". Returns a function that stops it.
 */
export function follow(session, on) {
  const ended = new AbortController(), name = `memory-ledger/events/${session.publicKey}`;
  const tabs = new BroadcastChannel(name);
  let last, state, turn, missing; // last is the cursor up to which this tab has the events

  const say = (now) => { if (state !== now) on.state(state = now); };
  // take takes a page that begins after a cursor. What this tab missed in between is read.
  const take = ({ after, id, events }) => {
    if (last === undefined) on.start(last = id);
    else if (Number(id) <= Number(last)) return;
    else if (Number(after) > Number(last)) missing ??= catchUp(id).catch(() => {}).finally(() => { missing = undefined; });
    else {
      last = id;
      if (events.length > 0) on.events(events);
    }
  };
  const catchUp = async (id) => {
    while (Number(last) < Number(id)) {
      const response = await fetch(`/events?after=${last}`, { headers: { Authorization: `Bearer ${session.token}` }, signal: AbortSignal.any([ended.signal, AbortSignal.timeout(30_000)]) });
      if (response.status === 401) return on.expired();
      const { events, cursor } = await response.json();
      if (!response.ok || events.length === 0) return;
      last = cursor;
      on.events(events);
    }
  };
  // forget begins again from now: the log was restored, and is older than the cursor.
  const forget = () => { last = undefined; };
  tabs.onmessage = ({ data }) => {
    if (data.forget) forget();
    if (data.asks && turn?.reading && last !== undefined) tabs.postMessage({ state, page: { after: last, id: last, events: [] } });
    if (data.state && !turn?.reading) say(data.state);
    if (data.page) take(data.page);
  };

  const pass = (page) => { take(page); tabs.postMessage({ state, page }); };
  const report = (now) => { say(now); tabs.postMessage({ state: now }); };
  const look = () => {
    if (document.hidden) {
      turn?.abort();
      turn = undefined;
    } else if (!turn) {
      const own = turn = new AbortController();
      navigator.locks.request(name, { signal: own.signal }, () => {
        own.reading = true;
        return read(session, () => last, { pass, report, expired: on.expired, forget: () => { forget(); tabs.postMessage({ forget: true }); } }, own.signal);
      }).catch(() => {}); // it was looked away from before it had the lock
      tabs.postMessage({ asks: true });
    }
  };
  document.addEventListener('visibilitychange', look);
  look();
  return () => {
    document.removeEventListener('visibilitychange', look);
    turn?.abort();
    ended.abort();
    tabs.close();
  };
}

// read reads the stream after the cursor that from returns, and connects again, until stop.
async function read(session, from, on, stop) {
  for (let wait = 1000; !stop.aborted; wait = Math.min(wait * 2, 30_000)) {
    const began = Date.now();
    try {
      await stream(session, from(), on, stop);
    } catch (error) {
      if (stop.aborted) return;
      if (error instanceof UnauthorizedError) return on.expired();
    }
    if (stop.aborted) return;
    on.report('offline');
    if (Date.now() - began > 30_000) wait = 1000; // the connection was up in between
    await new Promise((resolve) => {
      const go = () => {
        clearTimeout(timer);
        removeEventListener('online', go);
        resolve();
      };
      const timer = setTimeout(go, wait);
      addEventListener('online', go);
      stop.addEventListener('abort', go, { once: true });
    });
  }
}

async function stream(session, from, on, stop) {
  // A connection may die without a sign. The limit is three of the service's heartbeats, unless
  // the browser knows that it has no network: then the connection is tried again at once.
  const silent = new AbortController(), lost = () => silent.abort();
  let quiet;
  const heard = () => { clearTimeout(quiet); quiet = setTimeout(lost, 45_000); };
  heard();
  addEventListener('offline', lost);
  try {
    const headers = { Authorization: `Bearer ${session.token}`, Accept: 'text/event-stream' };
    if (from !== undefined) headers['Last-Event-ID'] = from;
    const response = await fetch('/events', { headers, signal: AbortSignal.any([stop, silent.signal]) });
    if (response.status === 401) throw new UnauthorizedError(401, 'the session has ended');
    if (response.status === 400) on.forget();
    if (!response.ok) throw new Error(`events: ${response.status}`);
    on.report('live');
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let after = from;
    for (let text = ''; ;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const messages = (text + value).split('\n\n');
      text = messages.pop();
      for (const message of messages) {
        const page = parse(message);
        if (!page) continue;
        on.pass({ after: after ?? page.id, ...page });
        after = page.id;
      }
    }
  } finally {
    clearTimeout(quiet);
    removeEventListener('offline', lost);
  }
}

// parse returns the cursor and the events of a message, undefined for a comment.
function parse(message) {
  let id, data = '';
  for (const line of message.split('\n')) {
    if (line.startsWith('id: ')) id = line.slice(4);
    else if (line.startsWith('data: ')) data += line.slice(6);
  }
  return id && { id, events: data ? JSON.parse(data).events : [] };
}
