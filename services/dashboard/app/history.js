// The owner's newest events, kept up to date by the feed.
import { useEffect, useRef, useState } from './vendor-preact.js';

/** Returns at most keep of the newest events, newest first: [events, error]. */
export function useHistory(api, keep) {
  const [state, setState] = useState({}), seen = useRef([]);
  useEffect(() => {
    let current = true, begun = false;
    const add = (events) => {
      const known = new Set(seen.current.map((e) => e.id));
      seen.current = [...seen.current, ...events.filter((e) => !known.has(e.id))].sort((a, b) => a.time < b.time ? -1 : 1).slice(-keep);
      if (current) setState({ events: seen.current.toReversed() });
    };
    const begin = () => {
      if (begun || api.start.current === undefined) return;
      begun = true;
      newest(api, keep).then(add, (error) => current && setState({ error }));
    };
    begin();
    const stop = api.hear((events) => { begin(); if (events.length > 0) add(events); });
    return () => { current = false; stop(); };
  }, []);
  return [state.events, state.error];
}

// newest returns the last events of the history. Cursors are places in a log that all
// owners share, so it is unknown how far back this owner's events are: newest tries longer
// and longer ranges.
async function newest(api, keep) {
  const end = Number(api.start.current);
  for (let reach = 500; ; reach *= 8) {
    const from = Math.max(0, end - reach);
    let found = [], cursor = String(from);
    for (;;) {
      const { body } = await api.ledger.core('GET', `/events?after=${cursor}&limit=1000`).catch(api.guard);
      if (body.events.length === 0) break;
      found = [...found, ...body.events].slice(-keep);
      cursor = body.cursor;
    }
    if (found.length >= keep || from === 0) return found;
  }
}
