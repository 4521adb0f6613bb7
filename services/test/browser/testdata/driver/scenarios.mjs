// Every scenario, by the name of its Go subtest.
import assert from 'node:assert/strict';
import { installWallet } from './wallets.mjs';
import { crossOrigin } from './origins.mjs';
import { leavesAMemory, opensACase } from './links.mjs';

const fragmentNames = ['token', 'publicKey', 'expiresAt', 'apiUrl'];
const refusedByServer = /status of 401/;
const firefoxCallback = 'moz-extension://0a1b2c3d-0a1b-4c3d-8e9f-0a1b2c3d4e5f/callback.html';

// checkReport checks that the extension got a session that works from its own origin.
function checkReport(stage, report) {
  assert.deepEqual(report.names, fragmentNames);
  assert.equal(report.origin, `chrome-extension://${stage.config.extensionId}`);
  assert.equal(report.session.apiUrl, stage.config.api);
  assert.match(report.session.token, /^svc_session_[A-Za-z0-9_-]{43}$/);
  assert.match(report.session.expiresAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.equal(report.me.body.publicKey, report.session.publicKey);
  assert.equal(report.written.status, 201);
  assert.ok(report.written.requestId, 'X-Request-Id is readable across origins');
  const [memory] = report.read.body.memories;
  assert.equal(memory.id, report.written.body.id);
  assert.equal(memory.content, 'Kept by the extension');
  assert.deepEqual(memory.metadata, { page: 'callback.html', source: 'browser test' });
  assert.equal(report.stranger.status, 401, 'errors are readable across origins too');
  assert.ok(report.stranger.body.error);
  assert.deepEqual(report.logout.body, { ok: true });
  assert.equal(report.after.status, 401);
}

// finish ends a scenario about a failure: sign-in works after the failure.
async function finish(stage) {
  stage.expected.push(refusedByServer); // for the extension's requests
  checkReport(stage, await stage.arrive());
}

async function retry(stage) {
  await stage.again.click();
  await finish(stage);
}

async function signsIn(stage) {
  const answer = await stage.open({ wallets: [
    { name: 'Other Wallet' }, { name: 'Test Wallet', sign: ['hang', 'ok'] },
  ] });
  assert.equal(answer.status(), 200);
  await stage.wallet('Other Wallet').waitFor();
  assert.equal(await stage.page.locator('#site').textContent(), new URL(stage.config.api).host);
  assert.equal(await stage.page.locator('#requester').textContent(), `Test Extension Chrome extension ${stage.config.extensionId}`);
  const height = (selector) => stage.page.locator(selector).evaluate((element) => element.getBoundingClientRect().top);
  const order = await Promise.all(['#access-title', '.caution', '.wallet >> nth=0'].map(height));
  assert.deepEqual(order, order.toSorted((a, b) => a - b), 'what is decided stands above the buttons');
  assert.equal(await stage.page.locator('#elsewhere').isVisible(), false);
  await stage.everyLook('choose');

  await stage.wallet().click();
  await stage.page.getByRole('heading', { name: 'Sign the message in Test Wallet' }).waitFor();
  await stage.page.getByText('The text that you are asked to sign').click();
  const shown = await stage.page.locator('#message-text').textContent();
  const [asked] = await stage.page.evaluate(() => window.testWallet.seen);
  assert.equal(asked, shown, 'the wallet gets the text that the page shows');
  assert.ok(shown.startsWith(`${new URL(stage.config.api).host} wants you to sign in with your Solana account:\n`));
  await stage.everyLook('sign');
  await stage.page.getByRole('button', { name: 'Cancel' }).click();

  const before = await stage.page.evaluate(() => history.length);
  await stage.wallet().click();
  await finish(stage);
  assert.equal(await stage.page.evaluate(() => history.length), before, 'the page is replaced, not kept');
}

// callbackWithQuery: the query is kept as it is, and the session follows it.
async function callbackWithQuery(stage) {
  const query = '?tab=1&from=%2Fa%20b?c';
  await stage.open({ callback: stage.callback + query });
  await stage.wallet().click();
  stage.expected.push(refusedByServer);
  const report = await stage.arrive();
  checkReport(stage, report);
  assert.equal(report.query, query);
}

async function keyboardOnly(stage) {
  await stage.open({ wallets: [{ name: 'Test Wallet', connect: ['hang', 'ok'], sign: ['refuse', 'ok'] }] });
  const { keyboard } = stage.page;
  await stage.wallet().waitFor();
  await keyboard.press('Tab');
  assert.equal(await stage.focused(), 'wallet');
  const outline = await stage.wallet().evaluate((button) => getComputedStyle(button).outlineStyle);
  assert.equal(outline, 'solid', 'focus is seen');
  await stage.shot('focus');
  await keyboard.press('Enter');
  await stage.page.getByRole('heading', { name: 'Waiting for Test Wallet' }).waitFor();
  assert.equal(await stage.focused(), 'working-title');
  await keyboard.press('Tab');
  assert.equal(await stage.focused(), 'cancel');
  await keyboard.press('Enter');
  assert.equal(await stage.focused(), 'wallet', 'cancelling leads back to the list');
  await keyboard.press('Space');
  await stage.problem('You did not sign');
  await keyboard.press('Enter');
  await finish(stage);
}

// announced: the page announces its steps to a screen reader.
async function announced(stage) {
  await stage.open({ wallets: [{ name: 'Test Wallet', sign: ['hang'] }] });
  await stage.wallet().click();
  await stage.page.getByRole('status').getByText('Sign the message in Test Wallet.').waitFor();
  assert.equal(await stage.page.locator('[aria-current=step]').textContent(), 'Sign the message');
}

async function refusedSignature(stage) {
  await stage.open({ wallets: [{ name: 'Test Wallet', sign: ['refuse', 'ok'] }, { name: 'Other Wallet' }] });
  await stage.wallet().click();
  await stage.problem('You did not sign');
  await stage.everyLook('refused');
  await stage.page.getByRole('button', { name: 'Choose another wallet' }).click();
  assert.equal(await stage.focused(), 'wallet');
  await stage.wallet().click();
  await finish(stage);
}

async function noWallet(stage) {
  // Stop the clock until the spinner was seen, however slow the machine is.
  await stage.open({ clock: true, wallets: [], before: (page) => page.clock.pauseAt(Date.now() + 60_000) });
  await stage.page.getByText('Looking for wallets in this browser').waitFor();
  await stage.shot('looking');
  await stage.page.clock.resume();
  await stage.page.clock.fastForward('00:02');
  await stage.problem('No wallet found', false);
  await stage.everyLook('missing');
  await stage.page.getByRole('button', { name: "Copy this page's address" }).click();
  await stage.page.getByRole('status').getByText('The page\'s address was copied.').waitFor();
  await stage.page.addInitScript(installWallet, { name: 'Test Wallet' }); // the person installs one
  await stage.again.click();
  await stage.wallet().click();
  await finish(stage);
}

// uselessWallet: a wallet that can't sign texts does not count as a wallet.
async function uselessWallet(stage) {
  await stage.open({ clock: true, wallets: [{ name: 'Payer', features: ['solana:signTransaction'] }] });
  await stage.page.clock.fastForward('00:02');
  await stage.problem('No wallet found', false);
  assert.equal(await stage.wallet('Payer').count(), 0);
}

async function lockedWallet(stage) {
  await stage.open({ wallets: [{ name: 'Test Wallet', connect: ['locked', 'nothing', 'ok'] }] });
  await stage.wallet().click();
  await stage.problem('Test Wallet did not connect');
  await stage.everyLook('locked');
  await stage.again.click();
  await stage.problem('Test Wallet did not connect');
  await retry(stage);
}

async function slowSignature(stage) {
  await stage.open({ clock: true, wallets: [{ name: 'Test Wallet', sign: ['hang', 'ok'] }] });
  await stage.wallet().click();
  await stage.page.getByRole('heading', { name: 'Sign the message in Test Wallet' }).waitFor();
  await stage.page.clock.fastForward('04:50');
  await stage.page.getByRole('heading', { name: 'Sign the message in Test Wallet' }).waitFor();
  await stage.page.clock.fastForward('00:11');
  await stage.problem('That took too long');
  await stage.shot('expired');
  await retry(stage);
}

async function expiredAtServer(stage) {
  stage.expected.push(refusedByServer);
  await stage.open();
  await stage.page.route('**/auth/verify', (route) => route.fulfill({
    status: 401, json: { error: 'sign-in refused: challenge expired' },
  }), { times: 1 });
  await stage.wallet().click();
  await stage.problem('That took too long');
  await retry(stage);
}

async function wrongSignature(stage) {
  stage.expected.push(refusedByServer);
  await stage.open({ wallets: [{ name: 'Test Wallet', sign: ['wrong', 'short', 'ok'] }] });
  await stage.wallet().click();
  await stage.problem('The signature was not accepted');
  await stage.shot('mismatch');
  await stage.again.click();
  await stage.problem('The signature was not accepted');
  await retry(stage);
}

async function changedMessage(stage) {
  await stage.open({ wallets: [{ name: 'Test Wallet', sign: ['change', 'ok'] }] });
  await stage.wallet().click();
  await stage.problem('Test Wallet signed something else');
  await stage.shot('changed');
  await retry(stage);
}

async function deadServer(stage) {
  stage.expected.push(/ERR_CONNECTION_REFUSED/, /ERR_CONNECTION_RESET/, /status of (429|502|503)/);
  await stage.open();
  const fail = (path, how) => stage.page.route(`**${path}`, how, { times: 1 });
  await fail('/auth/challenge', (route) => route.abort('connectionrefused'));
  await stage.wallet().click();
  await stage.problem('Memory Ledger does not answer');
  await stage.everyLook('unreachable');
  await fail('/auth/challenge', (route) => route.fulfill({ status: 503, json: { error: 'temporarily unavailable; try again' } }));
  await stage.again.click();
  await stage.problem('Memory Ledger does not answer');
  await fail('/auth/verify', (route) => route.fulfill({ status: 502, contentType: 'text/html', body: '<h1>Bad gateway</h1>' }));
  await stage.again.click();
  await stage.problem('Memory Ledger does not answer');
  await fail('/auth/verify', (route) => route.abort('connectionreset'));
  await stage.again.click();
  await stage.problem('Memory Ledger does not answer');
  await fail('/auth/challenge', (route) => route.fulfill({ status: 429, json: { error: 'slow down' } }));
  await stage.again.click();
  await stage.problem('Too many tries');
  await retry(stage);
}

// silentServer: a request without an answer ends too.
async function silentServer(stage) {
  await stage.open({ clock: true });
  let asked;
  const arrived = new Promise((resolve) => { asked = resolve; });
  await stage.page.route('**/auth/challenge', asked, { times: 1 });
  await stage.wallet().click();
  await arrived;
  await stage.page.clock.fastForward('00:21');
  await stage.problem('Memory Ledger does not answer');
}

async function fallback(stage) {
  await stage.open({ wallets: [{ kind: 'injected' }] });
  await stage.wallet('Phantom').click();
  await finish(stage);
}

// both: a wallet with both interfaces is shown as one wallet.
async function both(stage) {
  await stage.open({ wallets: [{ kind: 'both', name: 'Phantom' }] });
  await stage.wallet('Phantom').waitFor();
  assert.equal(await stage.page.locator('.wallet').count(), 1);
  await stage.wallet('Phantom').click();
  await finish(stage);
}

async function lateWallet(stage) {
  await stage.open({ clock: true, wallets: [{ name: 'Test Wallet', late: true }] });
  await stage.page.clock.fastForward('00:02');
  await stage.problem('No wallet found', false);
  await stage.again.focus();
  await stage.page.evaluate(() => window.testWallet.arrive());
  await stage.wallet().waitFor();
  assert.equal(await stage.focused(), 'wallet');
  await stage.wallet().click();
  await finish(stage);
}

async function lateInjected(stage) {
  await stage.open({ clock: true, wallets: [{ kind: 'injected', late: true }] });
  await stage.page.clock.fastForward('00:02');
  await stage.problem('No wallet found', false);
  await stage.page.evaluate(() => window.testWallet.arrive());
  await stage.wallet('Phantom').click();
  await finish(stage);
}

async function signInFeature(stage) {
  await stage.open({ wallets: [{ name: 'Test Wallet', features: ['solana:signIn'], sign: ['change', 'ok'] }] });
  await stage.wallet().click();
  await stage.problem('Test Wallet signed something else');
  await retry(stage);
}

// bothFeatures: the wallet's own sign-in form is preferred, but its text is accepted only
// if it equals the challenge. Otherwise, and after a failure, the wallet signs the
// challenge as it is.
async function bothFeatures(stage) {
  const features = ['solana:signMessage', 'solana:signIn'];
  const asked = () => stage.page.evaluate(() => [...window.testWallet.asked]);
  await stage.open({ wallets: [{ name: 'Test Wallet', features, sign: ['hang', 'refuse', 'ok'] }] });
  await stage.wallet().click();
  await stage.page.waitForFunction(() => window.testWallet.asked.length === 1);
  await stage.page.getByRole('button', { name: 'Cancel' }).click();
  await stage.wallet().click();
  await stage.problem('You did not sign');
  assert.deepEqual(await asked(), ['signIn', 'signMessage'], 'what hung or failed is not asked again');

  await retry(stage);
}

// hardware: such a wallet signs only envelopes. The best that it offers is asked for, and
// asked again after a refusal.
const hardware = (asked, ...features) => async (stage) => {
  await stage.open({ wallets: [{ name: 'Test Wallet', hardware: true, features: ['solana:signMessage', ...features], sign: ['refuse', 'ok'] }] });
  await stage.wallet().click();
  await stage.problem('You did not sign');
  assert.deepEqual(await stage.page.evaluate(() => window.testWallet.asked), [asked]);
  if (features.length === 1) { // solana:signMessage comes next, and can't work
    await stage.again.click();
    await stage.page.waitForFunction(() => window.testWallet.asked.length === 2);
    await stage.problem('You did not sign');
  }
  if (features.length > 0) return retry(stage);
  await stage.page.getByText('A hardware wallet signs only off-chain messages').waitFor();
  await stage.everyLook('hardware');
};

// rewrittenForm: the wallet's form has another text, so the wallet must sign the
// challenge in the same attempt.
async function rewrittenForm(stage) {
  await stage.open({ wallets: [{ name: 'Test Wallet', features: ['solana:signMessage', 'solana:signIn'], sign: ['change', 'hang', 'ok'] }] });
  await stage.wallet().click();
  await stage.page.waitForFunction(() => window.testWallet.asked.length === 2);
  const { asked, seen } = await stage.page.evaluate(() => window.testWallet);
  assert.deepEqual(asked, ['signIn', 'signMessage']);
  assert.equal(seen[1], await stage.page.locator('#message-text').textContent());
  await stage.page.getByRole('button', { name: 'Cancel' }).click();
  await stage.wallet().click();
  await finish(stage);
}

// strangeWallet: a wallet is third-party code, and may use any name.
async function strangeWallet(stage) {
  const name = '<img src=x onerror=alert(1)>\u202Etxt.\n' + 'long '.repeat(40);
  await stage.open({ wallets: [
    { name, icon: 'https://wallet.invalid/icon.png' }, { name: '', icon: 'data:text/html;base64,AAAA' }, { name: 'Good' },
  ] });
  await stage.wallet('Good').waitFor();
  assert.equal(await stage.page.locator('.wallet').count(), 3);
  assert.equal(await stage.page.locator('.wallet img').count(), 0);
  await stage.everyLook('strange');
}

async function extensionGone(stage) {
  stage.expected.push(/Failed to launch 'moz-extension/);
  await stage.open({ callback: firefoxCallback, clock: true });
  assert.match(await stage.page.locator('.parties').textContent(), /Firefox extension 0a1b2c3d-/);
  await stage.wallet().click();
  await stage.page.getByRole('heading', { name: 'Signed in' }).waitFor();
  await stage.noToken();
  await stage.shot('done');
  await stage.page.clock.fastForward('00:06');
  await stage.problem('The extension did not open');
  await stage.shot('gone');
  stage.requests = stage.requests.filter((url) => !url.startsWith('moz-extension:'));
}

// otherAddress: the page says so if it was opened under a host name other than the
// one that the wallet will show.
async function otherAddress(stage) {
  const port = new URL(stage.config.api).port;
  await stage.open();
  await stage.page.goto(stage.address(stage.callback).replace('127.0.0.1', 'localhost'));
  assert.equal(await stage.page.locator('#site').textContent(), `localhost:${port}`);
  await stage.page.locator('#elsewhere').waitFor();
  await stage.everyLook('elsewhere');
  stage.requests = stage.requests.filter((url) => !url.includes('localhost'));
  await stage.page.getByRole('link', { name: 'Open it there' }).click();
  await stage.wallet().click();
  await finish(stage);
}

async function wrongCallbacks(stage) {
  stage.expected.push(/status of 400/);
  await stage.open();
  for (const callback of [
    'https://example.com/callback.html', 'javascript:alert(1)//', 'data:text/html,x',
    `CHROME-EXTENSION://${stage.config.extensionId}/callback.html`, `${stage.callback}#x`, `${stage.callback}?x#y`, `${stage.callback}?"`,
    `chrome-extension://${stage.config.extensionId}@example.com/callback.html`,
    `chrome-extension://${stage.config.extensionId}\\@example.com/callback.html`,
  ]) {
    const answer = await stage.page.goto(stage.address(callback));
    assert.equal(answer.status(), 400, callback);
    await stage.page.getByRole('heading', { name: "This sign-in link can't be used" }).waitFor();
    assert.equal(await stage.page.locator('script').count(), 0);
    const elsewhere = await stage.context.request.get(stage.address(callback));
    assert.equal(elsewhere.status(), 400, callback);
    assert.match(elsewhere.headers()['content-type'], /^application\/json/);
    assert.ok((await elsewhere.json()).error);
  }
  await stage.everyLook('refused');
}

// policy: content smuggled into the page can't run, load or send anything.
async function policy(stage) {
  stage.expected.push(/Content Security Policy/, /ERR_BLOCKED_BY_CSP/, /frame-ancestors/);
  await stage.open({ wallets: [] });
  const directives = ['base-uri', 'connect-src', 'form-action', 'frame-src', 'img-src', 'script-src-attr', 'script-src-elem', 'style-src-attr'];
  await stage.page.evaluate(() => {
    window.refused = new Set();
    document.addEventListener('securitypolicyviolation', (event) => window.refused.add(event.effectiveDirective));
    const put = (html) => document.body.append(document.createRange().createContextualFragment(html));
    put('<script>window.smuggled = true</script>');
    put('<script src="/page.js"></script>');
    put('<p style="color: red" onclick="window.smuggled = true">x</p>');
    document.querySelector('p[style]').click();
    put('<img src="/pixel.png">');
    put('<iframe src="/connect"></iframe>');
    put('<base href="https://example.invalid/">');
    put('<form action="/auth/verify" method="post"><button id="send"></button></form>');
    document.getElementById('send').click();
    fetch('https://example.invalid/').catch(() => {});
  });
  await stage.page.waitForFunction((names) => names.every((name) => window.refused.has(name)), directives);
  assert.deepEqual(await stage.page.evaluate(() => [window.smuggled, document.baseURI]), [undefined, stage.page.url()]);
}

async function reducedMotion(stage) {
  await stage.open({ wallets: [{ name: 'Test Wallet', sign: ['hang'] }], before: (page) => page.emulateMedia({ reducedMotion: 'reduce' }) });
  await stage.wallet().click();
  await stage.page.getByRole('heading', { name: 'Sign the message in Test Wallet' }).waitFor();
  assert.equal(await stage.page.evaluate(() => document.getAnimations().length), 0);
}

export const scenarios = {
  'signs in and hands the session to the extension': signsIn,
  'callback with a query': callbackWithQuery,
  'keyboard only': keyboardOnly,
  'every step is announced': announced,
  'refused signature': refusedSignature,
  'no wallet': noWallet,
  'wallet that signs no texts': uselessWallet,
  'locked wallet': lockedWallet,
  'challenge expires while the wallet waits': slowSignature,
  'challenge expired at the server': expiredAtServer,
  'wrong signature': wrongSignature,
  'wallet changes the message': changedMessage,
  'dead server': deadServer,
  'silent server': silentServer,
  'window.solana': fallback,
  'window.solana beside the standard': both,
  'late wallet': lateWallet,
  'late window.solana': lateInjected,
  'solana:signIn': signInFeature,
  'solana:signIn beside solana:signMessage': bothFeatures,
  'a hardware wallet with solana:signIn and solana:signOffchainMessage': hardware('signIn', 'solana:signOffchainMessage', 'solana:signIn'),
  'a hardware wallet with solana:signOffchainMessage': hardware('signOffchainMessage', 'solana:signOffchainMessage'),
  'a hardware wallet with solana:signMessage': hardware('signMessage'),
  'solana:signIn with a text of its own': rewrittenForm,
  'strange wallets': strangeWallet,
  'extension does not open': extensionGone,
  'opened by another address': otherAddress,
  'wrong callbacks': wrongCallbacks,
  'content security policy': policy,
  'reduced motion': reducedMotion,
  'other origins': crossOrigin,
  'leaves a memory by a link': leavesAMemory,
  'opens a case by a link': opensACase,
};
