// Reads notes and memories that other programs keep: lines of text or JSON, Markdown files, exports of mem0. Entries get the ids
// and metadata that `ledger import` gives them, so that what one stored, the other does not store again.
import { canonicalize } from './vendor-ledger.js';

/** Returns what a file or a folder that was dropped holds: [{ path, file }], folders in the order of names. */
export async function filesOf(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (entries.length === 0) return [...transfer.files].map((file) => ({ path: file.name, file }));
  return (await Promise.all(entries.map((entry) => walk(entry, '', entry.isDirectory)))).flat();
}

// A path begins below the folder that was dropped.
async function walk(entry, above, top) {
  if (entry.isFile) return [{ path: above + entry.name, file: await new Promise((resolve, reject) => entry.file(resolve, reject)) }];
  if (entry.name.startsWith('.') && !top) return []; // .obsidian, .git
  const reader = entry.createReader(), inside = [];
  for (;;) { // a reader gives some entries at a time
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) break;
    inside.push(...some);
  }
  inside.sort((a, b) => (a.name < b.name ? -1 : 1));
  return (await Promise.all(inside.map((one) => walk(one, top ? '' : `${above}${entry.name}/`)))).flat();
}

/** Returns the files of an input. Of a chosen folder, paths begin below it. */
export const filesIn = (input) => [...input.files].map((file) => ({ path: file.webkitRelativePath.split('/').slice(1).join('/') || file.name, file })).filter(({ path }) => !/(^|\/)\./.test(path));

// The longest content and metadata, in bytes of UTF-8, the latter with room for what an import adds.
const most = 262_144, mostMetadata = 65_536 - 1000;
const readers = { __proto__: null, txt: texts, text: texts, jsonl: objects, ndjson: objects, md: markdown, markdown, json: mem0 };

/** Reads entries: { where, id, content, metadata, why }, why for one that can't be stored. Other files are left alone.
 *  With byHeading, each heading of a note is an entry. */
export async function read(files, byHeading = false) {
  const all = [];
  for (const { path, file } of files) {
    const reader = readers[/\.(\w+)$/.exec(path)?.[1].toLowerCase()];
    if (!reader) continue;
    let text;
    try {
      text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      all.push(broken(path, 'it is not UTF-8'));
      continue;
    }
    if (text.includes('\0')) all.push(broken(path, 'it is not UTF-8, but UTF-16 or no text'));
    else for (const entry of await reader(path, text, byHeading)) all.push({ ...entry, why: entry.why ?? wrong(entry) });
  }
  return all;
}

/** Says why the service would refuse an entry, and with it all that are sent together. */
function wrong({ id, content, metadata }) {
  const size = (text) => new TextEncoder().encode(text).length;
  if (!content.trim()) return 'it is empty';
  if (size(content) > most) return 'it is longer than 262,144 bytes';
  try {
    canonicalize(content);
    const stored = canonicalize({ ...metadata, externalId: id });
    if (/\p{Noncharacter_Code_Point}/u.test(stored)) return 'its metadata has a Unicode noncharacter';
    return size(stored) > mostMetadata ? 'its metadata is too long' : undefined;
  } catch (error) {
    return `it can't be stored: ${error.message}`;
  }
}

/** Whether a file is an export of a Memory Ledger, which names its format first. */
export async function isExport(file) {
  const first = (await file.slice(0, 4096).text()).split('\n')[0];
  return /"format":\s*"memory-ledger/.test(first);
}

