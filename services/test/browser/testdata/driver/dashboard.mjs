// Runs the dashboard's scenarios in Chromium, and reports each result on standard output,
// one JSON object per line. Ends when its standard input ends.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { Lane, Visit } from './visit.mjs';
import { scenarios } from './dashboard-scenarios.mjs';

const config = JSON.parse(process.env.BROWSER_TEST);
const require = createRequire(path.join(config.modules, 'index.js'));
const { chromium } = require('playwright-core');
config.axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const browser = await chromium.launch({
  executablePath: config.chromium, headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
    '--process-per-site'], // of a context
});
process.stdin.on('end', () => browser.close().finally(() => process.exit(1))).resume();

const only = new RegExp(config.only || '.');

async function perform(name, play, lane) {
  const visit = new Visit(browser, config, name, lane);
  const start = performance.now();
  let error = null, lacking; // what the machine lacks for it
  try {
    lacking = await play(visit);
    visit.checkQuiet();
  } catch (failure) {
    error = String(failure.stack ?? failure) + (visit.complaints.length ? `\nThe page complained: ${visit.complaints.join('\n')}` : '');
    for (const page of visit.context?.pages() ?? []) error += `\n${page.url()} shows: ${await page.innerText('body').catch(String)}`.slice(0, 3000);
    await visit.shot('failed').catch(() => {});
  }
  await visit.close();
  console.log(JSON.stringify({ scenario: `dashboard/${name}`, ms: Math.round(performance.now() - start), error, lacking }));
}

// Two scenarios at a time, each in a context of its own: one uses the processors while the other waits. What is measured
// is measured alone.
const chosen = Object.entries(scenarios).filter(([name]) => only.test(name)), alone = ['a hundred thousand memories'];
const together = chosen.filter(([name]) => !alone.includes(name));
await Promise.all([1, 2].map(async () => {
  const lane = await Lane.start(browser, config);
  for (let next; (next = together.shift());) await perform(...next, lane);
}));
for (const [name, play] of chosen.filter(([name]) => alone.includes(name))) await perform(name, play);
await browser.close();
process.exit(0);
