// Keys that move through the page, and the dialog that lists them.
import { html, useEffect, useRef, useState } from './vendor-preact.js';
import { Dialog } from './parts.js';

const names = { '/': 'Search', n: 'Write a new memory', 'j / k': 'Next, previous memory', Enter: 'Open it', x: 'Select it', u: 'Undo a retraction', Escape: 'Close, or leave a field', '?': 'Show these keys' };
const off = () => localStorage.getItem('keys') === 'off'; // speech input types letters that nobody pressed

/** Calls keys[name] for a key that is pressed outside of fields and dialogs. */
export function useKeys(keys) {
  const now = useRef();
  now.current = keys;
  useEffect(() => {
    const press = (e) => {
      const act = now.current[e.key];
      if (!act || e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || off() && e.key.length === 1) return;
      if (document.querySelector('dialog[open]') || e.target.closest?.('input:not([type=checkbox]), textarea, select')) return;
      if (act() !== false) e.preventDefault();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}

export function Keys({ onClose }) {
  const [on, setOn] = useState(!off());
  const change = (e) => { setOn(e.target.checked); localStorage.setItem('keys', e.target.checked ? 'on' : 'off'); };
  return html`<${Dialog} title="Keys" onClose=${onClose}><dl class="keys">${Object.entries(names).map(([key, what]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
    <label class="check"><input type="checkbox" checked=${on} onChange=${change}/>Use single keys</label><//>`;
}