export async function sha256(text) {
  const sum = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return [...new Uint8Array(sum)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

const idOf = async (text) => (await sha256(text)).slice(0, 32);
const broken = (where, why) => ({ where, id: '', content: '', metadata: {}, why });

function texts(path, text) {
  return lines(path, text, (where, id, content) => ({ where, id, content, metadata: { source: 'text' } }));
}

function objects(path, text) {
  return lines(path, text, (where, id, line) => {
    let object;
    try { object = JSON.parse(line); } catch { /* said below */ }
    return object && typeof object === 'object' && !Array.isArray(object) ? entryOf(where, id, 'jsonl', object) : broken(where, 'it is not a JSON object');
  });
}

function lines(path, text, entry) {
  const all = text.split('\n').map((line, n) => ({ where: `${path}:${n + 1}`, line: line.trim() }));
  return Promise.all(all.filter(({ line }) => line).map(async ({ where, line }) => entry(where, await idOf(line), line)));
}

async function mem0(path, text) {
  let list;
  try {
    const object = JSON.parse(text);
    list = Array.isArray(object) ? object : object.results ?? object.memories;
  } catch { /* said below */ }
  if (!Array.isArray(list)) return [broken(path, 'it is not an export of mem0')];
  return Promise.all(list.map(async (object, i) => {
    const entry = entryOf(`${path}, memory ${i + 1}`, '', 'mem0', { ...object });
    return { ...entry, id: entry.id || await idOf(entry.content) };
  }));
}

function markdown(path, text, byHeading) {
  const { front, body } = frontMatter(text), at = path.lastIndexOf('/'), folder = path.split('/')[0], title = path.slice(at + 1).replace(/\.\w+$/, '');
  const note = (id, title, content) => {
    const members = { title, ...front };
    if (at > 0 && folder.length <= 80) members.namespace ??= folder;
    return { where: id, id, content: content.trim(), metadata: { ...known(members, {}), source: front.source ?? 'markdown' } };
  };
  if (!byHeading) return [note(path, title, body)];
  const seen = new Map();
  return sections(body).filter(({ text }) => text.trim()).map(({ heading, text }) => {
    const id = heading ? `${path}#${heading}` : path, times = (seen.get(id) ?? 0) + 1;
    seen.set(id, times);
    return note(times > 1 ? `${id} (${times})` : id, heading || title, heading ? `${heading}\n\n${text}` : text);
  });
}

/** Cuts a note at its headings, but not within fenced code. */
function sections(text) {
  const all = [{ heading: '', text: '' }];
  let fenced = false;
  for (const line of text.split('\n')) {
    if (/^(```|~~~)/.test(line.trim())) fenced = !fenced;
    const [, heading] = (!fenced && /^#{1,6} (.*)$/s.exec(line)) || [];
    if (heading !== undefined) all.push({ heading: heading.trim(), text: '' });
    else all.at(-1).text += `${line}\n`;
  }
  return all;
}

/** Splits a note at the lines of dashes around its front matter, of which this reads texts, numbers and lists. */
function frontMatter(text) {
  const note = text.replaceAll('\r\n', '\n'), [whole, head] = /^---\n([\s\S]*?\n)?---[^\n]*(?:\n|$)/.exec(note) ?? [];
  if (whole === undefined) return { front: {}, body: text };
  const front = { __proto__: null };
  let name;
  for (const line of (head ?? '').split('\n')) {
    const [, key, value] = /^([\w][\w -]*):(?:\s+(.*))?\s*$/.exec(line) ?? [], [, item] = /^\s*-\s+(.*)$/.exec(line) ?? [];
    if (key !== undefined) {
      name = key;
      if (value) front[name] = scalar(value.trim());
    } else if (item !== undefined && name) front[name] = [...(Array.isArray(front[name]) ? front[name] : []), scalar(item.trim())];
  }
  return { front, body: note.slice(whole.length) };
}

function scalar(text) {
  if (/^\[.*\]$/.test(text)) return text.slice(1, -1).split(',').map((part) => scalar(part.trim())).filter((part) => part !== '');
  if (/^(["']).*\1$/.test(text)) return text.slice(1, -1);
  if (/^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  return { __proto__: null, true: true, false: false }[text] ?? text;
}

const content = ['content', 'text', 'memory'];

function entryOf(where, id, source, object) {
  const { metadata: inner, ...members } = object, { id: own } = members, name = content.find((name) => typeof members[name] === 'string'), text = members[name] ?? '';
  delete members[name];
  const brings = (typeof own === 'string' && own !== '') || Number.isSafeInteger(own); // two other numbers could be the same
  if (brings) delete members.id;
  const metadata = known(members, inner && typeof inner === 'object' && !Array.isArray(inner) ? inner : {});
  return { where, id: brings ? String(own) : id, content: text, metadata: { ...metadata, source: metadata.source ?? source } };
}

/** Adds members to metadata: dates and tags as searches find them, everything else as it is. */
function known(members, metadata) {
  const rest = { ...members }, all = { ...metadata };
  const take = (names, member, form) => {
    for (const name of names) {
      const value = form(rest[name]);
      if (value !== undefined && all[member] == null) { all[member] = value; delete rest[name]; }
    }
  };
  take(['occurredAt', 'date', 'created', 'createdAt', 'created_at'], 'occurredAt', moment);
  take(['tags', 'categories'], 'tags', tags);
  const { supersedes, ...kept } = { ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value != null)), ...all };
  return supersedes === undefined ? kept : { ...kept, externalSupersedes: supersedes }; // in metadata.supersedes, the service keeps what a memory corrects
}

function moment(value) {
  const [, day, time, zone] = typeof value === 'string' ? /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d:\d\d)?)?$/.exec(value) ?? [] : [];
  if (!day || Number.isNaN(Date.parse(day))) return undefined;
  return time ? `${day}T${time.length === 5 ? `${time}:00` : time}${zone ?? 'Z'}` : day;
}

function tags(value) {
  const list = Array.isArray(value) ? value.filter((tag) => tag != null) : [];
  if (list.some((tag) => typeof tag === 'object')) return undefined;
  const all = (typeof value === 'string' ? value.split(/[, ]+/) : list.map((tag) => String(tag).trim())).map((tag) => tag.replace(/^#/, '')).filter(Boolean);
  return all.length > 0 && all.length <= 16 && all.every((tag) => [...tag].length <= 80) ? all : undefined;
}
