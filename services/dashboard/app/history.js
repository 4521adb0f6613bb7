// The owner's newest events, kept up to date by the feed.
import { useEffect, useRef, useState } from './vendor-preact.js';

/**
 * Returns entries that pick makes of the events, newest first: { entries, error, again, older }. pick gets the events of
 * whole commands, oldest first. There are at least `want` entries, or all. again reads them after an error. older reads
 * more; it is undefined if there are no more, or while they are being read. Events before since, a timestamp, are not
 * looked for.
 */
export function useHistory(api, want, pick, since = '') {
  const [state, setState] = useState({}), all = useRef([]), from = useRef(), current = useRef(true);
  const add = (entries) => {
    const known = new Set(all.current.map((e) => e.id));
    // Events of one command have one time, and keep their order.
    all.current = [...entries.filter((e) => !known.has(e.id)).reverse(), ...all.current].sort((a, b) => b.time.localeCompare(a.time));
  };
  // load reads backwards from a cursor, in longer and longer steps. Cursors are places in a log that all owners share, so
  // it is unknown how far back this owner's events are.
  const load = async (upto, enough) => {
    setState((s) => ({ ...s, error: undefined, reading: true }));
    try {
      for (let end = upto ?? Number(api.start.current), reach = 64; ; reach *= 4) {
        const begin = Math.max(0, end - reach);
        const { entries, oldest } = await read(api, begin, upto === undefined && reach === 64 ? Infinity : end, pick);
        add(entries);
        from.current = end = begin;
        if (begin === 0 || all.current.length >= enough || oldest < since) break;
      }
      if (current.current) setState({ entries: all.current });
    } catch (error) {
      if (current.current) setState((s) => ({ ...s, error, reading: false }));
    }
  };
  useEffect(() => {
    let begun = false;
    const begin = () => {
      if (begun || api.start.current === undefined) return;
      begun = true;
      load(undefined, want);
    };
    begin();
    const stop = api.hear((events) => {
      begin();
      add(pick(events));
      setState((s) => (s.entries ? { ...s, entries: all.current } : s));
    });
    return () => { current.current = false; stop(); };
  }, []);
  const more = from.current > 0 && !state.reading && state.entries;
  return { ...state, again: () => load(undefined, want), older: more && (() => load(from.current, all.current.length + want)) };
}

// read returns the entries after a cursor, up to another one or a little past it, and the time of the oldest event.
async function read(api, after, upto, pick) {
  const entries = [];
  let oldest;
  for (let cursor = String(after); Number(cursor) < upto;) {
    const { body } = await api.ledger.core('GET', `/events?after=${cursor}&limit=1000`).catch(api.guard);
    if (body.events.length === 0) break;
    oldest ??= body.events[0].time;
    entries.push(...pick(body.events));
    cursor = body.cursor;
  }
  return { entries, oldest };
}
