// Firefox as Debian packages it. Firefox itself speaks WebDriver BiDi, and puppeteer
// drives it through that protocol.
import { createRequire } from 'node:module';
import path from 'node:path';

export const config = JSON.parse(process.env.BROWSER_TEST);
export const require = createRequire(path.join(config.modules, 'index.js'));

let browser;
process.stdin.on('end', () => browser?.close().finally(() => process.exit(1))).resume();

/** Starts the browser. It ends when this program's standard input ends. */
export async function launch({ args, prefs } = {}) {
  const { default: puppeteer } = await import(require.resolve('puppeteer-core'));
  browser = await puppeteer.launch({
    browser: 'firefox', executablePath: config.firefox, args, defaultViewport: { width: 1200, height: 900 },
    extraPrefsFirefox: prefs,
  });
  return browser;
}

export const complaints = []; // errors of pages, and refusals by their policies

/** Opens an empty page. `install` runs in it before the page's own scripts. */
export async function open(install, argument) {
  const page = await browser.newPage();
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  // BiDi does not report refusals by a policy.
  await page.evaluateOnNewDocument(() => addEventListener('securitypolicyviolation', (e) => console.error(`refused: ${e.violatedDirective} ${e.blockedURI}`)));
  if (install) await page.evaluateOnNewDocument(install, argument);
  return page;
}

export const role = (name, of) => `::-p-aria([name="${name}"][role="${of}"])`;
export const text = (part) => `::-p-text(${part})`;

/** Runs the steps in order and prints how long each took. */
export async function play(...steps) {
  try {
    for (const step of steps) {
      const began = performance.now();
      await step();
      console.log(`${step.name}: ${Math.round(performance.now() - began)} ms`);
    }
    if (complaints.length > 0) throw new Error('the pages complained');
  } catch (failure) {
    console.error(failure, complaints);
    process.exitCode = 1;
  }
  await browser?.close();
  process.exit();
}
