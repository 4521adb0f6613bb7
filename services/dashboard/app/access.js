// The Access screen: connected apps, API keys for programs, and the owner's own sessions.
import { html, useState } from './vendor-preact.js';
import { Copy, Dialog, Loading, Problem, Time, listOf, useFresh, useTask, when } from './parts.js';
import { Lines } from './connect.js';
import { site } from './session.js';

export function Access({ api }) {
  return html`<${Keys} api=${api}/><${Sessions} api=${api}/>`;
}

const scopes = { read: 'Read and search', write: 'Write', retract: 'Retract', share: 'Hand out links' };
const ends = { '': 'Never', 1: 'In a day', 7: 'In a week', 30: 'In a month', 365: 'In a year' };

function Keys({ api }) {
  const { keys } = api.ledger;
  const [list, error, again] = useFresh(api, () => keys.list(), ['ApiKeyCreated', 'ApiKeyRevoked', 'ApiKeyUsed']);
  const [making, setMaking] = useState(false), [said, setSaid] = useState('');
  const [revoke, revoking, refused] = useTask(async ({ id, label }) => { await keys.revoke(id).catch(api.guard); setSaid(`${label} is revoked.`); again(); });
  const live = (list ?? []).filter((k) => !k.revokedAt && !(k.expiresAt && Date.parse(k.expiresAt) <= Date.now())).toReversed();
  const items = (all, name, label, verb) => html`<ul class="list" aria-label=${label}>${all.map((k) => html`<li key=${k.id}><div class="grow"><strong dir="auto">${k.label}</strong> ${name(k)}
        <p class="soft">${k.scopes.map((s) => html`<span class="tag" key=${s}>${s}</span>`)} used <${Time} at=${k.lastUsedAt}/>${k.expiresAt && html` · ends ${when(k.expiresAt)}`}${k.namespaces && html` · only in <span dir="auto">${k.namespaces.join(', ')}</span>`}</p></div>
        <button type="button" class="quiet" disabled=${revoking} aria-label=${`${verb} ${k.label}`} onClick=${() => revoke(k)}>${verb}</button></li>`)}</ul>`;
  const apps = live.filter((k) => k.app), made = live.filter((k) => !k.app);
  const address = `${site.coreUrl}/mcp`;
  return html`<section class="card"><h2>Connected apps</h2><p class="soft">Give Claude, ChatGPT or another assistant this address. It asks for what you then allow with your wallet. <a href="#connect">Step by step</a></p>
      <div class="row secret"><code class="grow break" tabIndex="0">${address}</code><${Copy} text=${address} what="Copy address"/></div>
      ${apps.length > 0 && html`${items(apps, (k) => html`<code>${k.app.redirectHost}</code>`, 'Connected apps', 'End')}
        <p class="soft">Each app chose its name itself. Its answer went to the host beside it.</p>`}</section>
    <section class="card"><div class="row"><div class="grow"><h2>API keys</h2><p class="soft">For programs and agents. A key is dead on the request after you revoke it.</p></div>
      <button type="button" class="primary" onClick=${() => setMaking(true)}>New key</button></div>
    <${Problem} error=${error ?? refused} again=${error && again}/><p class="unseen" role="status">${said}</p>
    ${!list ? !error && html`<${Loading}/>` : made.length === 0 ? html`<p class="soft">No key opens your log.</p>`
      : items(made, (k) => html`<code>${k.prefix}…</code>`, 'API keys', 'Revoke')}
    ${making && html`<${NewKey} api=${api} onClose=${() => { setMaking(false); again(); }}/>`}</section>`;
}

function NewKey({ api, onClose }) {
  const [label, setLabel] = useState(''), [only, setOnly] = useState(''), [chosen, setChosen] = useState(['read', 'write']), [days, setDays] = useState(''), [made, setMade] = useState();
  const [make, making, error] = useTask(async () => {
    const expiresAt = days ? new Date(Date.now() + days * 86_400_000).toISOString() : undefined;
    const namespaces = listOf(only);
    setMade(await api.ledger.keys.create(label, { scopes: chosen, expiresAt, namespaces: namespaces.length > 0 ? namespaces : undefined }).catch(api.guard));
  });
  if (made) return html`<${Dialog} key="made" title="Your new key" onClose=${onClose}><p>Copy it now. It is shown only this once.</p>
    <div class="row secret"><code class="grow break" tabIndex="0">${made.key}</code><${Copy} text=${made.key}/></div>
    <${Lines} secret=${made.key}/>
    <footer class="row"><span class="grow"></span><button type="button" class="primary" onClick=${onClose}>Done</button></footer><//>`;
  const toggle = (scope) => setChosen((now) => now.includes(scope) ? now.filter((s) => s !== scope) : [...now, scope]);
  return html`<${Dialog} title="New API key" onClose=${onClose}><form class="stack" onSubmit=${(e) => { e.preventDefault(); make(); }}>
    <label>Label<input dir="auto" value=${label} required maxLength="100" placeholder="my laptop" onInput=${(e) => setLabel(e.target.value)}/></label>
    <fieldset><legend>It may</legend>${Object.entries(scopes).map(([scope, words]) => html`<label class="check" key=${scope}>
      <input type="checkbox" checked=${chosen.includes(scope)} onChange=${() => toggle(scope)}/>${words}</label>`)}</fieldset>
    <label>Only in the namespaces (optional)<input dir="auto" value=${only} placeholder="home, work" aria-describedby="only" onInput=${(e) => setOnly(e.target.value)}/></label>
    <p class="soft" id="only">It then reads and writes nothing else. With more than one, it must name one when it writes.</p>
    <label>It ends<select value=${days} onChange=${(e) => setDays(e.target.value)}>${Object.entries(ends).sort(([a], [b]) => a - b).map(([value, words]) => html`<option key=${value} value=${value}>${words}</option>`)}</select></label>
    <${Problem} error=${error}/>
    <footer class="row"><span class="grow"></span><button class="primary" disabled=${making || !label.trim() || chosen.length === 0}>Create key</button></footer></form><//>`;
}

const apis = { core: 'Dashboard and SDK', extension: 'Browser extension and links' };

function Sessions({ api }) {
  const [list, error, again] = useFresh(api, () => api.ledger.core('GET', '/auth/sessions').then(({ body }) => body), ['SessionIssued', 'SessionRevoked']);
  const [end, ending, refused] = useTask(async (path) => { await api.ledger.core('DELETE', path).catch(api.guard); again(); });
  const others = (list ?? []).filter((s) => !s.current).length;
  return html`<section class="card"><div class="row"><div class="grow"><h2>Sessions</h2><p class="soft">Where your wallet is signed in, on both APIs.</p></div>
      ${others > 0 && html`<button type="button" class="quiet" disabled=${ending} onClick=${() => end('/auth/sessions')}>End all others</button>`}</div>
    <${Problem} error=${error ?? refused} again=${error && again}/>
    ${!list && !error ? html`<${Loading}/>` : html`<ul class="list" aria-label="Sessions">${(list ?? []).toReversed().map((s) => html`<li key=${s.id}><div class="grow"><strong>${apis[s.api]}</strong>
      ${s.current && html` <span class="tag here">this one</span>`}<p class="soft">since <${Time} at=${s.createdAt}/> · ends ${when(s.expiresAt)}</p></div>
      ${!s.current && html`<button type="button" class="quiet" disabled=${ending} onClick=${() => end(`/auth/sessions/${s.id}`)}>End</button>`}</li>`)}</ul>`}</section>`;
}
