// The export of everything, as a file.
import { html, useState } from './vendor-preact.js';
import { saveFile } from './files.js';
import { Problem, useTask } from './parts.js';

const exportMs = 10 * 60_000;

/** Exports everything: { run, running, error, share, done }. */
export function useExport(api) {
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
  return { run, running, error, share, done };
}

export const ExportButton = ({ exporting: { run, running, error, share, done }, primary }) => html`${running && html`<progress max="1" value=${share} aria-label="Export"></progress>`}
  <${Problem} error=${error} redo=${run}/>
  <div class="row"><button type="button" class=${primary ? 'primary' : ''} disabled=${running} onClick=${run}>${running ? `Exporting… ${Math.round((share ?? 0) * 100)}%` : 'Export everything'}</button>
    <span role="status">${done}</span></div>`;
