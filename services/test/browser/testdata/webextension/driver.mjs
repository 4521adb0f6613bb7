// Loads the extension into Chromium as a person would, and uses it against the service. Prints
// what is wrong and fails. BROWSER_TEST holds the paths and addresses that it needs.
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';
import { installWallet } from '../driver/wallets.mjs';
import { Network } from './network.mjs';

const config = JSON.parse(process.env.BROWSER_TEST);
const require = createRequire(path.join(config.modules, 'index.js'));
const { chromium } = require('playwright-core');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const home = `chrome-extension://${config.extensionId}`;

const network = new Network(config.api);
await network.listen();
const article = http.createServer((_, response) => response.setHeader('Content-Type', 'text/html; charset=utf-8').end(
  '<!doctype html><title>On bees</title><nav>Menu <iframe srcdoc="<textarea>Drones wait.</textarea>"></iframe><article></article></nav><main><p id="p">Bees dance to tell the way.</p><p>Hives hum ☂.</p></main>'));
await new Promise((resolve) => article.listen(0, '127.0.0.1', resolve));
const articleURL = `http://127.0.0.1:${article.address().port}/bees`;

const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const wallet = { name: 'Test Wallet', key: { pkcs8: privateKey.export({ type: 'pkcs8', format: 'der' }).toString('base64'), raw: Buffer.from(publicKey.export({ format: 'jwk' }).x, 'base64url').toString('base64') } };

let context, worker, complaints = [];
process.stdin.on('end', () => context?.close().finally(() => process.exit(1))).resume();

async function start() {
  context = await chromium.launchPersistentContext(config.profile, {
    executablePath: config.chromium, headless: true, viewport: { width: 1000, height: 800 },
    args: [
      '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync', '--enable-unsafe-extension-debugging',
      `--disable-extensions-except=${config.extension}`, `--load-extension=${config.extension}`,
    ],
  });
  context.setDefaultTimeout(15_000);
  context.on('weberror', (error) => error.page()?.url().startsWith(home) && complaints.push(String(error.error())));
  context.on('console', (message) => message.type() === 'error' && !/Failed to load resource/.test(message.text()) && complaints.push(message.text()));
  worker = context.serviceWorkers()[0] ?? await context.waitForEvent('serviceworker');
}

const stored = (name) => worker.evaluate(async (name) => (await chrome.storage.local.get(name))[name], name);

// until polls a condition in a page of the extension: the worker gives no signal that a test
// could wait for. waitForFunction does not wait for promises.
async function until(what, question, ...args) {
  const page = await open('options.html');
  for (const deadline = Date.now() + 30_000; !await page.evaluate(question, ...args);) {
    assert.ok(Date.now() < deadline, what);
    await page.waitForTimeout(50);
  }
  await page.close();
}
const queueLength = (n) => until(`the queue has ${n}`, async (n) => ((await chrome.storage.local.get('queue')).queue ?? []).length === n, n);

async function open(name) {
  const page = await context.newPage();
  await page.goto(`${home}/${name}`);
  await page.waitForFunction(() => document.getElementById('url')?.value !== ''); // then the options listen
  return page;
}

// looks checks a page against axe's rules in both themes, and saves a screenshot.
async function looks(page, name, width) {
  for (const colorScheme of ['light', 'dark']) {
    await page.setViewportSize({ width, height: 640 });
    await page.emulateMedia({ colorScheme });
    const found = await page.evaluate(`(async () => {
      ${axe}
      const { violations } = await axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] });
      return violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html, failureSummary }) => html + ' ' + failureSummary).join('; '));
    })()`);
    assert.deepEqual(found, [], name);
    const { content, room } = await page.evaluate(() => ({ content: document.documentElement.scrollWidth, room: document.documentElement.clientWidth }));
    assert.ok(content <= room, `${name}: content is ${content} px wide in a window of ${room}`);
    if (config.screenshots) await page.screenshot({ fullPage: true, path: path.join(config.screenshots, `webextension-${name}-${colorScheme}.png`) });
  }
}

