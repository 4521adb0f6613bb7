// One memory: its whole text, its place in the log, its neighbors, and its proof, which is checked here.
import { html, useEffect, useLayoutEffect, useRef, useState } from './vendor-preact.js';
import { ApiError } from './vendor-ledger.js';
import { Copy, Dialog, Loading, Problem, happened, inWords, tagsOf, useLoad, useTask, waiting, when } from './parts.js';
import { saveJSON } from './files.js';
import { keyName, madeAt, useApiKeys } from './names.js';
import { Correction, Proof } from './proof.js';
import { between } from './passage.js';
import { address } from './route.js';
import { Correct, useDraft } from './write.js';

/** Says how a memory came in. */
function wayOf(memory, keys) {
  const { via } = memory.imported ?? memory, { metadata } = memory;
  const way = { session: () => 'A session of yours', key: () => `A program with ${keyName(keys, via.id)}`, drop: () => `Someone with a link that you made ${when(madeAt(via.id))}` };
  return `${way[via?.kind]?.() ?? 'Not recorded'}${typeof metadata?.source === 'string' ? `, source “${metadata.source}”` : ''}`;
}

// The buttons below a memory have keys. Without them, Forget… turns into Forget and keeps the focus, so that a second
// Enter presses it. A page that the browser translates would even keep the old words on it.
const focus = (button) => button?.focus();

const useMemory = (api, id) => useLoad(() => api.ledger.core('GET', `/memories/${id}`).then(({ body }) => body).catch(api.guard), [id]);

