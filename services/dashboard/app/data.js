// The owner's data as a whole: export, import, stake, and erasure.
import { html, useState } from './vendor-preact.js';
import { saveFile } from './files.js';
import { Problem, useTask } from './parts.js';
import { WalletChoice } from './signin.js';
import { Stake } from './stake.js';

export function Data({ api }) {
  return html`<${Export} api=${api}/><${Import} api=${api}/><${Stake} api=${api}/><${Erase} api=${api}/>`;
}

const exportMs = 10 * 60_000;

function Export({ api }) {
  const [share, setShare] = useState(), [done, setDone] = useState('');
  const [run, running, error] = useTask(async () => {
    setDone('');
    setShare(0);
    // An export has one line per leaf, a first line, and a last line.
    const lines = (api.head?.treeSize ?? 0) + 2;
    const read = async (response) => {
      const chunks = [], reader = response.body.getReader();
      for (let count = 0; ;) {
        const { done: ended, value } = await reader.read();
        if (ended) break;
        chunks.push(value);
        for (const byte of value) if (byte === 10) count++;
        setShare(Math.min(1, count / lines));
      }
      const file = new Blob(chunks, { type: 'application/x-ndjson' });
      // The last line says that the export is complete.
      const last = (await file.slice(-2000).text()).trimEnd().split('\n').at(-1);
      if (JSON.parse(last).complete !== true) throw new Error('The export broke off. Try again.');
      return file;
    };
    const { body: file } = await api.ledger.core('GET', '/export', { read, timeoutMs: exportMs }).catch(api.guard);
    saveFile('memory-ledger.ndjson', file);
    setDone(`Done: ${Math.ceil(file.size / 1000).toLocaleString('en')} kB, whole.`);
    setShare(undefined);
  });
  return html`<section class="card"><h2>Export</h2>
    <p class="soft">One file with every text and all that proves it. <code>ledger verify-export</code> checks it offline, without this service.</p>
    ${running && html`<progress max="1" value=${share} aria-label="Export"></progress>`}
    <${Problem} error=${error} again=${run}/>
    <div class="row"><button type="button" class="primary" disabled=${running} onClick=${run}>${running ? `Exporting… ${Math.round((share ?? 0) * 100)}%` : 'Export everything'}</button>
      <span role="status">${done}</span></div></section>`;
}

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

function Erase({ api }) {
  const [word, setWord] = useState(''), [asked, setAsked] = useState(false);
  const erase = async (account) => {
    await api.ledger.erase(account);
    api.end('left');
  };
  return html`<section class="card dangerous"><h2>Erase everything</h2>
    <p>Destroys the key of your texts, everywhere, at once. No text can be read again, by anyone, and all sessions, keys and links end. Proofs of what was written still hold. This can't be undone.</p>
    ${!asked ? html`<button type="button" class="danger" onClick=${() => setAsked(true)}>Erase…</button>`
      : html`<label><span>Type <strong>erase</strong> to go on</span><input autoComplete="off" value=${word} onInput=${(e) => setWord(e.target.value)}/></label>
        ${word.trim().toLowerCase() === 'erase' && html`<${WalletChoice} owner=${api.session.publicKey} verb="Erase, signed with" use=${erase}/>`}`}</section>`;
}
