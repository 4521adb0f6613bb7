// Lists of memories that scroll with the page: of the whole log, and of what a search found.
import { html, useEffect, useLayoutEffect, useRef, useState } from './vendor-preact.js';
import { Empty, Loading, Problem, Time, memories, tagsOf, waiting } from './parts.js';
import { FirstRun } from './firstrun.js';
import { between, passage } from './passage.js';

const pageSize = 100, keptPages = 12, mostFound = 2000;
// Browsers limit the height of a page. Older memories beyond that height can only be found by search.
const mostRows = 150_000;

const narrow = matchMedia('(max-width: 52rem)');
export function useNarrow() {
  const [now, setNow] = useState(narrow.matches);
  useEffect(() => {
    const look = () => setNow(narrow.matches);
    narrow.addEventListener('change', look);
    return () => narrow.removeEventListener('change', look);
  }, []);
  return now;
}
const heightOf = (lines) => 48 + 24 * lines;

/**
 * Rows of one height. Only those in or near sight are in the document. name names a row, so that it keeps the focus.
 * place names its place in a way that survives changes above it, and index finds that again.
 */
function Rows({ total, lines, row, name, onSight, label, place = (i) => i, index = (i) => i }) {
  const height = heightOf(lines), box = useRef(), kept = useRef(), [view, setView] = useState({ top: 0, height: 800 });
  const look = () => setView({ top: Math.max(0, -box.current.getBoundingClientRect().top), height: innerHeight });
  useLayoutEffect(() => {
    let above = box.current.offsetTop;
    const resized = new ResizeObserver(() => { // what is above may change its height
      const grown = box.current.offsetTop - above;
      above += grown;
      if (box.current.getBoundingClientRect().top < grown) scrollBy(0, grown);
      look();
    });
    resized.observe(document.body);
    addEventListener('scroll', look, { passive: true });
    return () => { resized.disconnect(); removeEventListener('scroll', look); };
  }, []);
  const inSight = Math.min(total - 1, Math.floor(view.top / height));
  // A reader who has scrolled down must keep their place.
  useLayoutEffect(() => {
    const now = kept.current, moved = now && view.top > height / 2 ? index(now.place) * height - now.top : 0;
    if (moved !== 0) scrollBy(0, moved);
    look();
  }, [total, height]);
  useLayoutEffect(() => { kept.current = { place: place(inSight), top: inSight * height }; });
  const first = Math.max(0, inSight - 4), last = Math.min(total, Math.ceil((view.top + view.height) / height) + 4);
  useEffect(() => {
    const timer = setTimeout(() => onSight(first, last), first === 0 ? 0 : 60); // skip rows that only scroll past
    return () => clearTimeout(timer);
  }, [first, last, total]);
  const rows = [];
  for (let i = first; i < last; i++) {
    rows.push(html`<li key=${name(i)} aria-setsize=${total} aria-posinset=${i + 1} style=${{ top: `${i * height}px`, height: `${height}px` }}>${row(i)}</li>`);
  }
  return html`<div class="rows" ref=${box}><ul aria-label=${label} style=${{ height: `${total * height}px`, '--lines': lines }}>${rows}</ul></div>`;
}

/** Moves the focus to the next memory, or the one before. From elsewhere, it goes to the first in sight. */
export function step(by) {
  const all = [...document.querySelectorAll('.rows button.memory')], at = all.indexOf(document.activeElement);
  const next = at >= 0 ? all[at + by] : all.find((row) => row.getBoundingClientRect().top >= document.querySelector('.find').getBoundingClientRect().bottom - 1);
  next?.focus();
  return Boolean(next);
}

const viaWords = { key: 'by a program', drop: 'left by a link' };

// rowOf keeps only the parts of a memory that its row shows: texts may be long, and rows are many.
const rowOf = (m, query = '', exact = false) => ({
  id: m.id, leafIndex: m.leafIndex, damaged: m.damaged, pieces: query ? passage(m, query, exact) : [[m.content.slice(0, between(m.content, 240)), false]],
  createdAt: m.createdAt, via: (m.imported ?? m).via?.kind, source: m.metadata?.source, tags: tagsOf(m.metadata), supersededBy: m.supersededBy ?? [],
});

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