async function choosesService() {
  const page = await open('options.html');
  assert.equal(await page.getByLabel('Address of the service').inputValue(), 'http://127.0.0.1:3002');
  await looks(page, 'options', 700);
  for (const bad of ['nonsense', 'http://ledger.example', 'https://a@ledger.example', 'https://ledger.example/?a']) {
    await page.getByLabel('Address of the service').fill(bad);
    await page.keyboard.press('Enter');
    await page.getByText('That is not an https:// address').waitFor();
    assert.equal(await stored('url'), undefined);
  }
  await page.getByLabel('Address of the service').fill(new URL(articleURL).origin);
  await page.keyboard.press('Enter');
  await page.getByText('No extension API of a Memory Ledger answers there.').waitFor();
  complaints = complaints.filter((text) => !/CORS policy/.test(text)); // a stranger does not answer an extension
  assert.equal(await stored('url'), undefined);
  const second = await open('options.html');
  await page.getByLabel('Address of the service').fill(`${network.url}/`);
  await page.keyboard.press('Enter');
  await page.getByText('Saved.', { exact: true }).waitFor();
  assert.equal(await stored('url'), network.url);
  await second.waitForFunction((url) => document.getElementById('url').value === url, network.url);
  for (const open of [page, second]) await open.close();
}

// A callback that another page made up, with a session of its own, is refused.
async function refusesStrangers() {
  for (const query of ['', '?state=guess', '?state=undefined']) {
    const page = await open(`callback.html${query}#token=svc_session_x&publicKey=Mallory&expiresAt=2099-01-01T00:00:00Z`);
    await page.getByRole('heading', { name: 'Not signed in' }).waitFor();
    assert.equal(page.url(), `${home}/callback.html`);
    assert.equal(await stored('session'), undefined);
    await page.close();
  }
}

async function signsIn() {
  const popup = await open('popup.html');
  await looks(popup, 'popup-signed-out', 360);
  await context.addInitScript(installWallet, wallet);
  const [page] = await Promise.all([context.waitForEvent('page'), popup.getByRole('button', { name: 'Sign in with your wallet' }).press('Enter')]);
  assert.equal(await page.locator('.who').first().textContent(), 'Memory Ledger', 'the service knows its own extension');
  await page.getByRole('button', { name: 'Continue with Test Wallet' }).click();
  await page.getByRole('heading', { name: 'Signed in' }).waitFor();
  await page.waitForURL(`${home}/callback.html`);
  await looks(page, 'callback', 700);
  assert.match((await stored('session')).token, /^svc_session_/);
  assert.equal(await stored('signIn'), undefined, 'a state is used once');
  await popup.getByText('Signed in as').waitFor();
  await page.close();
  await popup.close();
}

// click sends the worker a click on the menu, or the shortcut, for the article, as the browser
// does. The browser did not open this page to the extension, so the extension can't read it,
// and saves the menu's own selection.
async function click(selectionText) {
  const page = await context.newPage();
  await page.goto(articleURL);
  await worker.evaluate(async ({ selectionText, url }) => {
    const [tab] = await chrome.tabs.query({ active: true });
    const info = { menuItemId: 'selection', selectionText, frameId: 0, editable: false, pageUrl: url };
    chrome.contextMenus.onClicked.dispatch(info, { ...tab, url, title: 'On bees' });
  }, { selectionText, url: articleURL });
  await page.close();
}

// contents returns the memories of the log, from the service itself.
async function contents() {
  const { token } = await stored('session');
  const response = await fetch(`${config.api}/memories`, { headers: { Authorization: `Bearer ${token}` } });
  return (await response.json()).memories;
}

async function savesSelection() {
  await click('Bees dance to tell the way.');
  await until('it is saved', async () => (await chrome.action.getBadgeText({})) === '✓');
  const [memory] = await contents();
  assert.equal(memory.content, 'Bees dance to tell the way.');
  assert.deepEqual(memory.metadata, { source: 'web extension', title: 'On bees', url: articleURL });
}

// popupOver clicks the extension's button on a page's tab, which opens the page to the
// extension. It returns a function that evaluates a script in the popup. The library does not
// support popups, so popupOver uses the protocol directly.
async function popupOver(page) {
  const browser = await context.browser().newBrowserCDPSession();
  const opened = new Promise((resolve) => {
    for (const event of ['Target.targetCreated', 'Target.targetInfoChanged']) {
      browser.on(event, ({ targetInfo }) => targetInfo.url === `${home}/popup.html` && resolve(targetInfo.targetId));
    }
  });
  await browser.send('Target.setDiscoverTargets', { discover: true });
  const tabs = (await browser.send('Target.getTargets', { filter: [{ type: 'tab' }] })).targetInfos;
  await browser.send('Extensions.triggerAction', { id: config.extensionId, targetId: tabs.find(({ url }) => url === page.url()).targetId });
  const targetId = await opened;
  const { sessionId } = await browser.send('Target.attachToTarget', { targetId });
  let id = 0;
  return async (expression) => {
    const message = { id: ++id, method: 'Runtime.evaluate', params: { expression, awaitPromise: true, returnByValue: true, userGesture: true } };
    const answer = new Promise((resolve) => {
      browser.on('Target.receivedMessageFromTarget', (event) => event.sessionId === sessionId && JSON.parse(event.message).id === message.id && resolve(JSON.parse(event.message)));
    });
    await browser.send('Target.sendMessageToTarget', { sessionId, message: JSON.stringify(message) });
    const { result } = await answer;
    assert.equal(result.exceptionDetails, undefined);
    return result.result.value;
  };
}

