// Runs the scenarios in Chromium, and reports each result on standard output, one JSON
// object per line. Ends when its standard input ends.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { Stage } from './stage.mjs';
import { scenarios } from './scenarios.mjs';

const config = JSON.parse(process.env.BROWSER_TEST);
const require = createRequire(path.join(config.modules, 'index.js'));
const { chromium } = require('playwright-core');
config.axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const context = await chromium.launchPersistentContext(config.profile, {
  executablePath: config.chromium,
  headless: true,
  viewport: { width: 1000, height: 900 },
  args: [
    '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync',
    `--disable-extensions-except=${config.extension}`, `--load-extension=${config.extension}`,
  ],
});
process.stdin.on('end', () => context.close().finally(() => process.exit(1))).resume();

const only = new RegExp(config.only || '.');
for (const [name, play] of Object.entries(scenarios)) {
  if (!only.test(name)) continue;
  const stage = new Stage(context, config, name);
  const start = performance.now();
  let error = null;
  try {
    await play(stage);
    stage.checkQuiet();
  } catch (failure) {
    error = String(failure.stack ?? failure);
    await stage.shot('failed').catch(() => {});
  }
  await stage.close();
  console.log(JSON.stringify({ scenario: name, ms: Math.round(performance.now() - start), error }));
}
await context.close();
process.exit(0);
