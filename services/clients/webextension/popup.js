import { capture, selectionIn } from './capture.js';
import { queue, save, search, serviceURL, session, shown, signIn, signOut, whenSent } from './service.js';
import { sendable } from './queue.js';

const $ = (id) => document.getElementById(id);
const [tab] = await chrome.tabs.query({ active: true, currentWindow: true });

/** Makes an element. Texts of pages and memories are inserted as text, never as HTML. */
function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

async function render() {
  const current = await session(), entries = await queue.entries();
  $('signed-in').hidden = !current?.token;
  $('signed-out').hidden = Boolean(current?.token);
  $('connect').hidden = !current?.client;
  $('sign-in').classList.toggle('primary', !current?.client);
  $('search').hidden = Boolean(current?.client);
  if (current?.drop) $('why').textContent = 'You save by a link, which reads nothing. Sign in to search.';
  else if (current?.client && !current.token) $('why').textContent = 'The connection that saves has ended. Connect again to send what waits.';
  else if (current && !current.token) $('why').textContent = 'Your session has ended. Sign in again to search, and to send what waits.';
  if (current?.token) {
    $('as').textContent = current.client ? 'Only saves, for' : 'Signed in as';
    $('owner').textContent = `${current.owner.slice(0, 4)}…${current.owner.slice(-4)}`;
    $('owner').title = current.owner;
  }
  const refused = entries.filter(({ problem }) => problem);
  const to = current ?? { url: await serviceURL(), owner: null };
  const mine = sendable(entries, to).length;
  const others = entries.length - refused.length - mine;
  $('waiting').hidden = entries.length === 0;
  $('waiting-text').textContent = [
    mine && `${mine} to be sent ${whenSent(current)}.`,
    others && `${others} of another wallet or service: sign in there to send.`,
    refused.length && 'The service refused:',
  ].filter(Boolean).join(' ');
  $('refused').replaceChildren(...refused.map(({ problem, ...entry }) => {
    const { key, body } = entry, again = sendable([entry], to).length > 0; // not by a link that has ended
    const buttons = Object.entries({ ...(again && { 'Try again': () => queue.retry(key) }), Discard: () => queue.remove(key) }).map(([textContent, run]) => {
      const button = element('button', { type: 'button', className: 'quiet', textContent, ariaLabel: `${textContent}: ${body.content.slice(0, 40)}` });
      button.addEventListener('click', run);
      return button;
    });
    return element('li', {}, element('p', { dir: 'auto', textContent: body.content }), element('p', { className: 'soft', textContent: problem }), ...buttons);
  }));
}

async function saveTab(what) {
  $('status').textContent = '';
  try {
    await save(await capture(tab, what));
    $('status').textContent = 'Kept. It is stored once the service answers.';
  } catch (error) {
    $('status').textContent = error.message;
  }
}

let asked = new AbortController();
async function find(event) {
  event.preventDefault();
  asked.abort();
  asked = new AbortController();
  const { signal } = asked;
  $('found').replaceChildren();
  $('found-text').textContent = 'Searching…';
  try {
    const found = await search($('text').value.trim(), signal);
    if (signal.aborted) return;
    $('found-text').textContent = found.length === 0 ? 'Nothing found.' : found.length === shown ? `The best ${shown}:` : `${found.length} found`;
    $('found').replaceChildren(...found.map(result));
  } catch (error) {
    if (signal.aborted) return;
    $('found-text').textContent = error.status === 401 ? '' : error.status ? `The service refused: ${error.message}` : 'The service can’t be reached. Try again.';
  }
}

function result({ content, metadata, createdAt, anchored }) {
  const when = element('time', { dateTime: createdAt, textContent: new Date(createdAt).toLocaleString() });
  const line = element('p', { className: 'soft' }, when, anchored ? ' · anchored' : '');
  if (/^https?:/.test(metadata.url)) {
    const link = element('a', { href: metadata.url, target: '_blank', rel: 'noopener noreferrer', dir: 'auto', textContent: metadata.title || metadata.url });
    line.append(' · ', link);
  }
  return element('li', {}, element('p', { className: 'content', dir: 'auto', textContent: content }), line);
}

$('options').addEventListener('click', () => chrome.runtime.openOptionsPage());
$('connect').addEventListener('click', () => chrome.runtime.openOptionsPage());
$('sign-in').addEventListener('click', signIn);
$('sign-out').addEventListener('click', signOut);
$('save-selection').addEventListener('click', () => saveTab());
$('save-page').addEventListener('click', () => saveTab({ selection: '' }));
$('search').addEventListener('submit', find);
chrome.storage.onChanged.addListener(async ({ queue: changed }) => {
  await render();
  // An entry with a problem leaves the queue when it is discarded.
  if (changed?.oldValue?.some(({ key, problem }) => !problem && !changed.newValue.some((e) => e.key === key))) $('status').textContent = 'Stored.';
});
await render();
// A page that can't be read has no selection to offer.
selectionIn(tab.id).then((selected) => { $('save-selection').hidden = !selected; });
