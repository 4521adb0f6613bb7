import { configure, connectToSave, isCore, saveByLink, serviceAt, serviceURL, session } from './service.js';

const url = document.getElementById('url'), status = document.getElementById('status');
url.value = await serviceURL();

/** Returns the address without a trailing slash, or undefined if it is not allowed. Plain HTTP is allowed only to this computer. */
function addressOf(text) {
  if (!URL.canParse(text)) return undefined;
  const { protocol, hostname, origin, pathname, search, hash, username } = new URL(text);
  const safe = protocol === 'https:' || (protocol === 'http:' && ['127.0.0.1', 'localhost'].includes(hostname));
  return safe && !search && !hash && !username ? origin + pathname.replace(/\/+$/, '') : undefined;
}

document.getElementById('form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const address = addressOf(url.value.trim());
  url.ariaInvalid = String(!address);
  if (!address) {
    status.textContent = 'That is not an https:// address, or http:// on this computer.';
    url.focus();
    return;
  }
  status.textContent = 'Asking…';
  const problem = await problemAt(address);
  if (!problem && address !== (await serviceURL())) await configure(address);
  if (!problem) url.value = address;
  url.ariaInvalid = String(Boolean(problem));
  status.textContent = problem ?? 'Saved.';
});

/** Asks what is at an address. Returns what is wrong with it, or undefined. */
async function problemAt(address) {
  const service = await serviceAt(address).catch(() => undefined); // also the core API, which answers no extension
  return service === 'memory-ledger-extension' ? undefined : 'No extension API of a Memory Ledger answers there. Check the address and your connection.';
}

const link = document.getElementById('link'), linked = document.getElementById('linked');
document.getElementById('by-link').addEventListener('submit', async (event) => {
  event.preventDefault();
  const [, base, path] = /^(.*)(\/memory-drops\/svc_drop_[\w-]{43})$/.exec(link.value.trim()) ?? [];
  const address = base && addressOf(base);
  const problem = address ? await problemAt(address) : 'That is not a link to add.';
  link.ariaInvalid = String(Boolean(problem));
  linked.textContent = problem ?? '';
  if (problem) return link.focus();
  await saveByLink(address, path);
  link.value = '';
});

const core = document.getElementById('core'), connected = document.getElementById('connected');
/** Shows the connection that only saves, if there is one. */
async function showConnection() {
  const { client, url, token } = (await session()) ?? {};
  if (client) core.value = url;
  connected.textContent = !client ? '' : token ? 'Connected. The extension now saves, and reads nothing.' : 'The connection has ended. Connect again to send what waits.';
}
// Another page may change these while this one stays open.
chrome.storage.onChanged.addListener(async ({ writer, url: moved, drop }) => {
  if (writer) await showConnection();
  if (moved) url.value = moved.newValue;
  if (drop) linked.textContent = (await session())?.drop ? 'Saved. The extension now saves by this link, and reads nothing.' : '';
});
document.getElementById('by-wallet').addEventListener('submit', async (event) => {
  event.preventDefault();
  const address = addressOf(core.value.trim().replace(/\/app\/?([?#].*)?$/, ''));
  connected.textContent = 'Asking…';
  const answers = address && await isCore(address).catch(() => false);
  core.ariaInvalid = String(!answers);
  if (!answers) {
    connected.textContent = 'No core API of a Memory Ledger has that address. Check it and your connection.';
    return core.focus();
  }
  connected.textContent = 'Waiting for your wallet…';
  try {
    await connectToSave(address);
    await showConnection();
  } catch (error) {
    connected.textContent = `Not connected: ${error.message}`;
  }
});
await showConnection();