// The popup's buttons, the menu and the shortcut read the page itself: the click on the
// extension's button opened the page to the extension.
async function savesPage() {
  const page = await context.newPage();
  await page.goto(articleURL);
  await page.frameLocator('iframe').locator('textarea').selectText();
  const inPopup = await popupOver(page);
  const press = (id) => inPopup(`(async () => {
    while (document.readyState !== 'complete') await new Promise(requestAnimationFrame);
    const button = document.getElementById('${id}'), status = document.getElementById('status');
    while (button.hidden) await new Promise(requestAnimationFrame);
    const stored = new Promise((resolve) => new MutationObserver(() => status.textContent === 'Stored.' && resolve()).observe(status, { childList: true }));
    button.click();
    await stored;
  })()`);
  await press('save-selection');
  await page.evaluate(() => { frames[0].getSelection().removeAllRanges(); getSelection().selectAllChildren(document.getElementById('p')); });
  await press('save-selection');
  await press('save-page');
  await page.evaluate(() => getSelection().removeAllRanges());
  assert.deepEqual((await worker.evaluate(() => chrome.commands.getAll())).map(({ name, shortcut }) => [name, shortcut]), [['_execute_action', 'Alt+Shift+M'], ['save', 'Alt+Shift+S']]);
  await worker.evaluate(async (url) => {
    const tab = (await chrome.tabs.query({})).find((tab) => tab.url === url);
    for (const ask of [() => chrome.contextMenus.onClicked.dispatch({ menuItemId: 'page', frameId: 0 }, tab), () => chrome.commands.onCommand.dispatch('save', tab)]) {
      const stored = new Promise((resolve) => chrome.storage.onChanged.addListener(({ queue }) => queue?.newValue.length === 0 && resolve()));
      ask();
      await stored;
    }
  }, articleURL);
  // A script in the page, which may have been taken over, can't read the session.
  const inPage = await worker.evaluate(async (url) => {
    const { id } = (await chrome.tabs.query({})).find((tab) => tab.url === url);
    const [{ result }] = await chrome.scripting.executeScript({ target: { tabId: id }, func: () => chrome.storage.local.get().then((all) => `read ${Object.keys(all)}`, (error) => error.message) });
    return result;
  }, articleURL);
  assert.match(inPage, /not allowed/);
  const whole = 'On bees\n\nBees dance to tell the way.\n\nHives hum ☂.', newest = (await contents()).slice(-5);
  assert.deepEqual(newest.map(({ content }) => content), ['Drones wait.', 'Bees dance to tell the way.', whole, whole, whole]);
  for (const { metadata } of newest) assert.deepEqual(metadata, { source: 'web extension', title: 'On bees', url: articleURL });
  await page.close();
}

