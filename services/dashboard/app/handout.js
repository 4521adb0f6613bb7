// The screen that makes links by which others add or read memories, and shows their use
// while it happens.
import { html, useEffect, useMemo, useState } from './vendor-preact.js';
import { generate } from './vendor-qr.js';
import { UnauthorizedError } from './vendor-ledger.js';
import { Copy, Problem, useTask, when } from './parts.js';
import { grantsOf, keepExtensionSession, signInTo, site } from './session.js';
import { WalletChoice } from './signin.js';

const kinds = {
  drop: { title: 'Let someone add', text: 'Anyone with the link can leave memories in your log.', most: 5 },
  case: { title: 'Let someone read', text: 'Anyone with the link can read all of your memories, as text.', most: 10 },
};
const times = { 5: '5 minutes', 15: '15 minutes', 60: '1 hour', 480: '8 hours', 1440: '1 day' };
const links = {}; // the newest link of each kind, by owner, while this page is open

export function HandOut({ api }) {
  const [round, setRound] = useState(0), again = () => setRound((n) => n + 1);
  const grants = useMemo(() => grantsOf(api.session), [round]);
  if (!grants) return html`<section class="card narrow"><h2>Sign once more to make links</h2>
    <p class="soft">Links are made by the extension API at ${new URL(site.extensionUrl).host}, which has sessions of its own.</p>
    <${WalletChoice} owner=${api.session.publicKey} verb="Sign with" use=${async (account) => {
      keepExtensionSession(await signInTo(site.extensionUrl, account));
      again();
    }}/></section>`;
  const refused = (error) => {
    if (!(error instanceof UnauthorizedError)) throw error;
    sessionStorage.removeItem('extension');
    again();
  };
  return html`<p class="soft">A link is all that its holder needs. You have one of each kind at a time; a new one ends the one before.</p>
    <div class="columns">${Object.keys(kinds).map((kind) => html`<${Link} key=${kind} kind=${kind} api=${api} grants=${grants} refused=${refused}/>`)}</div>`;
}

function Link({ kind, api, grants, refused }) {
  const { title, text, most } = kinds[kind], name = kind === 'drop' ? 'Drop' : 'Case';
  const live = links[api.session.publicKey] ??= {}; // another owner may sign in on this page
  const [uses, setUses] = useState(1), [minutes, setMinutes] = useState(15), [link, setLink] = useState(live[kind]);
  const keep = (next) => { live[kind] = next; setLink(next); };
  const [mint, minting, error] = useTask(async () => {
    const made = await grants[`create${name}`]({ [kind === 'drop' ? 'maxWrites' : 'maxReads']: uses, expiresInMinutes: minutes }).catch(refused);
    if (made) keep({ ...made, uses, used: 0 });
  });
  const [revoke, revoking, failed] = useTask(async () => {
    if (await grants[`revoke${name}`](link.id).catch(refused)) keep({ ...live[kind], ended: 'revoked' });
  });
  useEffect(() => api.hear((events) => {
    for (const { type, data } of events) {
      const now = live[kind];
      if (data.grantId !== now?.id) continue;
      if (type === 'GrantConsumed') keep({ ...now, used: Math.max(now.used, data.use), ended: data.remaining === 0 ? 'used up' : now.ended });
      if (type === 'GrantRevoked') keep({ ...now, ended: data.reason === 'superseded' ? 'replaced by a newer one' : 'revoked' });
    }
  }), []);
  useEffect(() => {
    if (!link || link.ended) return;
    const timer = setTimeout(() => keep({ ...live[kind], ended: 'expired' }), Date.parse(link.expiresAt) - Date.now());
    return () => clearTimeout(timer);
  }, [link]);
  if (!link) return html`<form class="card stack" aria-label=${title} onSubmit=${(e) => { e.preventDefault(); mint(); }}><h2>${title}</h2><p class="soft">${text}</p>
    <label>How often<select value=${uses} onChange=${(e) => setUses(Number(e.target.value))}>${Array.from({ length: most }, (_, i) => html`<option key=${i} value=${i + 1}>${i === 0 ? 'Once' : `${i + 1} times`}</option>`)}</select></label>
    <label>For how long<select value=${minutes} onChange=${(e) => setMinutes(Number(e.target.value))}>${Object.entries(times).map(([value, words]) => html`<option key=${value} value=${value}>${words}</option>`)}</select></label>
    <${Problem} error=${error}/><button class="primary" disabled=${minting}>Make link</button></form>`;
  return html`<section class="card stack" aria-label=${title}><h2>${title}</h2>
    ${link.ended ? html`<p class="ended" role="status">This link is ${link.ended}.</p>` : html`<${QR} text=${link.url}/>
      <div class="row secret"><code class="grow break" tabIndex="0">${link.url}</code><${Copy} text=${link.url} what="Copy link"/></div>`}
    <p role="status"><strong>${link.used} of ${link.uses}</strong> ${link.uses === 1 ? 'use' : 'uses'} spent · until ${when(link.expiresAt)}</p>
    <progress max=${link.uses} value=${link.used} aria-label="Uses spent"></progress>
    <${Problem} error=${failed}/>
    ${link.ended ? html`<button type="button" onClick=${() => keep(undefined)}>Make another</button>`
      : html`<button type="button" class="danger" disabled=${revoking} onClick=${revoke}>Revoke</button>`}</section>`;
}

/** A QR code of a text. It is dark on light in both themes, because cameras need that. */
function QR({ text }) {
  const code = useMemo(() => generate(text), [text]);
  let path = '';
  for (let y = 0; y < code.size; y++) for (let x = 0; x < code.size; x++) if (code.get(x, y)) path += `M${x} ${y}h1v1h-1z`;
  return html`<svg class="qr" viewBox=${`-3 -3 ${code.size + 6} ${code.size + 6}`} role="img" aria-label="QR code of the link">
    <rect class="light" x="-3" y="-3" width=${code.size + 6} height=${code.size + 6}/><path d=${path}/></svg>`;
}
