// Import: an export of the same owner from another Memory Ledger, or what other programs keep.
import { html, useState } from './vendor-preact.js';
import { filesIn, filesOf, isExport, read, sha256 } from './foreign.js';
import { Problem, memories, useTask } from './parts.js';

const mostEntries = 256, mostBytes = 900_000; // of a batch; a request has a megabyte at most

/** Returns the section. Its state is the page's: an import goes on, and says how it ends, while another screen is open. */
export function useImport(api) {
  const [done, setDone] = useState(''), [over, setOver] = useState(false), [found, setFound] = useState(), [broke, setBroke] = useState(false), [byHeading, setByHeading] = useState(false);
  const [take, taking, error] = useTask(async (given) => {
    setDone('');
    setFound();
    setBroke(false);
    const files = await given;
    if (files.length === 1 && await isExport(files[0].file)) {
      setBroke(true);
      const { added } = await api.ledger.log.import(files[0].file).catch(api.guard);
      setBroke(false);
      api.refresh();
      return setDone(added > 0 ? `Done: ${memories(added)} added.` : 'Your log has all of it already.');
    }
    const entries = await read(files, byHeading), good = entries.filter(({ why }) => !why);
    if (entries.length === 0) throw new Error('There is nothing to import here: no text, Markdown, JSON lines, export of mem0 or export of a Memory Ledger.');
    const { before, gone } = good.length > 0 ? await stored(api) : { before: new Map() };
    setFound({ fresh: fresh(good, before), gone, there: good.filter((e) => before.get(e.id)?.has(e.content)).length, left: entries.filter(({ why }) => why) });
  });
  const [store, storing, unstored] = useTask(async () => {
    let done = 0;
    for (const batch of batches(found.fresh)) {
      // The same key for the same entries: a batch is stored once, also if its answer was lost. One that was taken back since has another key.
      await api.ledger.core('POST', '/memories/batch', { body: { memories: batch }, idempotencyKey: `import-${await sha256(JSON.stringify([batch, found.gone]))}` }).catch(api.guard);
      setDone(`${(done += batch.length).toLocaleString('en')} of ${memories(found.fresh.length)} stored…`);
    }
    api.refresh();
    setDone(`Done: ${memories(found.fresh.length)} stored.`);
    setFound();
  });
  const [giveUp, ending, failed] = useTask(async () => {
    await api.ledger.log.giveUpImport().catch(api.guard);
    setBroke(false);
    setDone('Given up. What was added stays, and you can write again.');
  });
  const busy = taking || storing, choose = (files) => !busy && take(files);
  const drag = (inside) => (e) => { e.preventDefault(); setOver(inside); };
  const picker = (words, more) => html`<label class="button">${words}<input class="unseen" type="file" multiple disabled=${busy} ...${more} onChange=${(e) => { choose(filesIn(e.target)); e.target.value = ''; }}/></label>`;
  return html`<section class="card"><h2>Import</h2>
    <p class="soft">Notes as Markdown files, a folder or vault of them, text with a memory in each line, JSON lines, or an export of mem0: each entry is stored once, however often you bring it. Nothing is stored before you say so.</p>
    <div class=${over ? 'target over' : 'target'} onDragOver=${drag(true)} onDragLeave=${drag(false)} onDrop=${(e) => { drag(false)(e); choose(filesOf(e.dataTransfer)); }}>
      <p>${taking ? 'Reading…' : 'Drop files or a folder here, or'}</p>
      <div class="row">${picker('Choose files', { accept: '.md,.markdown,.txt,.text,.jsonl,.ndjson,.json' })}${picker('Choose a folder', { webkitdirectory: true })}</div>
      <label class="check"><input type="checkbox" checked=${byHeading} disabled=${busy} onChange=${(e) => setByHeading(e.target.checked)}/>Make each heading of a note a memory</label></div>
    ${found && html`<div class="stack found"><p role="status">${found.fresh.length > 0 ? html`<strong>${memories(found.fresh.length)}</strong> to store.` : 'Nothing new.'}
        ${found.there > 0 && ` ${found.there.toLocaleString('en')} there already.`}${found.left.length > 0 && ` ${found.left.length.toLocaleString('en')} left out:`}</p>
      ${found.left.length > 0 && html`<ul class="points">${found.left.slice(0, 5).map(({ where, why }) => html`<li key=${where}><bdi>${where}</bdi>: ${why}</li>`)}</ul>`}
      ${found.fresh.length > 0 && html`<div class="row"><button type="button" class="primary" disabled=${storing} onClick=${store}>${storing ? 'Storing…' : `Store ${memories(found.fresh.length)}`}</button>
        <button type="button" class="quiet" disabled=${storing} onClick=${() => setFound()}>Not now</button></div>`}</div>`}
    <${Problem} error=${error ?? unstored ?? failed}/>
    <div class="row"><span class="grow" role="status">${done}</span>
      ${broke && error && html`<button type="button" class="quiet" disabled=${taking || ending} onClick=${giveUp}>Give up an import that broke off</button>`}</div>
    <details><summary>Moving here from another Memory Ledger</summary><p class="soft">Bring the file that you exported there with the same wallet. Your log here must be empty. All proofs from there still hold. Nothing else can be written until all of it is in; if it breaks off, bring the same file again.</p></details></section>`;
}

/**
 * Returns what earlier imports stored, and nothing supersedes: for each external id, the memories' ids by text. gone is
 * how many leaves have no memory any more.
 */
async function stored(api) {
  const before = new Map(), { treeSize, memories } = await api.ledger.log.head().catch(api.guard); // api.head may be older than the last import
  for (let from = 0; from < treeSize; from += 1000) {
    const { body } = await api.ledger.core('GET', `/memories?limit=1000&cursor=${from}`).catch(api.guard);
    for (const { id, content, metadata: { externalId }, supersededBy } of body) {
      if (typeof externalId !== 'string' || supersededBy) continue;
      if (!before.has(externalId)) before.set(externalId, new Map());
      before.get(externalId).set(content, id);
    }
  }
  return { before, gone: treeSize - memories };
}

/** Returns the memories to write for entries that are not stored. A text that has changed takes the old one's place. */
function fresh(entries, before) {
  const written = new Set();
  return entries.flatMap(({ id, content, metadata }) => {
    const was = before.get(id), mark = JSON.stringify([id, content]);
    if (was?.has(content) || written.has(mark)) return [];
    written.add(mark);
    const supersedes = was && !written.has(id) ? [[...was.values()].at(-1)] : undefined;
    written.add(id);
    return [{ content, metadata: { ...metadata, externalId: id }, supersedes }];
  });
}

function* batches(all) {
  let batch = [], bytes = 0;
  for (const memory of all) {
    const size = new TextEncoder().encode(JSON.stringify(memory)).length;
    if (batch.length === mostEntries || (batch.length > 0 && bytes + size > mostBytes)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(memory);
    bytes += size;
  }
  if (batch.length > 0) yield batch;
}