// A save without a connection is sent after the browser was closed and opened again. A save
// whose answer was lost is sent again, and stored once.
async function sendsOnce() {
  const before = network.writes.length;
  network.state = 'down';
  await worker.evaluate(() => chrome.storage.local.set({ much: 'x'.repeat(11 * 2 ** 20) })); // as much as long texts that wait
  await click('Kept without a connection');
  await queueLength(1);
  const popup = await open('popup.html');
  await popup.getByText('1 to be sent as soon as the service answers.').waitFor();
  await looks(popup, 'popup-waiting', 360);
  await context.close();
  network.state = 'deaf';
  await start();
  const deadline = Date.now() + 30_000;
  while (network.writes.length < before + 2 && Date.now() < deadline) await until('the worker is up', () => true);
  await queueLength(1);
  network.state = 'up';
  await worker.evaluate(() => dispatchEvent(new Event('online')));
  await queueLength(0);
  await worker.evaluate(() => chrome.storage.local.remove('much'));
  const keys = network.writes.slice(before);
  assert.ok(keys.length >= 2 && new Set(keys).size === 1, `one key for all attempts: ${keys}`);
  assert.equal((await contents()).filter(({ content }) => content === 'Kept without a connection').length, 1);
  network.state = 'stranger';
  await click('Kept from a stranger');
  while (network.writes.length === before + keys.length && Date.now() < deadline) await until('the worker is up', () => true);
  network.state = 'up';
  await worker.evaluate(() => dispatchEvent(new Event('online')));
  await queueLength(0);
  assert.equal((await contents()).at(-1).content, 'Kept from a stranger');
  network.state = 'forbidden';
  await click('Kept from a gateway');
  const refusing = await open('popup.html');
  await refusing.getByText('403 Forbidden').waitFor();
  network.state = 'up';
  await refusing.getByRole('button', { name: 'Try again' }).click();
  await queueLength(0);
  await refusing.close();
  assert.equal((await contents()).at(-1).content, 'Kept from a gateway');
}

