// Memories: write one, find some, scroll through all.
import { html, useEffect, useLayoutEffect, useRef, useState } from './vendor-preact.js';
import { Empty, Loading, Problem, Time, useTask } from './parts.js';
import { Memory } from './memory.js';

const rowHeight = 72, pageSize = 100, keptPages = 12, mostFound = 2000;
// Browsers limit the height of scrolled content. Older memories beyond that height can
// only be found by search.
const mostRows = 150_000;

export function Memories({ api }) {
  const [query, setQuery] = useState(''), [mode, setMode] = useState('substring');
  const [asked, setAsked] = useState(''), [open, setOpen] = useState();
  useEffect(() => {
    const timer = setTimeout(() => setAsked(query.trim()), 250);
    return () => clearTimeout(timer);
  }, [query]);
  return html`<${Write} api=${api}/>
    <form class="find" role="search" onSubmit=${(e) => { e.preventDefault(); setAsked(query.trim()); }}>
      <input type="search" dir="auto" aria-label="Search memories" placeholder="Search memories" value=${query} onInput=${(e) => setQuery(e.target.value)} maxLength="1000"/>
      <fieldset><legend class="unseen">How to search</legend>
        ${[['substring', 'Exact text'], ['ranked', 'Best match']].map(([value, label]) => html`<label key=${value}>
          <input type="radio" name="mode" value=${value} checked=${mode === value} onChange=${() => setMode(value)}/><span>${label}</span></label>`)}
      </fieldset></form>
    ${asked ? html`<${Found} key=${`${mode} ${asked}`} api=${api} query=${asked} mode=${mode} onOpen=${setOpen}/>`
      : html`<${All} api=${api} onOpen=${setOpen}/>`}
    ${open && html`<${Memory} api=${api} memory=${open} onClose=${() => setOpen(undefined)}/>`}`;
}

function Write({ api }) {
  const [text, setText] = useState(''), [source, setSource] = useState(''), [saved, setSaved] = useState(false);
  const attempt = useRef();
  const change = (set) => (e) => {
    attempt.current = undefined; // another body needs another key
    setSaved(false);
    set(e.target.value);
  };
  const [save, saving, error] = useTask(async () => {
    // Use the same key for the next try: the memory may be stored although the answer was lost.
    attempt.current ??= crypto.randomUUID();
    await api.ledger.memories.write(text, source.trim() ? { source: source.trim() } : {}, { idempotencyKey: attempt.current }).catch(api.guard);
    attempt.current = undefined;
    setText('');
    setSaved(true);
    api.refresh();
  });
  const keys = (e) => e.key === 'Enter' && (e.ctrlKey || e.metaKey) && text && !saving && save();
  return html`<form class="write" aria-label="Write a memory" onSubmit=${(e) => { e.preventDefault(); save(); }}>
    <textarea dir="auto" aria-label="New memory" placeholder="Write something to remember…" rows="2" value=${text} onInput=${change(setText)} onKeyDown=${keys}></textarea>
    <div class="row"><input dir="auto" aria-label="Source (optional)" placeholder="Source" maxLength="80" value=${source} onInput=${change(setSource)}/>
    <span class="grow" role="status">${saved && 'Stored.'}</span>
    <button class="primary" disabled=${!text || saving}>${saving ? 'Storing…' : 'Remember'}</button></div>
    <${Problem} error=${error} again=${save}/></form>`;
}

