// Retractions, which can be undone for some seconds: only then they are sent.
//
// A page that is closed, or a session that ends, sends what waits, and once more what has no answer
// yet: it has left the list already, and a closed page has no Undo. What a session that was ended
// elsewhere could not retract is kept as a draft is, for the next session to say so.
import { html, useCallback, useEffect, useRef, useState } from './vendor-preact.js';
import { useKeys } from './keys.js';
import { inWords, memories } from './parts.js';
import { draftOf } from './session.js';
import { useDraft } from './write.js';

const undoMs = 7000;

/**
 * Returns [retract, settle, hidden, notice]. retract takes the ids of memories, and settle sends what waits. hidden has
 * the ids that lists leave out, and for each whether the log's head still counts it.
 */
export function useRetractions(ledger, session, refresh) {
  const owner = session.publicKey, [failed, setFailed] = useDraft(owner, 'retract'), [error, setError] = useState();
  const [ids, setIds] = useState([]), [hidden, setHidden] = useState(new Map());
  const waiting = useRef([]), timer = useRef(), sending = useRef([]), sent = useRef(); // sent settles when all of sending is
  const hide = (ids, counted) => setHidden((now) => new Map([...now, ...ids.map((id) => [id, counted])]));
  const fail = (ids) => setFailed([...new Set([...draftOf(owner, 'retract') ?? [], ...ids])]);
  const show = (ids) => setHidden((now) => new Map([...now].filter(([id]) => !ids.includes(id))));

  const send = async (ids) => {
    const refused = [];
    for (const id of ids) {
      await ledger.memories.retract(id).catch((failure) => { refused.push(id); setError(failure); });
      sending.current.shift();
    }
    await refresh();
    hide(ids, false);
    if (refused.length === 0) return;
    show(refused);
    fail(refused);
  };
  const settle = useCallback(() => {
    clearTimeout(timer.current);
    const ids = waiting.current.splice(0);
    if (ids.length === 0) return sent.current;
    setIds([]);
    sending.current.push(...ids);
    return sent.current = Promise.resolve(sent.current).then(() => send(ids));
  }, [ledger]);
  const retract = useCallback((ids) => {
    clearTimeout(timer.current);
    waiting.current.push(...ids);
    hide(ids, true);
    setIds([...waiting.current]);
    timer.current = setTimeout(settle, Math.max(0, Math.min(undoMs, Date.parse(session.expiresAt) - Date.now() - 2000)));
  }, [ledger]);
  const undo = () => {
    clearTimeout(timer.current);
    show(waiting.current.splice(0));
    setIds([]);
  };
  useKeys({ u: () => waiting.current.length > 0 && undo() });
  useEffect(() => {
    const leave = () => {
      clearTimeout(timer.current);
      for (const id of [...sending.current, ...waiting.current.splice(0)]) fetch(`/memories/${id}`, { method: 'DELETE', keepalive: true, headers: { Authorization: `Bearer ${session.token}` } }).then(({ status }) => status === 401 && fail([id]), () => {});
      setIds([]);
    };
    addEventListener('pagehide', leave);
    return () => { removeEventListener('pagehide', leave); leave(); };
  }, [ledger]);

  const notice = html`<div class="toast" role="status">${ids.length > 0 ? html`<p><span>${memories(ids.length)} retracted</span><button type="button" onClick=${undo}>Undo</button></p>`
    : failed && html`<p><span>${memories(failed.length)} could not be retracted. ${error && inWords(error)}</span>
      <button type="button" onClick=${() => { setFailed(); retract(failed); }}>Try again</button><button type="button" onClick=${() => setFailed()}>Leave it</button></p>`}</div>`;
  return [retract, settle, hidden, notice];
}