async function searches() {
  const popup = await open('popup.html');
  const find = async (text, said) => {
    await popup.getByRole('searchbox').fill(text);
    await popup.keyboard.press('Enter');
    await popup.getByText(said, { exact: true }).waitFor();
  };
  await find('How do BEES dance?', '5 found');
  await looks(popup, 'popup-found', 360);
  assert.equal(await popup.getByRole('link', { name: 'On bees' }).first().getAttribute('href'), articleURL);
  await find('spreadsheets', 'Nothing found.');
  network.state = 'down';
  await find('bees', 'The service can’t be reached. Try again.');
  network.state = 'up';
  await find('connection', '1 found');

  await worker.evaluate(() => chrome.storage.local.set({ queue: [{ key: 'k', url: 'https://ledger.example', owner: null, body: { content: 'x' } }] }));
  await until('it waits for another service', async () => (await chrome.action.getTitle({})) === 'Memory Ledger: 1 to be sent to another wallet or service');
  await worker.evaluate(() => chrome.storage.local.set({ queue: [] }));

  const { token } = await stored('session');
  const minted = await fetch(`${config.api}/memory-drops`, { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
  drop = (await minted.json()).url.replace(config.api, network.url);
  await popup.getByRole('button', { name: 'Sign out' }).press('Enter');
  await popup.getByRole('button', { name: 'Sign in with your wallet' }).waitFor();
  await until('it is signed out', async ([api, token]) => (await fetch(`${api}/auth/me`, { headers: { Authorization: `Bearer ${token}` } })).status === 401, [config.api, token]);
}

// A link to add saves without a session, once, and reads nothing.
let drop;
async function savesByLink() {
  const page = await open('options.html');
  const use = async (link, said) => {
    await page.getByLabel('A link to add').fill(link);
    await page.keyboard.press('Enter');
    await page.getByText(said).waitFor();
  };
  await use(drop.replace('memory-drops', 'agent-cases'), 'That is not a link to add.');
  await click('Saved before there was a link');
  await queueLength(1);
  await use(drop, 'The extension now saves by this link');
  await looks(page, 'options-link', 700);
  const popup = await open('popup.html');
  await popup.getByText('You save by a link, which reads nothing.').waitFor();
  await looks(popup, 'popup-link', 360);
  assert.equal(await popup.getByRole('searchbox').isVisible(), false);
  await until('it is saved', async () => (await chrome.action.getBadgeText({})) === '✓');
  // A newer link, taken while the service refuses this one, stays until it is used up itself.
  const newer = drop.replace(/.{9}$/, 'the-newer');
  network.beforeAnswer = async () => {
    await until('an alarm sends what has no answer', async () => await chrome.alarms.get('send') && await chrome.action.getBadgeText({}) === '1');
    await use(newer, 'The extension now saves by this link');
    await until('the newer link is kept', async (link) => link.endsWith((await chrome.storage.local.get('drop')).drop?.drop), newer);
  };
  for (const [text, left] of [['One too many', new URL(newer).pathname], ['Two too many', undefined]]) {
    await click(text);
    await popup.getByText(text).waitFor();
    await popup.getByText('The link was used up, or has ended.').waitFor();
    assert.equal((await stored('drop'))?.drop, left);
    network.beforeAnswer = async () => {};
    await popup.getByRole('button', { name: 'Discard' }).click();
    await queueLength(0);
  }
  assert.equal(await page.locator('#linked').textContent(), '');
}

// call asks the core API itself, and returns the status and the body.
async function call(method, path, credential) {
  const response = await fetch(config.core + path, { method, headers: { Authorization: credential } });
  return [response.status, await response.json()];
}

// A connection that only saves lasts, renews its token, and can't read. After its end its
// saves wait for the same wallet.
async function onlySaves() {
  await context.addInitScript(installWallet, wallet); // the browser was restarted
  const page = await open('options.html'), popup = await open('popup.html');
  const field = page.getByLabel('Address of the core API');
  for (const bad of ['nonsense', config.api]) {
    await field.fill(bad);
    await page.keyboard.press('Enter');
    await page.getByText('No core API of a Memory Ledger has that address.').waitFor();
  }
  complaints = complaints.filter((text) => !/CORS policy/.test(text));
  await field.fill(`${config.core}/app/#memories`);
  // connect goes through the window of the wallet. It returns the credential of the session in it.
  const connect = async () => {
    const [asked] = await Promise.all([context.waitForEvent('page'), page.getByRole('button', { name: 'Connect to save only' }).press('Enter')]);
    assert.match(await asked.locator('#answer').textContent(), new RegExp(`^${config.extensionId}\\.chromiumapp\\.org`));
    assert.deepEqual(await asked.locator('[name=scope]').evaluateAll((boxes) => boxes.map(({ value }) => value)), ['write']);
    const [allowed] = await Promise.all([
      asked.waitForRequest((request) => request.method() === 'POST' && request.url().startsWith(`${config.core}/oauth/authorize`)),
      asked.getByRole('button', { name: 'Continue with Test Wallet' }).click(),
    ]);
    await page.getByText('Connected. The extension now saves, and reads nothing.').waitFor();
    return allowed.headers().authorization;
  };
  let session = await connect();
  await looks(page, 'options-saving', 700);
  await popup.getByText('Only saves, for').waitFor();
  assert.equal(await popup.getByRole('searchbox').isVisible(), false);
  await looks(popup, 'popup-saving', 360);

  await click('Saved by a connection');
  await until('it is saved', async () => (await chrome.action.getBadgeText({})) === '✓');
  const { token, refresh } = await stored('writer');
  assert.equal((await call('GET', '/memories', `Bearer ${token}`))[0], 403);
  await worker.evaluate((writer) => chrome.storage.local.set({ writer }), { ...await stored('writer'), token: `${token}x` }); // as an expired one
  await click('Saved with a new token');
  await queueLength(0);
  assert.notEqual((await stored('writer')).refresh, refresh);

  const [, [key]] = await call('GET', '/keys', session);
  assert.deepEqual([key.app.name, key.scopes], ['Memory Ledger extension', ['write']]);
  assert.equal((await call('DELETE', `/keys/${key.id}`, session))[0], 200);
  await click('Saved after the end');
  await popup.getByText('The connection that saves has ended. Connect again to send what waits.').waitFor();
  await popup.getByText('1 to be sent after you connect again.').waitFor();
  await page.getByText('The connection has ended. Connect again to send what waits.').waitFor();
  await looks(popup, 'popup-ended', 360);
  session = await connect();
  await queueLength(0);
  const [, memories] = await call('GET', '/memories', session);
  assert.deepEqual(memories.map(({ content, metadata }) => [content, metadata]),
    ['Saved by a connection', 'Saved with a new token', 'Saved after the end'].map((content) => [content, { source: 'web extension', title: 'On bees', url: articleURL }]));
  assert.equal(memories[0].via.id, key.id);
  await Promise.all([
    popup.waitForResponse(`${config.core}/oauth/revoke`),
    popup.getByRole('button', { name: 'Sign out' }).press('Enter'),
  ]);
  await popup.getByRole('button', { name: 'Sign in with your wallet' }).waitFor();
  assert.ok((await call('GET', '/keys', session))[1].every(({ revokedAt }) => revokedAt), 'signing out ends the connection');
}

try {
  await start();
  for (const step of [choosesService, refusesStrangers, signsIn, savesSelection, savesPage, sendsOnce, searches, savesByLink, onlySaves]) {
    const began = performance.now();
    await step();
    console.log(`${step.name}: ${Math.round(performance.now() - began)} ms`);
  }
  assert.deepEqual(complaints, []);
} catch (failure) {
  console.error(failure, complaints);
  process.exitCode = 1;
}
await context.close();
process.exit();
