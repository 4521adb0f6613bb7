// Loads the extension into Firefox as about:debugging does, and uses it against the service.
import assert from 'node:assert/strict';
import http from 'node:http';
import { config, launch, open, play, role } from '../driver/firefox.mjs';
import { installWallet } from '../driver/wallets.mjs';

const home = `moz-extension://${config.extensionId}`;
const article = http.createServer((_, response) => response.setHeader('Content-Type', 'text/html; charset=utf-8').end(
  '<!doctype html><title>On bees</title><nav>Menu</nav><main><p id="p">Bees dance to tell the way.</p><p>Hives hum ☂.</p></main>'));
await new Promise((resolve) => article.listen(0, '127.0.0.1', resolve));
const articleURL = `http://127.0.0.1:${article.address().port}/bees`;
let browser, options, popup, page;

async function starts() {
  // A driver needs system access to look at extension pages and at the browser's menus.
  browser = await launch({
    args: ['--remote-allow-system-access'],
    prefs: { 'extensions.webextensions.uuids': JSON.stringify({ 'webextension@memory-ledger': config.extensionId }) },
  });
  assert.equal(await browser.installExtension(config.extension), 'webextension@memory-ledger');
}

// extensionPage opens a page of the extension. BiDi does not report when it has loaded.
async function extensionPage(name) {
  const opened = await open();
  await opened.goto(`${home}/${name}`, { waitUntil: [] });
  await opened.waitForFunction(() => document.readyState === 'complete' && document.querySelector('h1') && document.getElementById('url')?.value !== '');
  return opened;
}

const stored = (name) => options.evaluate(async (name) => (await chrome.storage.local.get(name))[name], name);
const says = (of, id, words) => of.waitForFunction((id, words) => document.getElementById(id).textContent === words, {}, id, words);

// memories returns the memories of the log, from the service itself.
async function memories(api = config.api, credential) {
  const Authorization = credential ?? `Bearer ${(await stored('session')).token}`;
  const body = await (await fetch(`${api}/memories`, { headers: { Authorization } })).json();
  return body.memories ?? body; // the core API lists them alone
}

async function choosesService() {
  options = await extensionPage('options.html');
  for (const [address, answer] of [['http://ledger.example', 'That is not an https:// address, or http:// on this computer.'], [config.api, 'Saved.']]) {
    await options.locator('#url').fill(address);
    await options.keyboard.press('Enter');
    await says(options, 'status', answer);
  }
  assert.equal(await stored('url'), config.api);
}

async function signsIn() {
  popup = await extensionPage('popup.html');
  const [target] = await Promise.all([
    browser.waitForTarget((target) => target.url().startsWith(`${config.api}/connect`)),
    popup.locator('#sign-in').click(),
  ]);
  page = await open(installWallet, { name: 'Test Wallet' });
  await page.goto(target.url());
  await page.locator(role('Continue with Test Wallet', 'button')).click();
  await page.waitForFunction(() => document.title === 'Signed in' && document.getElementById('text'));
  assert.equal(await page.evaluate(() => location.href), `${home}/callback.html`);
  assert.match((await stored('session')).token, /^svc_session_/);
  await popup.waitForFunction(() => !document.getElementById('signed-in').hidden);
}

// inWindow runs a script in the browser's own window.
async function inWindow(script) {
  const { result: { contexts: [{ context }] } } = await browser.connection.send('browsingContext.getTree', { 'moz:scope': 'chrome', maxDepth: 0 });
  const { result } = await browser.connection.send('script.evaluate', { expression: script, target: { context }, awaitPromise: true });
  assert.equal(result.type, 'success', JSON.stringify(result));
}

async function saves() {
  page = await open();
  await page.goto(articleURL);
  await page.evaluate(() => getSelection().selectAllChildren(document.getElementById('p')));
  await page.locator('#p').click({ button: 'right' });
  await inWindow(`(() => {
    const menu = document.getElementById('contentAreaContextMenu');
    menu.activateItem(menu.querySelector('[id$="memory-ledger-menuitem-_selection"]'));
  })()`);
  await written(1);
  await page.evaluate(() => getSelection().removeAllRanges());
  await inWindow(`document.querySelector('keyset[id*="memory-ledger"] key[key=S]').doCommand()`);
  await written(2);
  const metadata = { source: 'web extension', title: 'On bees', url: articleURL };
  assert.deepEqual((await memories()).map(({ content, metadata }) => ({ content, metadata })), [
    { content: 'Bees dance to tell the way.', metadata }, { content: 'On bees\n\nBees dance to tell the way.\n\nHives hum ☂.', metadata },
  ]);
}

// written waits until the service has n memories. It does not wait in a page of the extension,
// because Firefox slows the timers of tabs that are not in sight.
async function written(n, ...where) {
  for (const deadline = Date.now() + 8000; (await memories(...where)).length < n;) {
    assert.ok(Date.now() < deadline, `${n} are not stored: ${JSON.stringify(await stored('queue'))}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function searches() {
  await popup.bringToFront();
  for (const [words, answer] of [['HIVES hum', '1 found'], ['spreadsheets', 'Nothing found.']]) {
    await popup.locator('#text').fill(words);
    await popup.keyboard.press('Enter');
    await says(popup, 'found-text', answer);
  }
  await popup.locator('#sign-out').click();
  await popup.waitForFunction(() => !document.getElementById('signed-out').hidden);
  assert.equal(await stored('session'), undefined);
}

// The window of the wallet is one of the browser's own, which knows the extension's address.
async function onlySaves() {
  await options.bringToFront();
  await options.locator('#core').fill(config.core);
  const [target] = await Promise.all([
    browser.waitForTarget((target) => target.url().startsWith(`${config.core}/oauth/authorize`)),
    options.locator('#by-wallet button').click(),
  ]);
  const asked = await target.page();
  await asked.evaluateOnNewDocument(installWallet, { name: 'Test Wallet' });
  await asked.reload();
  const [allowed] = await Promise.all([
    asked.waitForRequest((request) => request.method() === 'POST' && request.url().startsWith(`${config.core}/oauth/authorize`)),
    asked.locator(role('Continue with Test Wallet', 'button')).click(),
  ]);
  await says(options, 'connected', 'Connected. The extension now saves, and reads nothing.');
  await popup.waitForFunction(() => !document.getElementById('signed-in').hidden && document.getElementById('search').hidden);
  const { token } = await stored('writer');
  assert.equal((await fetch(`${config.core}/memories`, { headers: { Authorization: `Bearer ${token}` } })).status, 403);
  await page.bringToFront();
  await inWindow(`document.querySelector('keyset[id*="memory-ledger"] key[key=S]').doCommand()`);
  await written(1, config.core, allowed.headers().authorization);
}

await play(starts, choosesService, signsIn, saves, searches, onlySaves);
