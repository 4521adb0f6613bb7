// One memory: its whole text, its place in the log, and its proof, which is checked here.
import { html, useEffect, useState } from './vendor-preact.js';
import { ApiError } from './vendor-ledger.js';
import { Copy, Dialog, Loading, Problem, happened, inWords, tagsOf, useLoad, useTask, waiting, when } from './parts.js';
import { Path, verify } from './proof.js';
import { Correct, useDraft } from './write.js';

const ways = { session: 'A session of yours', key: 'A program with an API key', drop: 'Someone with a link of yours' };
const wayOf = ({ via, metadata }) => `${ways[via?.kind] ?? 'unknown'}${typeof metadata?.source === 'string' ? `, source “${metadata.source}”` : ''}`;

const useMemory = (api, id) => useLoad(() => api.ledger.core('GET', `/memories/${id}`).then(({ body }) => body).catch(api.guard), [id]);

export function Memory({ api, memory: { id }, onOpen, onClose }) {
  const [memory, error, again] = useMemory(api, id);
  const [sure, setSure] = useState(''); // 'retract' or 'forget'
  const [correcting, setCorrecting] = useState(false), [draft, setDraft] = useDraft(api.session.publicKey, id);
  useEffect(() => { api.refresh(); }, []); // what waits becomes late without an event
  const [end, ending, refused] = useTask(async () => {
    if (sure === 'retract') api.retract([id]);
    else await api.ledger.memories.forget(id).catch(api.guard).then(api.refresh);
    onClose();
  });
  if (!memory) return html`<${Dialog} title="Memory" onClose=${onClose}>${error ? html`<${Problem} error=${error} again=${again}/>` : html`<${Loading}/>`}<//>`;
  if (correcting) {
    const back = () => setCorrecting(false);
    return html`<${Dialog} title=${`Correct leaf ${memory.leafIndex.toLocaleString('en')}`} onClose=${back} wide>
      <${Correct} api=${api} memory=${memory} draft=${draft ?? memory.content} onDraft=${setDraft} onBack=${back} onDone=${onOpen}/><//>`;
  }
  const anchored = memory.leafIndex < (api.head?.anchoredSize ?? 0), tags = tagsOf(memory.metadata), date = happened(memory.metadata);
  const rest = { ...memory.metadata }; // what the facts do not say
  if (tags.length > 0) delete rest.tags;
  if (date) delete rest.occurredAt;
  if (typeof rest.namespace === 'string') delete rest.namespace;
  if (memory.supersedes) delete rest.supersedes;
  const others = (ids) => html`<${Others} api=${api} ids=${ids} onOpen=${onOpen}/>`;
  return html`<${Dialog} title=${`Memory · leaf ${memory.leafIndex.toLocaleString('en')}`} onClose=${onClose} wide>
    <p class="content" dir="auto" tabIndex="0" aria-label="Text">${memory.content}</p>
    <dl class="facts"><div><dt>Written</dt><dd>${when(memory.createdAt)}</dd></div>
      ${date && html`<div><dt>Happened</dt><dd>${date}</dd></div>`}
      <div><dt>Came in by</dt><dd dir="auto">${wayOf(memory)}</dd></div>
      <div><dt>State</dt><dd><span class=${anchored ? 'state anchored' : 'state'}>${anchored ? 'anchored on the chain' : waiting(api.head)}</span></dd></div>
      ${typeof memory.metadata.namespace === 'string' && html`<div><dt>Namespace</dt><dd dir="auto">${memory.metadata.namespace}</dd></div>`}
      ${tags.length > 0 && html`<div><dt>Tags</dt><dd>${tags.map((tag) => html`<span class="tag" dir="auto" key=${tag}>${tag}</span>`)}</dd></div>`}
      ${memory.supersedes && html`<div><dt>Corrects</dt><dd>${others(memory.supersedes)}</dd></div>`}
      ${memory.supersededBy && html`<div><dt>Corrected by</dt><dd>${others(memory.supersededBy)}</dd></div>`}
      ${Object.keys(rest).length > 0 && html`<div><dt>Metadata</dt><dd><code>${JSON.stringify(rest)}</code></dd></div>`}</dl>
    <${Proof} api=${api} memory=${memory} anchored=${anchored}/>
    <footer class="row"><${Copy} text=${memory.content} what="Copy text"/><span class="grow"></span>
      ${sure ? html`<span>${sure === 'forget' ? 'Make its text unreadable for good?' : 'Take it back for good?'}</span><button type="button" class="quiet" onClick=${() => setSure('')}>Keep it</button>
        <button type="button" class="danger" disabled=${ending} onClick=${end}>${sure === 'forget' ? 'Forget' : 'Retract'}</button>`
        : html`<button type="button" onClick=${() => setCorrecting(true)}>Correct…</button>
        <button type="button" class="quiet" onClick=${() => setSure('forget')}>Forget…</button>
        <button type="button" class="quiet" onClick=${() => setSure('retract')}>Retract…</button>`}</footer>
    ${sure === 'retract' && html`<p class="soft">It leaves every list, search and link, and can't be read again. Its leaf and its proof stay, and its sealed bytes stay in the log until you forget it or erase everything.</p>`}
    ${sure === 'forget' && html`<p class="soft">The key to this text is destroyed: nobody can read it again, you neither. Its leaf, its proofs, its times and its metadata stay, and metadata is not encrypted. Backups that the operator made before may still open it.</p>`}
    <${Problem} error=${refused}/><//>`;
}

