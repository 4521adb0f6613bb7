// Erasing everything: what goes, what stays, the export before it, and the page at its end.
import { html, useEffect, useRef, useState } from './vendor-preact.js';
import { toBase58 } from './vendor-ledger.js';
import { Mark, when } from './parts.js';
import { ExportButton, useExport } from './export.js';
import { saveJSON } from './files.js';
import { WalletChoice } from './signin.js';

const Stays = () => html`<ul class="points"><li>The log's hashes, their order and their times: every proof and receipt of before still holds.</li>
  <li>Metadata, such as sources, tags and titles, which is not encrypted.</li>
  <li>Roots on the chain, which hold no text.</li>
  <li>What others have: an export, a receipt, a case that was opened, and backups that the operator made before.</li></ul>`;

export function Erase({ api }) {
  const [word, setWord] = useState(''), [asked, setAsked] = useState(false), exporting = useExport(api);
  const erase = async (account) => {
    const { treeSize, root, anchoredSize } = api.head ?? {};
    const receipt = { what: 'erased', owner: api.session.publicKey, treeSize, root, anchoredSize };
    // What the wallet signs is the owner's own record of the request.
    const witness = { ...account, signMessage: async (message) => {
      const signature = await account.signMessage(message);
      Object.assign(receipt, { message: new TextDecoder().decode(message), signature: toBase58(signature) });
      return signature;
    } };
    await api.ledger.erase(witness);
    api.end({ ...receipt, at: new Date().toISOString() });
  };
  return html`<section class="card dangerous"><h2>Erase everything</h2>
    <p>Destroys the key of your texts, everywhere, at once. No text can be read again, and all sessions, keys and links end. This can't be undone.</p>
    ${!asked ? html`<button type="button" class="danger" onClick=${() => setAsked(true)}>Erase…</button>` : html`
      <h3>First, keep a copy</h3><${ExportButton} exporting=${exporting}/>
      <h3>What stays</h3><${Stays}/>
      <label><span>Type <strong>erase</strong> to go on</span><input autoComplete="off" value=${word} onInput=${(e) => setWord(e.target.value)}/></label>
      ${word.trim().toLowerCase() === 'erase' && html`<${WalletChoice} owner=${api.session.publicKey} verb="Erase, signed with" use=${erase}/>`}`}</section>`;
}

/** The page after an erasure. */
export function Erased({ receipt, onDone }) {
  const title = useRef();
  useEffect(() => title.current.focus(), []);
  return html`<main class="welcome" id="main"><p class="brand"><${Mark}/>Memory Ledger</p>
    <h1 tabIndex="-1" ref=${title}>Everything is erased</h1>
    <p class="lead">On ${when(receipt.at)} the key of your texts was destroyed, at your wallet's request. None of your ${receipt.treeSize?.toLocaleString('en')} memories can be read again. Every session, key, app and link has ended.</p>
    <h2>What stays</h2><${Stays}/>
    <p class="soft">The receipt has the time, the log's root, and the text that your wallet signed.</p>
    <div class="row"><button type="button" class="primary" onClick=${() => saveJSON('erased.json', receipt)}>Download the receipt</button>
      <button type="button" onClick=${onDone}>Begin anew</button></div></main>`;
}
