// The worker: it saves for the menus and the shortcut, and sends the queue. The browser may end
// it at any moment, so all its state is in storage.local.
import { capture } from './capture.js';
import { sendable } from './queue.js';
import { queue, save, sendQueue, session, whenSent } from './service.js';

chrome.runtime.onInstalled.addListener(async () => {
  await chrome.contextMenus.removeAll();
  chrome.contextMenus.create({ id: 'selection', contexts: ['selection'], title: 'Save selection to Memory Ledger' });
  chrome.contextMenus.create({ id: 'page', contexts: ['page'], title: 'Save page to Memory Ledger' });
});
chrome.contextMenus.onClicked.addListener(({ menuItemId, selectionText, frameId }, tab) =>
  saveTab(tab, menuItemId === 'page' ? { selection: '' } : { selection: selectionText, frameId }));
chrome.commands.onCommand.addListener((command, tab) => command === 'save' && saveTab(tab));

// Each of these events may find something to send: a save, a sign-in, a link, the browser's start, and
// the network's return. While entries wait, an alarm sends a minute after the last try began.
chrome.storage.onChanged.addListener(({ queue, session, drop, writer }) => (queue || session || drop || writer) && send());
chrome.runtime.onStartup.addListener(send);
chrome.alarms.onAlarm.addListener(send);
addEventListener('online', send);
send();

async function saveTab(tab, what) {
  try {
    await save(await capture(tab, what));
  } catch (error) {
    await show('!', error.message);
  }
}

async function send() {
  let [entries, waiting] = await look(), stored = 0;
  if (waiting > 0) {
    // The browser may end the worker before the service answers.
    await chrome.alarms.create('send', { delayInMinutes: 1 });
    await show(String(waiting), `${waiting} to be sent`);
  }
  try {
    stored = await sendQueue();
  } catch {
    // The entries wait in the queue. The popup shows how many.
  }
  [entries, waiting] = await look();
  const to = await session();
  if (entries.length > waiting) await show('!', 'Something was refused');
  else if (waiting > 0) await show(String(waiting), `${waiting} to be sent ${to && sendable(entries, to).length === 0 ? 'to another wallet or service' : whenSent(to)}`);
  else if (stored > 0) await show('✓', 'Saved');
  else if ((await chrome.action.getBadgeText({})) !== '✓') await show('', 'nothing waits');
}

/** Returns the entries of the queue, and how many of them wait to be sent. */
async function look() {
  const entries = await queue.entries();
  return [entries, entries.filter(({ problem }) => !problem).length];
}

async function show(badge, title) {
  await chrome.action.setBadgeBackgroundColor({ color: badge === '!' ? '#9a3412' : '#1c6b52' });
  await chrome.action.setBadgeText({ text: badge });
  await chrome.action.setTitle({ title: `Memory Ledger: ${title}` });
}
