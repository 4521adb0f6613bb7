// The screen that makes links by which others add or read memories, shows those that are
// live, and their use while it happens.
import { html, useEffect, useMemo, useRef, useState } from './vendor-preact.js';
import { generate } from './vendor-qr.js';
import { UnauthorizedError } from './vendor-ledger.js';
import { useHistory } from './history.js';
import { keyName, useApiKeys } from './names.js';
import { Copy, Problem, Time, count, inWords, useFresh, useTask, when } from './parts.js';
import { grantsOf, keepExtensionSession, keepLinks, linksOf, signInTo, site } from './session.js';
import { WalletChoice } from './signin.js';

const kinds = {
  drop: { grant: 'memory-drop', title: 'Let someone add', used: 'Someone left a memory', text: 'Anyone with the link can leave memories in your log.', some: 'Anyone with the link can leave memories in this namespace.', most: 5 },
  case: { grant: 'agent-case', title: 'Let someone read', used: 'Someone read', text: 'Anyone with the link can read all of your memories, as text.', some: 'Anyone with the link can read the memories of this namespace, as text.', most: 10 },
};
const times = { 5: '5 minutes', 15: '15 minutes', 60: '1 hour', 480: '8 hours', 1440: '1 day' };
const fields = { drop: 'Into the namespace (optional)', case: 'Only of the namespace (optional)' };

/** Loads the live links of both APIs, and loads them again when one is made, used or ended. */
export const useLinks = (api) => useFresh(api, () => api.ledger.core('GET', '/grants').then(({ body }) => body), ['GrantMinted', 'GrantConsumed', 'GrantRevoked']);

export function HandOut({ api }) {
  const [round, setRound] = useState(0), again = () => setRound((n) => n + 1);
  const grants = useMemo(() => grantsOf(api.session), [round]);
  const [live, error, retry] = useLinks(api), [keys] = useApiKeys(api);
  const refused = (error) => {
    if (!(error instanceof UnauthorizedError)) throw error;
    sessionStorage.removeItem('extension');
    again();
  };
  return html`<p class="soft">A link is all that its holder needs. You have one of each kind at a time; a new one ends the one before.</p>
    <${Problem} error=${error} again=${retry}/>
    ${!grants && html`<section class="card narrow"><h2>Sign once more to make links</h2>
      <p class="soft">Links are made by the extension API at ${new URL(site.extensionUrl).host}, which has sessions of its own.</p>
      <${WalletChoice} owner=${api.session.publicKey} verb="Sign with" use=${async (account) => {
        keepExtensionSession(await signInTo(site.extensionUrl, account));
        again();
      }}/></section>`}
    <div class="columns">${Object.keys(kinds).map((kind) => html`<${Link} key=${kind} kind=${kind} api=${api} grants=${grants} live=${live?.find((g) => g.kind === kinds[kind].grant)} known=${live} keys=${keys} refused=${refused}/>`)}</div>`;
}

