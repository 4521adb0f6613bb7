// The owner's newest events, kept up to date by the feed.
import { useEffect, useRef, useState } from './vendor-preact.js';

/** The newest events, the newest first, at most keep of them: [events, error]. */
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

// newest reads history backwards. Cursors are places in a log that all owners share, so
// how far back some of this owner's are is found by trying.
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