/** Rows of one height. Only the rows in or near sight are in the document. */
function Rows({ total, row, onSight, label }) {
  const box = useRef(), before = useRef(total), [view, setView] = useState({ top: 0, height: 800 });
  useLayoutEffect(() => {
    const look = () => setView({ top: box.current.scrollTop, height: box.current.clientHeight });
    const resized = new ResizeObserver(look);
    resized.observe(box.current);
    box.current.addEventListener('scroll', look, { passive: true });
    return () => resized.disconnect();
  }, []);
  // New rows appear at the top. A reader who has scrolled down must keep their place.
  useLayoutEffect(() => {
    if (box.current.scrollTop > rowHeight / 2 && total > before.current) box.current.scrollTop += (total - before.current) * rowHeight;
    before.current = total;
  }, [total]);
  const first = Math.max(0, Math.floor(view.top / rowHeight) - 4);
  const last = Math.min(total, Math.ceil((view.top + view.height) / rowHeight) + 4);
  useEffect(() => {
    const timer = setTimeout(() => onSight(first, last), first === 0 ? 0 : 60); // skip rows that only scroll past
    return () => clearTimeout(timer);
  }, [first, last, total]);
  const move = (e) => {
    const step = { ArrowDown: 'nextElementSibling', ArrowUp: 'previousElementSibling' }[e.key];
    const next = step && document.activeElement.closest('li')?.[step]?.querySelector('button');
    if (!next) return;
    e.preventDefault();
    next.focus();
  };
  const rows = [];
  for (let i = first; i < last; i++) {
    rows.push(html`<li key=${total - i} aria-setsize=${total} aria-posinset=${i + 1} style=${{ top: `${i * rowHeight}px`, height: `${rowHeight}px` }}>${row(i)}</li>`);
  }
  return html`<div class="rows" ref=${box} onKeyDown=${move}><ul aria-label=${label} style=${{ height: `${total * rowHeight}px` }}>${rows}</ul></div>`;
}

const viaWords = { session: 'in your session', key: 'by a key', drop: 'left by a link' };

// rowOf keeps only the parts of a memory that its row shows: texts may be long, and rows are many.
const rowOf = (m) => ({ id: m.id, leafIndex: m.leafIndex, text: m.damaged ? 'The stored copy of this memory is damaged.' : m.content.slice(0, 240), createdAt: m.createdAt, via: m.via?.kind, source: m.metadata?.source, score: m.score });

const Row = ({ row, anchored, onOpen }) => html`<button type="button" class="memory" onClick=${onOpen}>
  <span class="text" dir="auto">${row.text}</span>
  <span class="meta"><${Time} at=${row.createdAt}/>${typeof row.source === 'string' && html`<span class="source" dir="auto">${row.source}</span>`}
    ${viaWords[row.via] && html`<span class=${row.via === 'drop' ? 'via foreign' : 'via'}>${viaWords[row.via]}</span>`}
    <span class=${anchored ? 'state anchored' : 'state'}>${anchored ? 'anchored' : 'waiting'}</span></span></button>`;

