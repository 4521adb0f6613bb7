// The parts that all scenarios share: a page of the browser, a wallet in it, and the
// common checks.
import assert from 'node:assert/strict';
import path from 'node:path';
import { Looks, allRules, colorRules } from './visit.mjs';
import { installWallet } from './wallets.mjs';

const icon = 'data:image/svg+xml;base64,' + Buffer.from(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><rect width="8" height="8" rx="2" fill="#5b4bd6"/><circle cx="4" cy="4" r="2" fill="#fff"/></svg>',
).toString('base64');

export class Stage extends Looks {
  constructor(context, config, name) {
    super();
    Object.assign(this, { context, config, name });
    this.callback = `chrome-extension://${config.extensionId}/callback.html`;
    this.requests = [];
    this.complaints = []; // errors of the page, and refusals by its policy
    this.expected = []; // complaints that the scenario expects
    this.shots = 0;
  }

  // open opens the sign-in page with the given wallets in it.
  async open({ wallets = [{ name: 'Test Wallet', icon }], callback = this.callback, clock = false, before } = {}) {
    this.page = await this.context.newPage();
    this.page.on('request', (request) => this.requests.push(request.url()));
    this.page.on('pageerror', (error) => this.complaints.push(`page error: ${error}`));
    this.page.on('console', (message) => {
      if (message.type() === 'error') this.complaints.push(message.text());
    });
    if (clock) await this.page.clock.install();
    for (const wallet of wallets) await this.page.addInitScript(installWallet, wallet);
    await before?.(this.page);
    return this.page.goto(this.address(callback));
  }

  address(callback) {
    return `${this.config.api}/connect?${new URLSearchParams({ callback })}`;
  }

  wallet(name = 'Test Wallet') {
    return this.page.getByRole('button', { name: `Continue with ${name}`, exact: true });
  }

  get again() {
    return this.page.getByRole('button', { name: 'Try again' });
  }

  // problem waits for the message of a problem, with the focus on Try again.
  async problem(title, focused = true) {
    const alert = this.page.getByRole('alert');
    await alert.getByRole('heading', { name: title, exact: true }).waitFor();
    if (focused) assert.equal(await this.focused(), 'again', 'the focus is on Try again');
    await this.noToken();
  }

  focused() {
    return this.page.evaluate(() => document.activeElement.id || document.activeElement.className || document.activeElement.tagName);
  }

  // arrive waits for the extension and returns what it did with the session.
  async arrive() {
    await this.page.waitForURL(`${this.callback}**`);
    await this.page.waitForFunction(() => document.title === 'Done');
    const report = JSON.parse(await this.page.locator('#report').textContent());
    assert.equal(report.failure, undefined);
    assert.equal(report.read.status, 200);
    return report;
  }

  // noToken checks that no place holds a token where a later visitor, or another
  // script of the page, could read it.
  async noToken() {
    const traces = await this.page.evaluate(() => [
      document.documentElement.outerHTML, location.href, JSON.stringify(history.state), document.cookie,
      JSON.stringify({ ...localStorage }), JSON.stringify({ ...sessionStorage }), window.name,
      JSON.stringify(performance.getEntries()),
    ].join('\n'));
    assert.ok(!traces.includes('svc_session_'), 'the page keeps no token');
  }

  async shot(state) {
    if (!this.config.screenshots || !this.page) return;
    const file = `${this.name.replaceAll(/\W+/g, '-')}-${++this.shots}-${state}.png`;
    await this.page.screenshot({ path: path.join(this.config.screenshots, file), fullPage: true });
  }

  // everyLook runs the same checks on the page wide and narrow, and of the colors, which are
  // the same at every width, in both themes.
  async everyLook(state) {
    for (const [look, width] of [['wide', 1280], ['phone', 360]]) {
      for (const colorScheme of ['light', 'dark']) {
        if (look === 'phone' && colorScheme === 'dark' && !this.config.screenshots) continue;
        await this.page.setViewportSize({ width, height: look === 'wide' ? 900 : 740 });
        await this.page.emulateMedia({ colorScheme });
        await this.fits();
        await this.accessible(colorScheme === 'light' ? allRules : colorRules);
        await this.shot(`${state}-${look}-${colorScheme}`);
      }
    }
  }

  // checkQuiet checks that only expected errors occurred, and that all requests went to
  // the API.
  checkQuiet() {
    const surprises = this.complaints.filter((text) => !this.expected.some((form) => form.test(text)));
    assert.deepEqual(surprises, []);
    const strangers = this.requests.filter((url) =>
      ![`${this.config.api}/`, 'data:', `chrome-extension://${this.config.extensionId}/`].some((start) => url.startsWith(start)));
    assert.deepEqual(strangers, []);
  }

  async close() {
    await this.page?.close();
  }
}