export function Memory({ api, memory: { id }, onOpen, onClose }) {
  const [memory, error, again] = useMemory(api, id), [keys] = useApiKeys(api), [gone, setGone] = useState();
  const [sure, setSure] = useState(''), asked = useRef(''); // 'retract' or 'forget'
  const ask = (what) => { asked.current = what; setSure(what); };
  const [correcting, setCorrecting] = useState(false), [draft, setDraft] = useDraft(api.session.publicKey, id);
  useEffect(() => { api.refresh(); }, []); // what waits becomes late without an event
  const [end, ending, refused] = useTask(async () => {
    if (sure === 'retract') {
      api.retract([id]);
      return onClose();
    }
    await api.ledger.memories.forget(id).catch(api.guard);
    api.refresh();
    setGone({ what: 'forgotten', id, leafIndex: memory.leafIndex, leafHash: memory.leafHash, owner: api.session.publicKey, at: new Date().toISOString() });
  });
  if (!memory) return html`<${Dialog} title="Memory" onClose=${onClose}>${error ? html`<${Problem} error=${error} again=${again}/>` : html`<${Loading}/>`}<//>`;
  if (gone) return html`<${Forgotten} gone=${gone} onClose=${onClose}/>`;
  if (correcting) {
    const back = () => setCorrecting(false);
    return html`<${Dialog} title="Correct a memory" onClose=${back} wide>
      <${Correct} api=${api} memory=${memory} draft=${draft ?? memory.content} onDraft=${setDraft} onBack=${back} onDone=${onOpen}/><//>`;
  }
  const anchored = memory.leafIndex < (api.head?.anchoredSize ?? 0), tags = tagsOf(memory.metadata), date = happened(memory.metadata);
  const others = (ids) => html`<${Others} api=${api} ids=${ids} onOpen=${onOpen}/>`;
  return html`<${Dialog} title="Memory" onClose=${onClose} wide>
    <${Neighbors} api=${api} id=${id} leaf=${memory.leafIndex} onOpen=${onOpen}/>
    <p class="content" dir="auto" tabIndex="0" aria-label="Text">${memory.content}</p>
    <dl class="facts"><div><dt>Written</dt><dd>${when(memory.createdAt)}</dd></div>
      ${date && html`<div><dt>Happened</dt><dd>${date}</dd></div>`}
      <div><dt>Came in by</dt><dd dir="auto">${wayOf(memory, keys)}</dd></div>
      <div><dt>State</dt><dd><span class=${anchored ? 'state anchored' : 'state'}>${anchored ? 'on the chain' : waiting(api.head)}</span></dd></div>
      ${typeof memory.metadata.namespace === 'string' && html`<div><dt>Namespace</dt><dd dir="auto">${memory.metadata.namespace}</dd></div>`}
      ${tags.length > 0 && html`<div><dt>Tags</dt><dd>${tags.map((tag) => html`<span class="tag" dir="auto" key=${tag}>${tag}</span>`)}</dd></div>`}
      ${memory.supersedes && html`<div><dt>Corrects</dt><dd>${others(memory.supersedes)}</dd></div>`}
      ${memory.supersededBy && html`<div><dt>Corrected by</dt><dd>${others(memory.supersededBy)}</dd></div>`}</dl>
    ${memory.supersedes && html`<${Correction} api=${api} memory=${memory} onOpen=${onOpen}/>`}
    <${Proof} api=${api} memory=${memory} anchored=${anchored}/>
    <details><summary>Details</summary><dl class="hashes"><div><dt>Id</dt><dd><code>${memory.id}</code></dd></div>
      <div><dt>Leaf</dt><dd>${memory.leafIndex.toLocaleString('en')}</dd></div><div><dt>Leaf hash</dt><dd><code>${memory.leafHash}</code></dd></div>
      ${memory.via && html`<div><dt>Came in by</dt><dd><code>${memory.via.kind} ${memory.via.id}</code></dd></div>`}
      <div><dt>Metadata</dt><dd><code dir="auto">${JSON.stringify(memory.metadata)}</code></dd></div></dl></details>
    ${sure === 'retract' && html`<p class="soft">It leaves every list, search and link, and can't be read again. Its proof stays, and its sealed bytes stay in the log until you forget it or erase everything.</p>`}
    ${sure === 'forget' && html`<p class="soft">The key to this text is destroyed: nobody can read it again, you neither. Its proofs, its times and its metadata stay, and metadata is not encrypted. Backups that the operator made before may still open it.</p>`}
    <footer class="row">${sure ? html`<span class="grow">${sure === 'forget' ? 'Make its text unreadable for good?' : 'Take it back for good?'}</span>
        <button type="button" key="keep" ref=${focus} class="quiet" onClick=${() => setSure('')}>Keep it</button>
        <button type="button" key="end" class="danger" disabled=${ending} onClick=${end}>${sure === 'forget' ? 'Forget' : 'Retract'}</button>`
      : html`<${Copy} text=${memory.content} what="Copy text"/><${Copy} text=${`${location.origin}/app/#memory=${id}`} what="Copy link"/><span class="grow"></span>
        <button type="button" key="correct" onClick=${() => setCorrecting(true)}>Correct…</button>
        ${Object.entries({ forget: 'Forget…', retract: 'Retract…' }).map(([what, words]) => html`<button type="button" key=${what} ref=${asked.current === what ? focus : undefined} class="quiet" onClick=${() => ask(what)}>${words}</button>`)}`}</footer>
    <${Problem} error=${refused}/><//>`;
}

/** Memories that corrections lead to or from: each opens. */
const Others = ({ api, ids, onOpen }) => html`<ul class="others">${ids.map((id) => html`<li key=${id}><${Other} api=${api} id=${id} onOpen=${onOpen}/></li>`)}</ul>`;

function Other({ api, id, onOpen }) {
  const [memory, error] = useMemory(api, id);
  if (error) return html`<span class="soft">${error instanceof ApiError && error.status === 410 ? 'A memory that was retracted, forgotten or erased' : inWords(error)}</span>`;
  if (!memory) return html`<span class="soft">Loading…</span>`;
  return html`<button type="button" class="link" onClick=${() => onOpen({ id })}><span dir="auto">${memory.content.slice(0, between(memory.content, 240))}</span></button>`;
}

let from; // the button that opened this memory: it keeps the focus

/** The memories before and after this one in the list behind it. k and j open them, too. */
function Neighbors({ api, id, leaf, onOpen }) {
  const buttons = { previous: useRef(), next: useRef() };
  const [go, going, error] = useTask(async (way) => {
    const other = besideInList(id, way) ?? (searching() ? undefined : await besideInLog(api, leaf, way).catch(api.guard));
    if (!other) throw new Error(way === 'next' ? 'This is the last one.' : 'This is the first one.');
    from = way;
    onOpen({ id: other });
  });
  const current = useRef(); // the handler needs the newest head of the log
  current.current = go;
  useLayoutEffect(() => { buttons[from]?.current.focus(); from = undefined; }, []);
  // Not useEffect: it would listen for a moment after the memory was closed, when the keys are those of the list.
  useLayoutEffect(() => {
    const press = (e) => {
      const way = { k: 'previous', j: 'next' }[e.key];
      if (way && localStorage.getItem('keys') !== 'off' && !e.ctrlKey && !e.metaKey && !e.altKey && !e.target.closest('input, textarea, select')) current.current(way);
    };
    window.addEventListener('keydown', press);
    return () => window.removeEventListener('keydown', press);
  }, []);
  const button = (way, words) => html`<button type="button" class="quiet" ref=${buttons[way]} disabled=${going} onClick=${() => go(way)}>${words}</button>`;
  return html`<div class="row neighbors">${button('previous', '‹ Previous')}<span class="grow" role="status">${error && inWords(error)}</span>${button('next', 'Next ›')}</div>`;
}

const searching = () => Object.keys(address()).some((name) => !['memories', 'memory', 'gone'].includes(name));

// besideInList returns the neighbor's id, if the list has both in or near sight. The list follows.
function besideInList(id, way) {
  const rows = [...document.querySelectorAll('.rows button.memory')], at = rows.findIndex((row) => row.dataset.id === id);
  const row = at >= 0 ? rows[at + (way === 'next' ? 1 : -1)] : undefined;
  row?.scrollIntoView({ block: 'nearest' });
  return row?.dataset.id;
}

// besideInLog returns the id of the next memory with a text in the whole log, newest first. Leaves without a text are skipped.
async function besideInLog(api, leaf, way) {
  if (way === 'next') return (await api.ledger.core('GET', `/memories?order=newest&limit=1&cursor=n${leaf}`)).body[0]?.id;
  for (let next = leaf + 1, step = 2; next < api.head.treeSize; next += step, step = Math.min(step * 4, 100)) {
    const { body } = await api.ledger.core('GET', `/memories?limit=${step}&cursor=${next}`);
    if (body.length > 0) return body[0].id;
  }
}

function Forgotten({ gone, onClose }) {
  const done = useRef();
  useLayoutEffect(() => done.current.focus(), []);
  return html`<${Dialog} title="Forgotten" onClose=${onClose}>
    <p role="status">The key to this text is destroyed. Nobody can read it again, except from backups that the operator made before. Its place in your log stays, so that every other proof still holds.</p>
    <footer class="row"><button type="button" onClick=${() => saveJSON(`forgotten-${gone.leafIndex}.json`, gone)}>Download a receipt</button><span class="grow"></span>
      <button type="button" class="primary" ref=${done} onClick=${onClose}>Done</button></footer><//>`;
}