const Row = ({ row, onChain, picked, onOpen }) => html`<button type="button" class="memory" data-id=${row.id} role=${picked === undefined ? undefined : 'checkbox'} aria-checked=${picked} onClick=${() => onOpen(row)}>
  ${row.damaged ? html`<span class="text broken">The stored copy of this memory is damaged. Its proof stays, and its operator can restore it.</span>`
    : html`<span class=${row.supersededBy.length > 0 ? 'text old' : 'text'} dir="auto">${row.pieces.map(([piece, matched]) => matched ? html`<mark>${piece}</mark>` : piece)}</span>`}
  <span class="meta"><${Time} at=${row.createdAt}/>${typeof row.source === 'string' && html`<span class="source" dir="auto">${row.source}</span>`}
    ${row.tags.length > 0 && html`<span class="tags" dir="auto">${row.tags.map((tag) => `#${tag}`).join(' ')}</span>`}
    ${row.supersededBy.length > 0 && html`<span class="corrected">corrected</span>`}
    ${viaWords[row.via] && html`<span class=${row.via === 'drop' ? 'via foreign' : 'via'}>${viaWords[row.via]}</span>`}
    <span class=${onChain ? 'state anchored' : 'state'}>${onChain ? 'on the chain' : 'waiting'}</span></span></button>`;

/**
 * The whole log, newest first, in pages of leaves: a leaf's index names its page, so any part can be shown without
 * loading the rest. Leaves without a memory take no room, unless gone is set. A page that was never loaded counts as
 * full, as far as there are that many memories.
 */
export function All({ api, gone, hidden, picked, onOpen, children }) {
  const { head } = api, pages = useRef(new Map()), lengths = useRef(new Map()), wanted = useRef([0, 0]);
  const [, draw] = useState(0), [error, setError] = useState();
  const redraw = () => draw((n) => n + 1);
  const size = head?.treeSize ?? 0, newest = Math.floor((size - 1) / pageSize), lines = useNarrow() ? 2 : 1;

  const load = async (number, upto) => {
    const before = pages.current.get(number);
    // upto is the log's size at the newest request, read the size at the request that gave the rows.
    const page = { upto, read: before?.read ?? 0, rows: before?.rows };
    pages.current.delete(number); // move it to the end, as the newest
    pages.current.set(number, page);
    while (pages.current.size > keptPages) pages.current.delete(pages.current.keys().next().value);
    try {
      const { body } = await api.ledger.core('GET', `/memories?limit=${pageSize}&cursor=${number * pageSize}`);
      page.rows = new Map(body.reverse().map((m) => [m.leafIndex, rowOf(m)]));
      page.read = Math.max(upto, (body[0]?.leafIndex ?? 0) + 1);
      lengths.current.set(number, page.rows.size);
      setError(undefined);
    } catch (failure) {
      pages.current.delete(number);
      setError(failure);
      api.guard(failure);
    }
    redraw();
  };
  useEffect(() => api.hear((events) => {
    for (const { data } of events.filter(isEnd)) {
      const number = Math.floor(data.leafIndex / pageSize), rows = pages.current.get(number)?.rows;
      if (rows ? rows.delete(data.leafIndex) : lengths.current.has(number)) lengths.current.set(number, lengths.current.get(number) - 1);
    }
    for (const { rows } of pages.current.values()) if (rows) mark(rows.values(), events);
    redraw();
  }), []);

  // spots returns the leaves of a page, newest first; undefined for those that are not loaded.
  const end = (number) => Math.min(size, (number + 1) * pageSize);
  const spots = (number) => {
    const page = pages.current.get(number), leaves = [];
    if (!page?.rows) return Array.from({ length: lengthOf(number) });
    for (let leaf = end(number) - 1; leaf >= number * pageSize; leaf--) {
      const row = page.rows.get(leaf);
      if (gone || (row ? !hidden.has(row.id) : leaf >= page.read)) leaves.push(leaf);
    }
    return leaves;
  };
  const known = [...lengths.current.values()].reduce((sum, n) => sum + n, 0);
  const lengthOf = (number) => {
    if (gone) return end(number) - number * pageSize;
    return lengths.current.get(number) ?? Math.max(0, Math.min(end(number) - number * pageSize, head.memories - known));
  };
  const counts = []; // rows of each page, the newest page first
  for (let number = newest; number >= 0; number--) counts.push(pages.current.get(number)?.rows ? spots(number).length : lengthOf(number));
  const all = counts.reduce((sum, n) => sum + n, 0), total = Math.min(all, mostRows);
  const find = (i) => {
    let at = 0;
    while (at < counts.length - 1 && i >= counts[at]) i -= counts[at++];
    return [newest - at, i];
  };
  // A row's place counts from the old end of its page, because new rows come at the other.
  const place = (i) => { const [number, at] = find(i); return [number, counts[newest - number] - at]; };
  const index = ([number, fromEnd]) => counts.slice(0, newest - number).reduce((sum, n) => sum + n, 0) + Math.max(0, counts[newest - number] - fromEnd);

  const sight = (first, last) => {
    wanted.current = [first, last];
    if (size === 0 || last === 0) return;
    for (let [number] = find(first), [oldest] = find(last - 1); number >= oldest; number--) {
      const page = pages.current.get(number);
      if (!page || (page.upto < size && page.upto < (number + 1) * pageSize)) load(number, size).catch(() => {});
    }
  };
  const name = (i) => { const [number, at] = find(i); return spots(number)[at] ?? `${number}/${at}`; };
  const row = (i) => {
    const [number, at] = find(i), page = pages.current.get(number), leaf = spots(number)[at], found = page?.rows?.get(leaf);
    if (found && !hidden.has(found.id)) return html`<${Row} row=${found} onChain=${leaf < head.anchoredSize} picked=${picked?.has(found.id)} onOpen=${onOpen}/>`;
    if (page?.rows && leaf < page.read) return html`<p class="gone">A memory that was retracted, forgotten or erased. Its proof stays.</p>`;
    return html`<p class="skeleton" aria-hidden="true"><span></span><span></span></p>`;
  };
  if (!head) return html`<${Loading} what="Opening your log"/>`;
  const waits = size - head.anchoredSize;
  if (size === 0) return html`<${FirstRun} api=${api}/>`;
  return html`<div class="summary"><p>${memories(head.memories - [...hidden.values()].filter(Boolean).length)}</p>
      <p class="soft">${waits === 0 ? 'all on the chain' : head.delayed ? waiting(head) : `${waits.toLocaleString('en')} waiting`}${all > mostRows && `; the list has the newest ${mostRows.toLocaleString('en')}`}</p>${children}</div>
    <${Problem} error=${error} again=${() => sight(...wanted.current)}/>
    ${total > 0 ? html`<${Rows} total=${total} lines=${lines} row=${row} name=${name} place=${place} index=${index} onSight=${sight} label="Memories, newest first"/>`
      : html`<${Empty} title="Nothing left to read">What was here was retracted, forgotten or erased. Its proofs stay.<//>`}`;
}

