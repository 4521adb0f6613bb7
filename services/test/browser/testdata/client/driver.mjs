// Runs the TypeScript client's tests and its example page in Chromium. Prints what is
// wrong and fails. BROWSER_TEST holds the paths and addresses that it needs.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const config = JSON.parse(process.env.BROWSER_TEST);
const { chromium } = createRequire(path.join(config.modules, 'index.js'))('playwright-core');
const { fixtures } = await import(pathToFileURL(path.join(config.client, 'test', 'fixtures.mjs')));

const browser = await chromium.launch({ executablePath: config.chromium, args: ['--no-sandbox', '--disable-gpu', '--no-first-run'] });
process.stdin.on('end', () => browser.close().finally(() => process.exit(1))).resume();

try {
  await everywhere();
  await examplePage();
  await stranger();
} catch (failure) {
  console.error(failure);
  process.exitCode = 1;
}
await browser.close();
process.exit();

async function everywhere() {
  const page = await browser.newPage();
  await page.goto(config.site);
  const outcome = await page.evaluate(async ({ files, api }) => {
    const [{ run }, client] = await Promise.all([import('/test/everywhere.mjs'), import('/dist/index.js')]);
    return run(client, files, api);
  }, { files: fixtures(), api: config.api });
  console.log(`${outcome.count} tests in Chromium`);
  assert.deepEqual(outcome.failures, []);
  await page.close();
}

// A page that the service does not allow hears why, at once. A lost connection of an allowed
// page is only that.
async function stranger() {
  const page = await browser.newPage();
  page.setDefaultTimeout(5_000);
  await page.goto(`${config.stranger}/examples/page/index.html`);
  await page.getByLabel('Service').fill(config.api);
  await page.getByLabel('API key').fill(config.key);
  await page.getByLabel('Memory').fill(config.memory.id);
  await page.getByRole('button').click();
  await page.getByRole('status').filter({ hasText: `pages of ${config.stranger} may not call it: its operator must add that origin to CORE_ALLOWED_ORIGINS` }).waitFor();
  await page.goto(`${config.site}/examples/page/index.html`);
  await page.getByLabel('Service').fill(config.api);
  await page.getByLabel('API key').fill(config.key);
  await page.getByLabel('Memory').fill(config.memory.id);
  await page.route(`**/memories/${config.memory.id}`, (route) => route.abort(), { times: 1 });
  await page.getByRole('button').click();
  await page.getByRole('status').filter({ hasText: /^Verified: / }).waitFor();
  await page.close();
}

async function examplePage() {
  const page = await browser.newPage();
  page.setDefaultTimeout(10_000);
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  await page.goto(`${config.site}/examples/page/index.html`);
  await page.getByLabel('Service').fill(config.api);
  await page.getByLabel('API key').fill(config.key);
  await page.getByLabel('Memory').fill(config.memory.id);
  const show = async (said) => {
    await page.getByRole('button').click();
    await page.getByRole('status').filter({ hasText: said }).waitFor();
  };
  await show(/^Verified: this text is leaf 0 of a log of 1\. It is not anchored/);
  assert.equal(await page.locator('blockquote').textContent(), config.memory.content);
  assert.ok((await page.locator('dl').textContent()).includes(config.memory.leafHash));
  assert.deepEqual(complaints, []);

  // A text, and then a receipt, that differ from what was written.
  const lie = (glob, change) => page.route(glob, async (route) => {
    const response = await route.fetch();
    return route.fulfill({ response, json: change(await response.json()) });
  }, { times: 1 });
  await lie(`**/memories/${config.memory.id}`, (memory) => ({ ...memory, content: 'another text' }));
  await show(/^Do not trust this: the service lies\. content/);
  await lie('**/receipt', (receipt) => ({ ...receipt, entry: { ...receipt.entry, content: 'another text' } }));
  await show(/^Do not trust this: the service lies\. entry/);
  assert.ok(await page.locator('article').isHidden(), 'a text that is not verified is shown');
  await page.getByLabel('Memory').fill('nothing');
  await show(/^The service refuses: /);
  await page.getByLabel('Service').fill('http://127.0.0.1:9');
  await page.route('http://127.0.0.1:9/**', (route) => route.abort());
  await page.clock.install();
  const asked = show(/^No answer: /);
  for (let n = 0; n < 100; n++) await page.clock.runFor(1000);
  await asked;
  await page.close();
}
