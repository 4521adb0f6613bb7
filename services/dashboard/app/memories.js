// Memories: find some, scroll through all.
import { html, useEffect, useLayoutEffect, useRef, useState } from './vendor-preact.js';
import { Empty, Loading, Problem, Time, Unfold, listOf, tagsOf } from './parts.js';
import { Memory } from './memory.js';
import { Write } from './write.js';

const rowHeight = 72, pageSize = 100, keptPages = 12, mostFound = 2000;
// Browsers limit the height of scrolled content. Older memories beyond that height can
// only be found by search.
const mostRows = 150_000;

/** Returns the memory that the page's address opens, such as #memory=019ca8d2-7b02-7d18-8f3e-6a1c2b3d4e02. */
const linked = () => {
  const id = /^#memory=([0-9a-f-]{36})$/.exec(location.hash)?.[1];
  return id && { id };
};

const nothing = { query: '', tags: '', namespace: '' };

export function Memories({ api }) {
  const [typed, setTyped] = useState(nothing), [asked, setAsked] = useState(nothing), [mode, setMode] = useState('substring');
  const [folded, setFolded] = useState(true), [open, setOpen] = useState(linked);
  const ask = () => setAsked({ query: typed.query.trim(), tags: typed.tags, namespace: typed.namespace.trim() });
  useEffect(() => {
    const timer = setTimeout(ask, 250);
    return () => clearTimeout(timer);
  }, [typed]);
  useEffect(() => {
    const follow = () => linked() && setOpen(linked());
    window.addEventListener('hashchange', follow);
    return () => window.removeEventListener('hashchange', follow);
  }, []);
  const close = () => {
    setOpen(undefined);
    if (linked()) history.replaceState(null, '', '#memories');
  };
  const field = (name) => ({ value: typed[name], onInput: (e) => setTyped((now) => ({ ...now, [name]: e.target.value })) });
  const tags = listOf(asked.tags), { query, namespace } = asked;
  const filter = { ...(tags.length > 0 && { tags }), ...(namespace && { namespace }) }, some = query || tags.length > 0 || namespace;
  const how = query ? mode : 'substring'; // without words there is no best match
  return html`<${Write} api=${api}/>
    <form class="find" role="search" onSubmit=${(e) => { e.preventDefault(); ask(); }}>
      <input type="search" dir="auto" aria-label="Search memories" placeholder="Search memories" maxLength="1000" ...${field('query')}/>
      <fieldset><legend class="unseen">How to search</legend>
        ${[['substring', 'Exact text'], ['ranked', 'Best match']].map(([value, label]) => html`<label key=${value}>
          <input type="radio" name="mode" value=${value} checked=${mode === value} onChange=${() => setMode(value)}/><span>${label}</span></label>`)}
      </fieldset>
      <${Unfold} what="Filter" open=${!folded} values=${[typed.tags, typed.namespace]} onToggle=${() => setFolded(!folded)}/>
      ${!folded && html`<div class="fields"><label>Has the tags<input dir="auto" placeholder="family, garden" ...${field('tags')}/></label>
        <label>In the namespace<input dir="auto" placeholder="home" maxLength="80" ...${field('namespace')}/></label></div>`}</form>
    ${some ? html`<${Found} key=${JSON.stringify([how, query, filter])} api=${api} query=${query} mode=${how} filter=${filter} onOpen=${setOpen}/>`
      : html`<${All} api=${api} onOpen=${setOpen}/>`}
    ${open && html`<${Memory} key=${open.id} api=${api} memory=${open} onOpen=${setOpen} onClose=${close}/>`}`;
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
const rowOf = (m) => ({ id: m.id, leafIndex: m.leafIndex, text: m.damaged ? 'The stored copy of this memory is damaged.' : m.content.slice(0, 240), createdAt: m.createdAt, via: m.via?.kind, source: m.metadata?.source, tags: tagsOf(m.metadata), supersededBy: m.supersededBy ?? [] });

const isEnd = ({ type }) => type === 'MemoryRetracted' || type === 'MemoryForgotten';

/** Marks the rows that events correct, and those whose correction has ended. */
function mark(rows, events) {
  const corrections = events.filter(({ data }) => data.supersedes), ended = new Set(events.filter(isEnd).map(({ data }) => data.memoryId));
  if (corrections.length + ended.size === 0) return;
  for (const row of rows) {
    const by = corrections.filter(({ data }) => data.supersedes.includes(row.leafIndex)).map(({ data }) => data.memoryId);
    row.supersededBy = [...by, ...row.supersededBy].filter((id) => !ended.has(id));
  }
}

const Row = ({ row, anchored, onOpen }) => html`<button type="button" class="memory" onClick=${onOpen}>
  <span class=${row.supersededBy.length > 0 ? 'text old' : 'text'} dir="auto">${row.text}</span>
  <span class="meta"><${Time} at=${row.createdAt}/>${typeof row.source === 'string' && html`<span class="source" dir="auto">${row.source}</span>`}
    ${row.tags.length > 0 && html`<span class="tags" dir="auto">${row.tags.map((tag) => `#${tag}`).join(' ')}</span>`}
    ${row.supersededBy.length > 0 && html`<span>corrected</span>`}
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
    for (const { data } of events.filter(isEnd)) pages.current.get(Math.floor(data.leafIndex / pageSize))?.rows?.delete(data.leafIndex);
    for (const { rows } of pages.current.values()) if (rows) mark(rows.values(), events);
    redraw();
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

function Found({ api, query, mode, filter, onOpen }) {
  const [rows, setRows] = useState(), [more, setMore] = useState(true), [error, setError] = useState();
  const search = useRef(), loading = useRef(false);
  const load = async () => {
    if (loading.current) return;
    loading.current = true;
    setError(undefined);
    search.current ??= api.ledger.memories.search(query, { mode, filter, pageSize: 50, ...(mode === 'substring' && { order: 'newest' }) });
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
  useEffect(() => api.hear((events) => {
    const ended = new Set(events.filter(isEnd).map(({ data }) => data.memoryId));
    setRows((now) => {
      const rest = now?.filter((row) => !ended.has(row.id));
      if (rest) mark(rest, events);
      return rest;
    });
  }), []);
  if (error) return html`<${Problem} error=${error} again=${load}/>`;
  if (!rows) return html`<${Loading} what="Searching"/>`;
  const full = rows.length >= mostFound;
  return html`<div class="summary" role="status"><p>${rows.length}${more ? '+' : ''} found</p>
      <p class="soft">${mode === 'ranked' ? 'best first' : 'newest first'}${full && more ? '; ask for less to see the rest' : ''}</p></div>
    ${rows.length === 0 ? html`<${Empty} title="Nothing found">${Object.keys(filter).length > 0 ? 'No memory matches all of this. Ask for less.' : mode === 'substring' ? 'No memory has exactly this text. “Best match” looks for the words instead.' : 'No memory has these words.'}<//>`
      : html`<${Rows} total=${rows.length} row=${(i) => html`<${Row} row=${rows[i]} anchored=${rows[i].leafIndex < (api.head?.anchoredSize ?? 0)} onOpen=${() => onOpen(rows[i])}/>`}
        onSight=${(_, last) => more && !full && last >= rows.length && load()} label="Memories that were found"/>`}`;
}