/** A link of one kind: link is the one that is shown, live what the service knows of a live one. */
function Link({ kind, api, grants, live, known, keys, refused }) {
  const { title, text, some, used, most } = kinds[kind], name = kind === 'drop' ? 'Drop' : 'Case', owner = api.session.publicKey;
  const [uses, setUses] = useState(1), [minutes, setMinutes] = useState(15), [namespace, setNamespace] = useState(''), [link, setLink] = useState(linksOf(owner)[kind]);
  const fresh = useRef(false); // a link that was just made takes the focus from the button that made it
  const current = useRef(); // effects and answers of earlier renders need the newest link
  current.current = link;
  const keep = (next) => {
    current.current = next;
    keepLinks(owner, { ...linksOf(owner), [kind]: next });
    setLink(next);
  };
  useEffect(() => {
    const now = current.current;
    if (live) keep({ ...(now?.id === live.id ? now : { id: live.id }), by: live.by, createdAt: live.createdAt, expiresAt: live.expiresAt, namespace: live.namespace, uses: live.maxUses, used: live.maxUses - live.remainingUses, ended: undefined });
    else if (known && now && !now.ended) keep({ ...now, ended: 'no longer live' });
  }, [known]);
  const [mint, minting, error] = useTask(async () => {
    const only = namespace.trim() || undefined;
    const made = await grants[`create${name}`]({ [kind === 'drop' ? 'maxWrites' : 'maxReads']: uses, expiresInMinutes: minutes, namespace: only }).catch(refused);
    fresh.current = Boolean(made);
    if (made) keep({ ...made, uses, used: 0, namespace: only });
  });
  const [revoke, revoking, failed] = useTask(async () => {
    await api.ledger.core('DELETE', `/grants/${link.id}`).catch(api.guard);
    keep({ ...current.current, ended: 'ended by you' });
  });
  useEffect(() => api.hear((events) => {
    for (const { type, data } of events) {
      const now = current.current;
      if (data.grantId !== now?.id) continue;
      if (type === 'GrantConsumed') keep({ ...now, used: Math.max(now.used, data.use), ended: data.remaining === 0 ? 'used up' : now.ended });
      if (type === 'GrantRevoked') keep({ ...now, ended: data.reason === 'superseded' ? 'replaced by a newer one' : 'ended by you' });
    }
  }), []);
  useEffect(() => {
    if (!link || link.ended) return;
    const timer = setTimeout(() => keep({ ...current.current, ended: 'expired' }), Date.parse(link.expiresAt) + api.session.ahead - Date.now());
    return () => clearTimeout(timer);
  }, [link]);
  if (!link && !grants) return null;
  if (!link) return html`<form class="card stack" aria-label=${title} onSubmit=${(e) => { e.preventDefault(); mint(); }}><h2>${title}</h2><p class="soft">${namespace.trim() ? some : text}</p>
    <label>How often<select value=${uses} onChange=${(e) => setUses(Number(e.target.value))}>${Array.from({ length: most }, (_, i) => html`<option key=${i} value=${i + 1}>${i === 0 ? 'Once' : `${i + 1} times`}</option>`)}</select></label>
    <label>For how long<select value=${minutes} onChange=${(e) => setMinutes(Number(e.target.value))}>${Object.entries(times).map(([value, words]) => html`<option key=${value} value=${value}>${words}</option>`)}</select></label>
    <label>${fields[kind]}<input dir="auto" maxLength="80" placeholder="home" value=${namespace} onInput=${(e) => setNamespace(e.target.value)}/></label>
    <${Problem} error=${error}/><button class="primary" disabled=${minting}>Make link</button></form>`;
  const maker = link.by?.kind === 'key' ? `by ${keyName(keys, link.by.id)}` : link.url ? 'by you, in this tab' : 'in another tab or session';
  return html`<section class="card stack" aria-label=${title}><h2>${title}</h2>
    ${link.ended ? html`<p class="ended" role="status">This link is ${link.ended}.</p>`
      : !link.url ? html`<p class="ended">A link is live. Its address was shown only where it was made.</p>` : html`<${QR} text=${link.url}/>
      <div class="row secret"><code class="grow break" tabIndex="0" ref=${(el) => { if (el && fresh.current) el.focus(); fresh.current = false; }}>${link.url}</code><${Copy} text=${link.url} what="Copy link"/></div>`}
    <p>${link.namespace ? html`${kind === 'drop' ? 'It adds to' : 'It shows only'} the namespace <span class="tag" dir="auto">${link.namespace}</span>` : text}</p>
    <p role="status"><strong>${link.used} of ${link.uses}</strong> ${link.uses === 1 ? 'use' : 'uses'} spent · until ${when(link.expiresAt)}</p>
    <progress max=${link.uses} value=${link.used} aria-label="Uses spent"></progress>
    ${link.createdAt && html`<ol class="uses" aria-label="What happened to it"><li><span class="grow">Made ${maker}</span><${Time} at=${link.createdAt}/></li>
      <${Uses} key=${link.id} api=${api} id=${link.id} since=${link.createdAt} word=${used}/></ol>`}
    <${Problem} error=${failed}/>
    ${link.ended ? html`<button type="button" onClick=${() => keep(undefined)}>Make another</button>`
      : html`<button type="button" class="danger" disabled=${revoking} onClick=${revoke}>End link</button>`}</section>`;
}

/** When a link was used. Who used it is not known: the link is all that its holder needs. */
function Uses({ api, id, since, word }) {
  const { entries, error } = useHistory(api, Infinity, (events) => events.filter((e) => e.type === 'GrantConsumed' && e.data.grantId === id), since);
  if (error) return html`<li>${inWords(error)}</li>`;
  return entries?.toReversed().map((e) => html`<li key=${e.id}><span class="grow">${word}; ${count(e.data.remaining, 'use')} left</span><${Time} at=${e.time}/></li>`);
}

/** A QR code of a text. It is dark on light in both themes, because cameras need that. */
function QR({ text }) {
  const code = useMemo(() => generate(text), [text]);
  let path = '';
  for (let y = 0; y < code.size; y++) for (let x = 0; x < code.size; x++) if (code.get(x, y)) path += `M${x} ${y}h1v1h-1z`;
  return html`<svg class="qr" viewBox=${`-3 -3 ${code.size + 6} ${code.size + 6}`} role="img" aria-label="QR code of the link">
    <rect class="light" x="-3" y="-3" width=${code.size + 6} height=${code.size + 6}/><path d=${path}/></svg>`;
}
