// The owner's data as a whole: export, import, stake, and erasure.
import { html, useState } from './vendor-preact.js';
import { Erase } from './erase.js';
import { ExportButton, useExport } from './export.js';
import { Problem, useTask } from './parts.js';
import { Stake } from './stake.js';

export function Data({ api }) {
  return html`<${Export} api=${api}/><${Import} api=${api}/><${Stake} api=${api}/><${Erase} api=${api}/>`;
}

const Export = ({ api }) => html`<section class="card"><h2>Export</h2>
  <p class="soft">One file with every text and all that proves it. <code>ledger verify-export</code> checks it offline, without this service.</p>
  <${ExportButton} exporting=${useExport(api)} primary/></section>`;

/** Takes a file that the owner exported at another place. */
function Import({ api }) {
  const [done, setDone] = useState(''), [over, setOver] = useState(false);
  const [take, taking, error] = useTask(async (file) => {
    setDone('');
    const { added } = await api.ledger.log.import(file).catch(api.guard);
    api.refresh();
    setDone(added > 0 ? `Done. Leaves added: ${added.toLocaleString('en')}.` : 'Your log has all of it already.');
  });
  const [giveUp, ending, failed] = useTask(async () => {
    await api.ledger.log.giveUpImport().catch(api.guard);
    setDone('Given up. What was added stays, and you can write again.');
  });
  const choose = (files) => files.length > 0 && !taking && take(files[0]);
  const drag = (inside) => (e) => { e.preventDefault(); setOver(inside); };
  return html`<section class="card"><h2>Import</h2>
    <p class="soft">Moving here from another Memory Ledger? Bring the file that you exported there with the same wallet. Your log here must be empty. All proofs from there still hold. Nothing else can be written until all of it is in; if it breaks off, bring the same file again.</p>
    <label class=${over ? 'target over' : 'target'} onDragOver=${drag(true)} onDragLeave=${drag(false)} onDrop=${(e) => { drag(false)(e); choose(e.dataTransfer.files); }}>
      <span>${taking ? 'Importing…' : 'Drop the file here, or choose it'}</span><input type="file" accept=".ndjson" disabled=${taking} onChange=${(e) => choose(e.target.files)}/></label>
    <${Problem} error=${error ?? failed}/>
    <div class="row"><span class="grow" role="status">${done}</span>
      ${error && html`<button type="button" class="quiet" disabled=${taking || ending} onClick=${giveUp}>Give up an import that broke off</button>`}</div></section>`;
}
