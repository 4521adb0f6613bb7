// People with the links that an owner hands out: they leave a memory, and open a case.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { Visit } from './visit.mjs';

// owner returns a function that calls the API as an owner.
function owner(api) {
  const signedIn = new Visit(null, { core: api }, 'owner');
  return (...request) => signedIn.call(...request);
}

async function visit(stage, url) {
  stage.page ??= await stage.context.newPage();
  if (!stage.watched) {
    stage.watched = true;
    stage.page.on('request', (request) => stage.requests.push(request.url()));
    stage.page.on('pageerror', (error) => stage.complaints.push(`page error: ${error}`));
    stage.page.on('console', (message) => {
      if (message.type() === 'error') stage.complaints.push(message.text());
    });
  }
  return stage.page.goto(url);
}

const heading = (stage, name) => stage.page.getByRole('heading', { level: 1, name, exact: true }).waitFor();

export async function leavesAMemory(stage) {
  stage.expected.push(/status of (400|404|413)/);
  const own = owner(stage.config.api);
  const drop = await own('POST', '/memory-drops', { maxWrites: 2 });
  const left = async () => (await own('GET', `/memory-drops/${drop.id}/status`)).remainingWrites;
  await visit(stage, drop.url);
  await heading(stage, 'Leave a memory');
  await stage.everyLook('drop');
  const weights = await stage.page.evaluate(() => ['label', 'textarea', '.hint'].map((name) => getComputedStyle(document.querySelector(name)).fontWeight));
  assert.deepEqual(weights, ['600', '400', '400'], 'only labels are bold');
  assert.equal(await left(), 2, 'looking spends nothing');

  // With the keyboard alone.
  const { page } = stage;
  await page.getByLabel('What should they remember?').focus();
  await page.keyboard.type('She asked about the bees again.');
  await page.keyboard.press('Tab');
  await page.keyboard.type('Anna');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Leave this memory');
  await page.keyboard.press('Enter');
  await heading(stage, 'Your memory was left');
  await stage.everyLook('left');
  await page.reload(); // sends the form again
  await heading(stage, 'Your memory was left');
  assert.equal(await left(), 1);

  // A memory that does not fit comes back with the reason, and its text is not lost.
  await page.getByRole('link', { name: 'Leave another' }).click();
  const text = page.getByLabel('What should they remember?');
  await text.evaluate((area) => { area.value = `${'x'.repeat(99)}\n`.repeat(10_500); }); // over 1 MiB; one line of that length is laid out too slowly
  await page.getByRole('button', { name: 'Leave this memory' }).click();
  await heading(stage, 'This was not accepted');
  await stage.everyLook('refused');
  await page.goBack();
  await text.fill('x'.repeat(10001));
  await page.getByLabel('Where is it from?').fill('Anna');
  await page.getByRole('button', { name: 'Leave this memory' }).click();
  await page.getByRole('alert').waitFor();
  assert.equal((await text.inputValue()).length, 10001);
  assert.equal(await left(), 1);
  await text.fill('And about honey.');
  await stage.everyLook('again');
  await page.getByRole('button', { name: 'Leave this memory' }).click();
  await page.getByText('The link is used up').waitFor();
  const { memories } = await own('GET', '/memories');
  assert.deepEqual(memories.map(({ content, metadata, via }) => [content, metadata.source, via.kind]), [
    ['She asked about the bees again.', 'Anna', 'drop'], ['And about honey.', 'Anna', 'drop'],
  ]);

  assert.equal((await visit(stage, drop.url)).status(), 404);
  await heading(stage, 'This link opens nothing');
  await stage.everyLook('dead');
}

export async function opensACase(stage) {
  stage.expected.push(/status of 404/);
  const own = owner(stage.config.api);
  const long = 'chat'.repeat(20); // one word, as wide as it may be
  await own('POST', '/memories', { content: 'Keeps bees.', source: long, tags: [long] });
  const made = await own('POST', '/agent-cases', { maxReads: 2 });
  const left = async () => (await own('GET', `/agent-cases/${made.id}/status`)).remainingReads;
  await visit(stage, made.url);
  await heading(stage, 'Someone shares their memories with you');
  await stage.everyLook('case');
  assert.equal(await left(), 2, 'looking spends nothing');

  const { page } = stage;
  await page.getByRole('button', { name: 'Open and use up one read' }).click();
  await heading(stage, '1 memory');
  const memory = page.getByRole('article');
  await memory.getByText('Keeps bees.').waitFor();
  assert.equal(await memory.getByText('Leaf 0').isVisible(), false, 'hashes are folded away');
  await stage.everyLook('opened');
  await memory.getByText('Details').press('Enter');
  await memory.getByText('Leaf 0').waitFor();
  await stage.everyLook('opened-details');
  const download = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Download as Markdown' }).click();
  const text = fs.readFileSync(await (await download).path(), 'utf8');
  assert.match(text, /^# Memories of /);
  assert.match(text, /Keeps bees\./);
  assert.equal(await left(), 1);
  await visit(stage, made.url);
  const last = page.getByRole('button', { name: 'Open and use up the link' });
  await stage.everyLook('last');
  // A second click before the answer would find the link used up, and the browser would show only that.
  let go, asked = 0;
  const clicked = new Promise((resolve) => { go = resolve; });
  await page.route(made.url, (route) => { asked++; return clicked.then(() => route.continue()); });
  const { x, y } = await last.boundingBox();
  await Promise.all([page.waitForRequest(made.url), page.mouse.click(x + 9, y + 9)]);
  await page.mouse.click(x + 9, y + 9);
  go();
  await heading(stage, '1 memory');
  assert.equal(asked, 1);
}
