// Takes the pictures of the documents, and the frames of their recording, in Chromium: an owner
// signs in, writes, searches by meaning, opens what was found, and checks its proof. Reports the
// frames on standard output: [{ file, ms }].
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { Visit } from './visit.mjs';

const config = JSON.parse(process.env.BROWSER_TEST);
const { chromium } = createRequire(path.join(config.modules, 'index.js'))('playwright-core');
const browser = await chromium.launch({ executablePath: config.chromium, headless: true, args: ['--no-sandbox', '--disable-gpu'] });
process.stdin.on('end', () => browser.close().finally(() => process.exit(1))).resume();

const written = 'Ana prefers tea without milk, and remembers who asked.', asked = 'which drinks does she like?';
const texts = [ // fourteen, so that the next one has a path of three steps
  ['The good paper is in the drawer below the printer.', 'notes', ['home']],
  ['Bruno is allergic to walnuts.', 'diary', ['people']],
  ['Passport expires in October 2029.', 'notes'],
  ['The climbing hall is half empty before eight.', 'diary', ['sport']],
  ['Helena runs the team that we ask for new machines.', 'claude', ['work'], 'program'],
  ['Answer the landlord before the fifteenth.', 'notes', ['home']],
  ['Read RFC 6962 again. The audit path is shorter than I thought.', 'reader', ['proofs']],
  ['Dentist said the left one is fine for another year.', 'diary'],
  ['Moved the reading chair to the window; the light is best before ten.', 'diary', ['home']],
  ['Idea: a map of the city by the smell of its bakeries.', 'notes', ['ideas', 'city']],
  ['The lease ends in March. Ask about the bicycle room before signing again.', 'diary', ['home']],
  ['Prefers short answers, with the command first and the reason after it.', 'claude', ['preferences'], 'program'],
  ['Deploys go out on Tuesdays; no merges after four.', 'claude', ['work'], 'program'],
  ['Left the keys with the neighbor on the second floor. Call me when you land!', 'Anna', undefined, 'link'],
];

const v = new Visit(browser, config, 'pictures');
const post = async (url, token, body) => (await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json', ...(token && { Authorization: `Bearer ${token}` }) }, body: JSON.stringify(body) })).json();
const { key } = await v.call('POST', '/keys', { label: 'claude' });
const { token } = await v.session(config.extension);
const { url: link } = await post(`${config.extension}/memory-drops`, token, {});
for (const [content, source, tags, way] of texts) {
  if (way === 'program') await post(`${config.core}/memories`, key, { content, source, tags });
  else if (way === 'link') await post(link, undefined, { content, source });
  else await v.call('POST', '/memories', { content, source, tags });
}
await v.anchored();

const icon = `data:image/svg+xml;base64,${Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><rect width="8" height="8" rx="2" fill="#5b4bd6"/><circle cx="4" cy="4" r="2" fill="#fff"/></svg>').toString('base64')}`;
const page = await v.open({ wallets: [{ ...v.wallet, name: 'Your Wallet', icon }], viewport: { width: 960, height: 640 } });

const frames = [];
let at = [700, 560];
const frame = async (ms) => {
  const file = path.join(config.screenshots, `${String(frames.length).padStart(4, '0')}.png`);
  // What is shown last is in front: so the pointer is in front of an open dialog.
  await page.evaluate(([x, y]) => {
    let pointer = document.getElementById('pointer');
    if (!pointer) {
      pointer = document.createElement('div');
      Object.assign(pointer, { id: 'pointer', popover: 'manual', innerHTML: '<svg width="20" height="24" viewBox="0 0 20 24"><path d="M2 1v18l5-4 3 7 3-1-3-7h6z" fill="#111" stroke="#fff" stroke-width="1.5"/></svg>' });
      pointer.style.cssText = 'position: fixed; inset: auto; margin: 0; padding: 0; border: 0; background: none; overflow: visible; pointer-events: none';
      document.body.append(pointer);
    }
    pointer.style.left = `${x}px`;
    pointer.style.top = `${y}px`;
    if (pointer.matches(':popover-open')) pointer.hidePopover();
    pointer.showPopover();
  }, at);
  await page.screenshot({ path: file, animations: 'disabled' });
  frames.push({ file, ms });
};
const press = async (locator) => {
  const { x, y, width, height } = await locator.boundingBox(), from = at, to = [x + width * 0.7, y + height / 2];
  for (let step = 1; step <= 8; step++) {
    const part = (1 - Math.cos(Math.PI * step / 8)) / 2;
    at = from.map((value, i) => Math.round(value + (to[i] - value) * part));
    await page.mouse.move(...at);
    await frame(45);
  }
  await frame(250);
  await page.mouse.click(...at);
};
const type = async (text) => {
  for (const letter of text) {
    await page.keyboard.type(letter);
    await frame(letter === ' ' ? 80 : 50);
  }
};

const begin = page.getByRole('button', { name: 'Continue with Your Wallet' });
await begin.waitFor();
await frame(1500);
await press(begin);
await v.rows.first().waitFor();
await frame(1200);
await press(page.getByRole('textbox', { name: 'New memory' }));
await type(written);
await press(page.getByRole('button', { name: 'Remember' }));
const row = v.rows.filter({ hasText: written });
await row.waitFor();
await frame(800);
await row.getByText('on the chain').waitFor();
await frame(1200);
await page.setViewportSize({ width: 1200, height: 800 });
await page.evaluate(() => { document.getElementById('pointer').remove(); document.activeElement.blur(); });
await page.mouse.move(0, 0);
await page.screenshot({ path: path.join(config.pictures, 'dashboard-memories.png') });
await page.setViewportSize({ width: 960, height: 640 });
await press(page.getByRole('searchbox'));
await type(asked);
await page.getByText('best first').waitFor();
await row.waitFor();
await frame(1400);
await press(row);
const verify = v.dialog.getByRole('button', { name: 'Verify in this browser' });
await verify.waitFor();
await frame(1000);
await press(verify);
await v.dialog.getByText('The text is in your log, and the log is committed on Solana.').waitFor();
await frame(1500);
const dialog = await v.dialog.elementHandle(), bottom = await dialog.evaluate((el) => el.scrollHeight - el.clientHeight), down = Math.min(bottom, 430);
for (let step = 1; step <= 12; step++) {
  await dialog.evaluate((el, top) => { el.scrollTop = top; }, down * (1 - Math.cos(Math.PI * step / 12)) / 2);
  await frame(45);
}
await frame(2200);
await dialog.evaluate((el) => { el.scrollTop = 0; });
await press(v.dialog.getByRole('button', { name: 'Download receipt' }));
await frame(2500);
await page.evaluate(() => { document.getElementById('pointer').remove(); document.activeElement.blur(); });
await page.mouse.move(0, 0);
await page.setViewportSize({ width: 1200, height: 1400 });
await v.dialog.screenshot({ path: path.join(config.pictures, 'dashboard-proof.png'), animations: 'disabled' });
fs.writeSync(1, JSON.stringify(frames));
await browser.close();
process.exit(0);
