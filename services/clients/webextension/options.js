import { configure, serviceURL } from './service.js';

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
  if (address !== (await serviceURL())) await configure(address);
  url.value = address;
  status.textContent = 'Saved.';
});
