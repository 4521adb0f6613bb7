// The owner's data as a whole: export, import, stake, and erasure.
import { html } from './vendor-preact.js';
import { Erase } from './erase.js';
import { ExportButton, useExport } from './export.js';
import { Stake } from './stake.js';

export function Data({ api, importing }) {
  return html`<${Export} api=${api}/>${importing}<${Stake} api=${api}/><${Erase} api=${api}/>`;
}

const Export = ({ api }) => html`<section class="card"><h2>Export</h2>
  <p class="soft">One file with every text and all that proves it. <code>ledger verify-export</code> checks it offline, without this service.</p>
  <${ExportButton} exporting=${useExport(api)} primary/></section>`;