/** Memories that corrections lead to or from: each opens. */
const Others = ({ api, ids, onOpen }) => html`<ul class="others">${ids.map((id) => html`<li key=${id}><${Other} api=${api} id=${id} onOpen=${onOpen}/></li>`)}</ul>`;

function Other({ api, id, onOpen }) {
  const [memory, error] = useMemory(api, id);
  if (error) return html`<span class="soft">${error instanceof ApiError && error.status === 410 ? 'A memory that was retracted, forgotten or erased' : inWords(error)}</span>`;
  if (!memory) return html`<span class="soft">Loading…</span>`;
  return html`<button type="button" class="link" onClick=${() => onOpen({ id })}><span dir="auto">${memory.content.slice(0, 240)}</span></button>`;
}

function Proof({ api, memory, anchored }) {
  const [result, setResult] = useState();
  const [check, checking, error] = useTask(async () => {
    setResult(undefined);
    setResult(await verify(api.ledger, memory, anchored).catch(api.guard));
  });
  const failed = result?.steps.find((s) => s.state === 'failed');
  return html`<section class="proof" aria-labelledby="proof-title"><div class="row"><h3 id="proof-title" class="grow">Proof</h3>
      <button type="button" class="primary" disabled=${checking} onClick=${check}>${checking ? 'Checking…' : result ? 'Check again' : 'Verify in this browser'}</button></div>
    ${!result && html`<p class="soft">Your browser hashes the text itself, walks the path to the log's root, and compares that with the account on Solana.</p>`}
    <${Problem} error=${error}/>
    ${result && html`<p class=${`verdict ${failed ? 'bad' : 'good'}`} role=${failed ? 'alert' : 'status'}>${failed ? 'This does not hold. The service gave a false answer.' : result.summary}</p>
      <ol class="steps">${result.steps.map((s) => html`<li key=${s.title} class=${s.state}><strong>${s.title}</strong> <span>${s.text}</span></li>`)}</ol>
      <${Path} result=${result}/>
      <details><summary>All hashes</summary><dl class="hashes">${result.hashes.map(([name, hash], i) => html`<div key=${i}><dt>${name}</dt><dd><code title=${hash}>${hash}</code></dd></div>`)}</dl></details>`}
    </section>`;
}

