// An owner's main path through the dashboard, in Firefox.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { config, launch, open, play, require, role, text } from './firefox.mjs';
import { Visit } from './visit.mjs';
import { installWallet } from './wallets.mjs';

const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const visit = new Visit(null, config, 'firefox');
let page;

async function starts() {
  await launch();
}

async function signsIn() {
  page = await open(installWallet, visit.wallet);
  await page.goto(`${config.core}/app/`);
  await page.locator(role('Continue with Test Wallet', 'button')).click();
  await page.locator(text('Nothing here yet')).wait();
}

async function writes() {
  await page.locator(role('New memory', 'textbox')).fill('Bees dance to tell the way.');
  await page.keyboard.down('Control');
  await page.keyboard.press('Enter');
  await page.keyboard.up('Control');
  await page.locator(text('Stored.')).wait();
  await visit.call('POST', '/memories', { content: 'Hives hum.', metadata: {} });
  await page.locator('button.memory ::-p-text(Hives hum.)').wait(); // through the feed
}

async function finds() {
  await page.locator(role('Search memories', 'searchbox')).fill('how do bees find their way?');
  await page.locator('mark ::-p-text(Bees)').wait();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.locator('dialog ::-p-text(Bees dance)').wait();
  await page.evaluate(() => history.back());
  await page.waitForFunction(() => !document.querySelector('dialog') && location.hash === '#q=how+do+bees+find+their+way%3F');
  await page.locator(role('Search memories', 'searchbox')).click();
  await page.keyboard.press('Escape');
  await page.locator('button.memory ::-p-text(Hives hum.)').wait();
}

async function verifies() {
  await visit.anchored();
  await page.locator('button.memory ::-p-text(Bees dance)').click();
  await page.locator(role('Verify in this browser', 'button')).click();
  await page.locator(text('The text is in your log, and the log is committed on Solana.')).wait();
  assert.equal((await page.$$('.steps .passed')).length, 3);
  assert.deepEqual(await page.evaluate(`(async () => {
    ${axe}
    return (await axe.run(document)).violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join('; '));
  })()`), []);
  await page.keyboard.press('Escape');
}

async function endsSessions() {
  await page.locator(role('Access', 'link')).click();
  await page.locator(role('End', 'button')).click(); // the test's own session, made outside the page
  await page.waitForFunction(() => document.querySelectorAll('ul[aria-label=Sessions] li').length === 1);
  await assert.rejects(visit.call('GET', '/memories'), /401/);
  await page.locator(role('Sign out', 'button')).click();
  await page.locator(role('Continue with Test Wallet', 'button')).wait();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
}

await play(starts, signsIn, writes, finds, verifies, endsSessions);
