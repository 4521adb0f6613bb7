// Signing out. Links and other sessions outlive the session: the dialog says so, and offers to end
// them, too.
import { html, useState } from './vendor-preact.js';
import { Dialog, Problem, count, useTask, when } from './parts.js';

const kinds = { 'agent-case': 'a link that reads', 'memory-drop': 'a link that adds' };
const memoriesOf = ({ kind, namespace }) => namespace ? `memories of the namespace “${namespace}”` : kind === 'agent-case' ? 'all memories' : 'memories';

/** Returns the button, and the dialog that it may open. */
export function useSignOut(api) {
  const [alive, setAlive] = useState();
  const get = (path) => api.ledger.core('GET', path).then(({ body }) => body);
  const leave = async (also) => {
    await api.settle();
    if (also) {
      for (const { id } of alive.links) await api.ledger.core('DELETE', `/grants/${id}`);
      await api.ledger.core('DELETE', '/auth/sessions'); // all others
    }
    const current = (await get('/auth/sessions')).find((s) => s.current);
    if (current) await api.ledger.core('DELETE', `/auth/sessions/${current.id}`);
    api.end('left');
  };
  // Whatever the service answers, a person who only signs out is signed out.
  const only = () => leave(false).catch(() => api.end('left'));
  const [ask, asking] = useTask(async () => {
    try {
      const [links, sessions, keys] = await Promise.all(['/grants', '/auth/sessions', '/keys'].map(get));
      const live = keys.filter((k) => !k.revokedAt && !(k.expiresAt && Date.parse(k.expiresAt) <= Date.now()));
      const found = { links, sessions: sessions.filter((s) => !s.current).length, keys: live.length };
      if (links.length + found.sessions > 0) return setAlive(found);
    } catch { /* then nothing is known to stay */ }
    await only();
  });
  const [end, ending, error] = useTask(() => leave(true));
  const button = html`<button type="button" class="quiet" disabled=${asking} onClick=${ask}>Sign out</button>`;
  const dialog = alive && html`<${Dialog} title="Sign out" onClose=${() => setAlive(undefined)}>
      <p>These stay alive when you sign out here:</p>
      <ul class="list">${alive.links.map((g) => html`<li key=${g.id}>${kinds[g.kind]} ${memoriesOf(g)}, until ${when(g.expiresAt)}</li>`)}
        ${alive.sessions > 0 && html`<li>${count(alive.sessions, 'other session')} of your wallet</li>`}
        ${alive.keys > 0 && html`<li>${count(alive.keys, 'API key')}: revoke keys under Access</li>`}</ul>
      <${Problem} error=${error}/>
      <footer class="row"><button type="button" onClick=${only}>Sign out here only</button><span class="grow"></span>
        <button type="button" class="primary" disabled=${ending} onClick=${end}>End links and sessions</button></footer><//>`;
  return [button, dialog];
}