/** The whole log, newest first. A leaf's index gives the place of its row, so any part can be shown without loading the rest. */
function All({ api, onOpen }) {
  const { head } = api, pages = useRef(new Map()), wanted = useRef([0, 0]);
  const [, draw] = useState(0), [error, setError] = useState();
  const redraw = () => draw((n) => n + 1);
  const size = head?.treeSize ?? 0, total = Math.min(size, mostRows);

  const load = async (number, upto) => {
    const before = pages.current.get(number);
    // upto is the log's size at the newest request, read the size at the request that gave the rows.
    const page = { upto, read: before?.read ?? 0, rows: before?.rows };
    pages.current.delete(number); // move it to the end, as the newest
    pages.current.set(number, page);
    while (pages.current.size > keptPages) pages.current.delete(pages.current.keys().next().value);
    try {
      const { body } = await api.ledger.core('GET', `/memories?limit=${pageSize}&cursor=${number * pageSize}`);
      page.rows = new Map(body.map((m) => [m.leafIndex, rowOf(m)]));
      page.read = upto;
      setError(undefined);
    } catch (failure) {
      pages.current.delete(number);
      setError(failure);
      api.guard(failure);
    }
    redraw();
  };
  const sight = (first, last) => {
    wanted.current = [first, last];
    if (size === 0) return;
    const newest = Math.floor((size - 1 - first) / pageSize), oldest = Math.floor(Math.max(0, size - last) / pageSize);
    for (let number = newest; number >= oldest; number--) {
      const page = pages.current.get(number), whole = (number + 1) * pageSize;
      if (!page || (page.upto < size && page.upto < whole)) load(number, size).catch(() => {});
    }
  };
  useEffect(() => api.hear((events) => {
    for (const { type, data } of events) {
      if (type !== 'MemoryRetracted' && type !== 'MemoryForgotten') continue;
      pages.current.get(Math.floor(data.leafIndex / pageSize))?.rows?.delete(data.leafIndex);
      redraw();
    }
  }), []);
  const row = (i) => {
    const leaf = size - 1 - i, page = pages.current.get(Math.floor(leaf / pageSize));
    const found = page?.rows?.get(leaf);
    if (found) return html`<${Row} row=${found} anchored=${leaf < head.anchoredSize} onOpen=${() => onOpen(found)}/>`;
    if (page?.rows && leaf < page.read) return html`<p class="gone">Leaf ${leaf.toLocaleString('en')} was retracted, forgotten or erased. Its proof stays.</p>`;
    return html`<p class="skeleton" aria-hidden="true"><span></span><span></span></p>`;
  };
  if (!head) return html`<${Loading} what="Opening your log"/>`;
  return html`<div class="summary"><p>${size.toLocaleString('en')} written</p>
      <p class="soft">${head.anchoredSize === size && size > 0 ? 'all on the chain' : `${head.anchoredSize.toLocaleString('en')} on the chain`}${size > mostRows && `; the list has the newest ${mostRows.toLocaleString('en')}`}</p></div>
    <${Problem} error=${error} again=${() => sight(...wanted.current)}/>
    ${size === 0 ? html`<${Empty} title="Nothing here yet">Write your first memory above, or make a key under Access and let a program do it.<//>`
      : html`<${Rows} total=${total} row=${row} onSight=${sight} label="Memories, newest first"/>`}`;
}

function Found({ api, query, mode, onOpen }) {
  const [rows, setRows] = useState(), [more, setMore] = useState(true), [error, setError] = useState();
  const search = useRef(), loading = useRef(false);
  const load = async () => {
    if (loading.current) return;
    loading.current = true;
    setError(undefined);
    search.current ??= api.ledger.memories.search(query, { mode, pageSize: 50, ...(mode === 'substring' && { order: 'newest' }) });
    const page = [];
    try {
      let done = false;
      while (page.length < 50 && !done) {
        const next = await search.current.next();
        done = next.done;
        if (!done) page.push(rowOf(next.value));
      }
      setMore(!done);
      setRows((before = []) => [...before, ...page]);
    } catch (failure) {
      search.current = undefined;
      setRows(undefined);
      setError(failure);
    }
    loading.current = false;
  };
  useEffect(() => { load(); }, []);
  if (error) return html`<${Problem} error=${error} again=${load}/>`;
  if (!rows) return html`<${Loading} what="Searching"/>`;
  const full = rows.length >= mostFound;
  return html`<div class="summary" role="status"><p>${rows.length}${more ? '+' : ''} found</p>
      <p class="soft">${mode === 'ranked' ? 'best first' : 'newest first'}${full && more ? '; ask for less to see the rest' : ''}</p></div>
    ${rows.length === 0 ? html`<${Empty} title="Nothing found">${mode === 'substring' ? 'No memory has exactly this text. “Best match” looks for the words instead.' : 'No memory has these words.'}<//>`
      : html`<${Rows} total=${rows.length} row=${(i) => html`<${Row} row=${rows[i]} anchored=${rows[i].leafIndex < (api.head?.anchoredSize ?? 0)} onOpen=${() => onOpen(rows[i])}/>`}
        onSight=${(_, last) => more && !full && last >= rows.length && load()} label="Memories that were found"/>`}`;
}
