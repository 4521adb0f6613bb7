// The home screen: write a memory, find some, scroll through all, and open or select them.
import { html, useEffect, useRef, useState } from './vendor-preact.js';
import { Unfold, listOf } from './parts.js';
import { All, Found, step, useNarrow } from './list.js';
import { Keys, useKeys } from './keys.js';
import { Memory } from './memory.js';
import { Write } from './write.js';
import { address, goBack, goTo, useAddress } from './route.js';

// Each member of the address that selects memories, with the words that say so.
const members = {
  q: 'Words', exact: 'Exact text', source: 'From the source', tags: 'Has the tags', namespace: 'In the namespace',
  from: 'Happened from', to: 'Happened until', via: 'Came in', chain: 'State', gone: 'Show gone ones',
};
const filters = Object.keys(members).filter((name) => name !== 'q');
const choices = {
  via: { '': 'in any way', session: 'by you', key: 'by a program', drop: 'by a link' },
  chain: { '': 'any', yes: 'on the chain', no: 'waiting' },
};
const tidy = (some) => Object.fromEntries(Object.keys(members).map((name) => [name, some[name]?.trim()]).filter(([, value]) => value));

const quoted = (q) => /^["“”„«]([^"“”„«»]+)["“”»]$/.exec(q)?.[1];

/** Returns the filter of the API for what is asked. */
function filterOf({ source, namespace, from, to, via, chain, ...asked }) {
  const tags = listOf(asked.tags ?? '');
  const filter = { source, namespace, occurredFrom: from, occurredTo: to, via, anchored: chain && chain === 'yes', tags: tags.length > 0 ? tags : undefined };
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
}

/** Holds what is asked: as typed, and, a moment later, in the address. */
function useAsked(at) {
  const asked = tidy(at), key = JSON.stringify(asked);
  const [typed, setTyped] = useState(asked), mine = useRef(key);
  const ask = (next = typed) => {
    const now = tidy(next);
    if (mine.current === JSON.stringify(now)) return;
    mine.current = JSON.stringify(now);
    goTo({ ...now, memory: address().memory });
  };
  useEffect(() => {
    const timer = setTimeout(ask, 250);
    return () => clearTimeout(timer);
  }, [typed]);
  useEffect(() => { // Back, or a link, changed it
    if (key === mine.current) return;
    mine.current = key;
    setTyped(asked);
  }, [key]);
  return [asked, typed, (change) => setTyped((now) => ({ ...now, ...change })), ask];
}

const isId = (text) => /^[0-9a-f-]{36}$/.test(text ?? '');

export function Memories({ api }) {
  const at = useAddress(), [asked, typed, type, ask] = useAsked(at);
  const [folded, setFolded] = useState(true), [picked, setPicked] = useState(), [help, setHelp] = useState(false), search = useRef(), narrow = useNarrow();
  const [closed, setClosed] = useState(), shown = isId(at.memory) && at.memory !== closed ? at.memory : undefined; // the way back takes a moment
  useEffect(() => { if (at.memory !== closed) setClosed(undefined); }, [at.memory]);
  const open = ({ id }) => {
    ask(); // Back returns to what was typed last
    goTo({ ...tidy(address()), memory: id }, !shown);
  };
  const close = () => { setClosed(at.memory); goBack(tidy(address())); };
  const pick = ({ id }) => setPicked((now) => {
    const next = new Set(now);
    if (!next.delete(id)) next.add(id);
    return next;
  });
  const retract = () => { api.retract([...picked]); setPicked(undefined); };
  const focused = () => document.activeElement.closest('button.memory')?.dataset.id;
  useKeys({
    '/': () => search.current.focus(), '?': () => setHelp(true),
    n: () => { scrollTo(0, 0); document.querySelector('.write textarea').focus(); },
    j: () => step(1), k: () => step(-1), ArrowDown: () => Boolean(focused()) && step(1), ArrowUp: () => Boolean(focused()) && step(-1),
    x: () => Boolean(focused()) && pick({ id: focused() }), Escape: () => Boolean(picked) && setPicked(undefined),
  });
  const leave = (e) => {
    if (e.key === 'ArrowDown') step(1);
    else if (e.key === 'Escape') { type({ q: '' }); search.current.blur(); } else return;
    e.preventDefault();
  };
  const { q = '', exact, gone } = asked, inQuotes = quoted(q), filter = filterOf(asked), query = inQuotes ?? q;
  const list = { api, hidden: api.hidden, picked, onOpen: picked ? pick : open };
  const tools = html`<div class="tools"><button type="button" class="quiet" aria-pressed=${Boolean(picked)} onClick=${() => setPicked(picked ? undefined : new Set())}>Select</button>
    <button type="button" class="quiet hint" aria-label="Keys" title="Keys (?)" onClick=${() => setHelp(true)}>?</button></div>`;
  const field = (name, more) => html`<label>${members[name]}<input dir="auto" maxLength="80" value=${typed[name] ?? ''} onInput=${(e) => type({ [name]: e.target.value })} ...${more}/></label>`;
  const choice = (name) => html`<label>${members[name]}<select value=${typed[name] ?? ''} onChange=${(e) => type({ [name]: e.target.value })}>${Object.entries(choices[name]).map(([value, words]) => html`<option key=${value} value=${value}>${words}</option>`)}</select></label>`;
  const check = (name) => html`<label class="check"><input type="checkbox" checked=${Boolean(typed[name])} onChange=${(e) => type({ [name]: e.target.checked ? '1' : '' })}/>${members[name]}</label>`;
  return html`<${Write} api=${api}/>
    <form class="find" role="search" onSubmit=${(e) => { e.preventDefault(); ask(); }}>
      <input type="search" ref=${search} dir="auto" aria-label="Search memories" placeholder=${narrow ? 'Search by meaning' : 'Search by meaning, or “exact words”'} maxLength="1000" value=${typed.q ?? ''} onInput=${(e) => type({ q: e.target.value })} onKeyDown=${leave}/>
      <${Unfold} what="Filter" open=${!folded} values=${filters.map((name) => typed[name])} onToggle=${() => { setFolded(!folded); if (folded) scrollTo(0, 0); }}/></form>
    ${!folded && html`<div class="fields" role="group" aria-label="Filter">${field('source', { placeholder: 'diary' })}${field('tags', { placeholder: 'tea, cats', maxLength: 1000 })}
      ${field('from', { type: 'date' })}${field('to', { type: 'date' })}${field('namespace', { placeholder: 'home' })}${choice('via')}${choice('chain')}${check('exact')}${check('gone')}</div>`}
    ${folded && filters.some((name) => asked[name]) && html`<div class="chips">${filters.filter((name) => asked[name]).map((name) => html`<button type="button" key=${name} onClick=${() => type({ [name]: '' })}>
      <span class="unseen">Without: </span>${members[name]}${asked[name] !== '1' && html`: <bdi>${choices[name]?.[asked[name]] ?? asked[name]}</bdi>`} <span aria-hidden="true">✕</span></button>`)}</div>`}
    ${query || Object.keys(filter).length > 0
      ? html`<${Found} key=${JSON.stringify([query, exact, filter, filter.anchored !== undefined && api.head?.anchoredSize])} ...${list} query=${query} exact=${Boolean(exact || inQuotes)} filter=${filter} onExact=${() => type({ exact: '1' })}>${tools}<//>`
      : html`<${All} ...${list} gone=${Boolean(gone)}>${tools}<//>`}
    ${picked && html`<div class="toast" role="group" aria-label="Selected"><p><span role="status">${picked.size} selected</span>
      <button type="button" class="danger" disabled=${picked.size === 0} onClick=${retract}>Retract</button><button type="button" onClick=${() => setPicked(undefined)}>Cancel</button></p></div>`}
    ${help && html`<${Keys} onClose=${() => setHelp(false)}/>`}
    ${shown && html`<${Memory} key=${shown} api=${api} memory=${{ id: shown }} onOpen=${open} onClose=${close}/>`}`;
}