export function Found({ api, query, exact, filter, hidden, picked, onOpen, onExact, children }) {
  const ranked = query && !exact; // without words there is no best match
  const narrow = useNarrow(), [rows, setRows] = useState(), [more, setMore] = useState(true), [matched, setMatched] = useState(), [damaged, setDamaged] = useState(0), [error, setError] = useState();
  const next = useRef(), loading = useRef(false);
  const load = async () => {
    if (loading.current) return;
    loading.current = true;
    setError(undefined);
    try {
      const body = { query, filter, limit: 50, cursor: next.current, ...(ranked ? { mode: 'ranked' } : { order: 'newest' }) };
      const answer = await api.ledger.core('POST', '/memories/search', { body }).catch(api.guard);
      next.current = answer.headers.get('Next-Cursor') ?? undefined;
      setMore(next.current !== undefined);
      setMatched(answer.headers.get('Matched'));
      setDamaged((n) => n + Number(answer.headers.get('Damaged') ?? 0));
      // A memory that was taken back since the last page may have changed the order a little.
      setRows((before = []) => [...before, ...answer.body.filter(({ id }) => !before.some((row) => row.id === id)).map((m) => rowOf(m, query, exact))]);
    } catch (failure) {
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
  if (!rows) return error ? html`<${Problem} error=${error} again=${load}/>` : html`<${Loading} what="Searching"/>`;
  const shown = rows.filter((row) => !hidden.has(row.id)), full = rows.length >= mostFound;
  const lines = query || narrow ? 2 : 1;
  return html`<div class="summary"><p role="status">${shown.length}${!more ? '' : matched ? ` of ${Number(matched).toLocaleString('en')}` : '+'} found</p>
      <p class="soft">${ranked ? 'best first' : 'newest first'}${full && more ? '; ask for less to see the rest' : ''}${damaged > 0 ? `; ${memories(damaged)} damaged, and not searched` : ''}</p>${children}</div>
    <${Problem} error=${error} again=${load}/>
    ${shown.length === 0 ? html`<${Empty} title="Nothing found">${Object.keys(filter).length > 0 ? 'No memory matches all of this. Ask for less.' : exact ? 'No memory has exactly this text.' : 'No memory has these words, or related ones.'}
        ${ranked && html` <button type="button" class="link" onClick=${onExact}>Look for the exact text</button>`}<//>`
      : html`<${Rows} total=${shown.length} lines=${lines} name=${(i) => shown[i].id} row=${(i) => html`<${Row} row=${shown[i]} onChain=${shown[i].leafIndex < (api.head?.anchoredSize ?? 0)} picked=${picked?.has(shown[i].id)} onOpen=${onOpen}/>`}
        onSight=${(_, last) => more && !full && !error && last >= shown.length && load()} label="Memories that were found"/>`}`;
}
