// Runs the dashboard's scenarios in Chromium, and reports each result on standard output,
// one JSON object per line. Ends when its standard input ends.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { Visit } from './visit.mjs';
import { scenarios } from './dashboard-scenarios.mjs';

const config = JSON.parse(process.env.BROWSER_TEST);
const require = createRequire(path.join(config.modules, 'index.js'));
const { chromium } = require('playwright-core');
config.axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const browser = await chromium.launch({
  executablePath: config.chromium, headless: true,
  args: ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
process.stdin.on('end', () => browser.close().finally(() => process.exit(1))).resume();

const only = new RegExp(config.only || '.');
for (const [name, play] of Object.entries(scenarios)) {
  if (!only.test(name)) continue;
  const visit = new Visit(browser, config, name);
  const start = performance.now();
  let error = null, lacking; // what the machine lacks for it
  try {
    lacking = await play(visit);
    visit.checkQuiet();
  } catch (failure) {
    error = String(failure.stack ?? failure) + (visit.complaints.length ? `\nThe page complained: ${visit.complaints.join('\n')}` : '');
    await visit.shot('failed').catch(() => {});
  }
  await visit.close();
  console.log(JSON.stringify({ scenario: `dashboard/${name}`, ms: Math.round(performance.now() - start), error, lacking }));
}
await browser.close();
process.exit(0);
