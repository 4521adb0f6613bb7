// An owner's visit to the dashboard: a wallet, a page where nobody was before, and calls of
// the same wallet outside the page.
import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync, sign } from 'node:crypto';
import path from 'node:path';
import { installWallet } from './wallets.mjs';

const alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const base58 = (bytes) => {
  let text = '';
  for (let n = bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n); n > 0n; n /= 58n) text = alphabet[Number(n % 58n)] + text;
  for (const byte of bytes) { if (byte) break; text = `1${text}`; }
  return text;
};

// A theme changes colors alone.
export const allRules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], colorRules = ['color-contrast', 'link-in-text-block'];

// Lane is a context that one scenario after the other uses. A page that stays open keeps the site's process, so that the
// next scenario need not start one, nor compile axe again. Nothing else stays, but for what the browser caches of the site.
export class Lane {
  static async start(browser, config) {
    const lane = new Lane();
    lane.context = await browser.newContext();
    lane.page = await lane.context.newPage();
    await lane.page.goto(`${config.core}/health`);
    lane.debug = await lane.context.newCDPSession(lane.page);
    return lane;
  }

  async clear() {
    for (const page of this.context.pages()) if (page !== this.page) await page.close();
    await this.debug.send('Storage.clearDataForOrigin', { origin: new URL(this.page.url()).origin, storageTypes: 'all' });
  }
}

// Looks are the checks that every visitor makes of a page as it is.
export class Looks {
  // accessible runs axe, colors included.
  async accessible(rules = allRules) {
    // Through the debugger, because the page's policy does not apply to it.
    if (await this.page.evaluate('typeof axe') === 'undefined') await this.page.evaluate(`${this.config.axe};0`);
    const found = await this.page.evaluate(`(async () => {
      const { violations } = await axe.run(document, { resultTypes: ['violations'], runOnly: ${JSON.stringify(rules)} });
      return violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html, failureSummary }) => html + ' ' + failureSummary).join('; '));
    })()`);
    assert.deepEqual(found, []);
  }

  // fits checks that nothing needs sideways scrolling.
  async fits() {
    const { content, room } = await this.page.evaluate(() => ({ content: document.documentElement.scrollWidth, room: document.documentElement.clientWidth }));
    assert.ok(content <= room, `content is ${content} px wide in a window of ${room}`);
  }
}

export class Visit extends Looks {
  constructor(browser, config, name, lane) {
    super();
    Object.assign(this, { browser, config, name, lane, complaints: [], expected: [], requests: [], shots: 0 });
    this.become(generateKeyPairSync('ed25519').privateKey);
  }

  // become gives the visitor a key.
  become(privateKey) {
    const raw = createPublicKey(privateKey).export({ type: 'spki', format: 'der' }).subarray(-32);
    this.privateKey = privateKey;
    this.publicKey = base58([...raw]);
    this.wallet = { name: 'Test Wallet', key: { pkcs8: privateKey.export({ type: 'pkcs8', format: 'der' }).toString('base64'), raw: raw.toString('base64') } };
  }

  // session signs in outside the page.
  async session(api = this.config.core) {
    const post = async (route, body) => (await fetch(api + route, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })).json();
    const { message } = await post('/auth/challenge', { publicKey: this.publicKey });
    return post('/auth/verify', { publicKey: this.publicKey, message, signature: base58([...sign(null, Buffer.from(message), this.privateKey)]) });
  }

  // call calls the core API outside the page.
  async call(method, route, body) {
    this.own ??= await this.session();
    const response = await fetch(this.config.core + route, {
      method, headers: { Authorization: `Bearer ${this.own.token}`, ...(body && { 'Content-Type': 'application/json' }) }, body: body && JSON.stringify(body),
    });
    const text = await response.text();
    assert.ok(response.ok, `${method} ${route}: ${response.status} ${text}`);
    return JSON.parse(text);
  }

  // fill writes many memories.
  async fill(total) {
    for (let from = 0; from < total; from += 256) {
      const memories = Array.from({ length: Math.min(256, total - from) }, (_, i) => ({
        content: texts[(from + i) % texts.length].replace('#', from + i), metadata: { source: ['diary', 'reader', 'notes'][(from + i) % 3] },
      }));
      await this.call('POST', '/memories/batch', { memories });
    }
  }

  // hold keeps the page's requests to a path until the function that it returns is called.
  async hold(path, options) {
    let go;
    const held = new Promise((resolve) => { go = resolve; });
    await this.page.route(path, async (route) => { await held; await route.continue(); }, options);
    return go;
  }

  // anchored waits until all of the log is on the chain.
  async anchored() {
    for (let tries = 0; tries < 200; tries++) {
      const head = await this.call('GET', '/log');
      if (head.treeSize > 0 && head.anchoredSize === head.treeSize) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    assert.fail('the log was not anchored');
  }

  // open opens the dashboard with the wallet in it. What changes a whole context, as a clock does, needs one alone.
  async open({ wallets = [this.wallet], hash = '', viewport = { width: 1280, height: 900 }, clock = false, alone = clock || !this.lane } = {}) {
    this.context = alone ? await this.browser.newContext() : this.lane.context;
    this.page = await this.context.newPage();
    await this.page.setViewportSize(viewport);
    this.page.on('request', (request) => this.requests.push(request.url()));
    this.page.on('pageerror', (error) => this.complaints.push(`page error: ${error}`));
    this.page.on('console', (message) => message.type() === 'error' && this.complaints.push(message.text()));
    if (clock) await this.page.clock.install();
    for (const wallet of wallets) await this.page.addInitScript(installWallet, wallet);
    await this.page.goto(`${this.config.core}/app/${hash}`);
    return this.page;
  }

  async signIn(options) {
    await this.open(options);
    await this.page.getByRole('button', { name: 'Continue with Test Wallet' }).click();
    await this.page.getByRole('navigation').waitFor();
  }

  go(screen) {
    return this.page.getByRole('navigation').getByRole('link', { name: screen, exact: true }).click();
  }

  get dialog() { return this.page.getByRole('dialog'); }

  // rows are the memories in sight.
  get rows() { return this.page.locator('button.memory'); }

  // apart checks that no two things that can be pressed share a place, that nothing covers one, that none is cut off,
  // and that a thumb can press each. What floats may cover what scrolls under it. Nor may the words in a field be cut.
  async apart(thumb) {
    const found = await this.page.evaluate((thumb) => {
      const scope = document.querySelector('dialog[open]') ?? document, wrong = [], pen = document.createElement('canvas').getContext('2d');
      const layer = (el) => { while (el && !/fixed|sticky/.test(getComputedStyle(el).position)) el = el.parentElement; return el; };
      const all = [...scope.querySelectorAll('a[href], button, input, select, textarea, summary')]
        .map((el) => (/^(checkbox|radio|file)$/.test(el.type) && el.closest('label')) || el)
        .map((el) => ({ el, box: el.getBoundingClientRect(), layer: layer(el), name: `${el.tagName} ${el.getAttribute('aria-label') ?? el.textContent.trim().slice(0, 30)}` }))
        .filter(({ el, box }) => el.checkVisibility() && box.width > 1 && box.bottom > 0 && box.top < innerHeight);
      all.forEach((a, i) => {
        for (const b of all.slice(i + 1)) {
          if (a.layer !== b.layer || a.el.contains(b.el) || b.el.contains(a.el)) continue;
          const width = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left), height = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
          if (width > 1 && height > 1) wrong.push(`${a.name} and ${b.name} share ${width} by ${height} px`);
        }
        const { el, box, name } = a, y = (Math.max(0, box.top) + Math.min(innerHeight, box.bottom)) / 2;
        const hit = document.elementFromPoint((Math.max(0, box.left) + Math.min(innerWidth, box.right)) / 2, y);
        if (hit && !el.contains(hit) && !hit.contains(el) && layer(hit) === a.layer) wrong.push(`${hit.outerHTML.slice(0, 80)} covers ${name}`);
        if (box.left < -1 || box.right > innerWidth + 1) wrong.push(`${name} is cut off`);
        if (el.matches('button') && box.right > el.parentElement.getBoundingClientRect().right + 1) wrong.push(`${name} sticks out`);
        if (el.tagName === 'BUTTON' && el.scrollWidth > el.clientWidth + 1) wrong.push(`the words of ${name} are cut off`);
        if (el.matches(':placeholder-shown')) {
          const { font, paddingLeft, paddingRight } = getComputedStyle(el), room = el.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
          pen.font = font;
          if (el.tagName === 'INPUT' && pen.measureText(el.placeholder).width > room + 1) wrong.push(`“${el.placeholder}” is cut off`);
        }
        const inText = el.matches('a, .link') && getComputedStyle(el).display.startsWith('inline') && !el.matches('.button');
        if (thumb && !inText && Math.min(box.width, box.height) < 43.5) wrong.push(`${name} has ${Math.round(box.width)} by ${Math.round(box.height)} px`);
      });
      for (const summary of document.querySelectorAll('.summary')) {
        if (summary.lastElementChild.getBoundingClientRect().top >= summary.firstElementChild.getBoundingClientRect().bottom) wrong.push('Select has a line of its own');
      }
      return wrong;
    }, thumb);
    assert.deepEqual(found, []);
  }

  // everyLook runs the same checks on the page wide and narrow, and of the colors, which are the same at every width, in
  // both themes. Between wide and narrow, boxes alone are checked.
  async everyLook(state) {
    for (const width of [1280, 768, 360]) {
      for (const colorScheme of ['light', 'dark']) {
        if (width !== 1280 && colorScheme === 'dark' && !this.config.screenshots) continue;
        await this.page.setViewportSize({ width, height: width === 360 ? 740 : 900 });
        await this.page.emulateMedia({ colorScheme });
        await this.fits();
        await this.apart(width < 800);
        if (width !== 768) await this.accessible(colorScheme === 'light' ? allRules : colorRules);
        await this.shot(`${state}-${width}-${colorScheme}`);
      }
    }
    await this.page.setViewportSize({ width: 1280, height: 900 });
    await this.page.emulateMedia({ colorScheme: 'light' });
  }

  // printed checks that paper shows all of a dialog, however little of it the window shows.
  async printed(state) {
    await this.page.setViewportSize({ width: 1280, height: 300 });
    const cut = () => this.dialog.evaluate((el) => el.scrollHeight - el.clientHeight - Math.min(0, el.getBoundingClientRect().top + scrollY));
    assert.ok(await cut() > 1, 'the window shows all of the dialog');
    await this.page.emulateMedia({ media: 'print' });
    assert.ok(await cut() <= 1, 'paper does not show all of the dialog');
    await this.shot(`${state}-printed`);
    await this.page.emulateMedia({ media: 'screen' });
    await this.page.setViewportSize({ width: 1280, height: 900 });
  }

  async shot(state) {
    if (!this.config.screenshots || !this.page) return;
    await this.page.screenshot({ path: path.join(this.config.screenshots, `dashboard-${this.name.replaceAll(/\W+/g, '-')}-${++this.shots}-${state}.png`) });
  }

  // checkQuiet checks that only expected errors occurred, and that all requests went to the
  // APIs and the chain.
  checkQuiet() {
    assert.deepEqual(this.complaints.filter((text) => !this.expected.some((form) => form.test(text))), []);
    const known = [this.config.core, this.config.extension, this.config.rpc, 'data:', 'blob:'];
    assert.deepEqual(this.requests.filter((url) => !known.some((start) => url.startsWith(start))), []);
  }

  async close() {
    // A route's handler may still be at work on a request whose page is done.
    for (const page of this.context?.pages() ?? []) await page.unrouteAll({ behavior: 'ignoreErrors' });
    if (this.context === this.lane?.context) await this.lane?.clear();
    else await this.context?.close();
  }
}

const texts = [
  'Moved the reading chair to the window; the light is best before ten. (#)',
  'Ana prefers tea without milk, and remembers who asked. (#)',
  'The lease ends in March. Ask about the bicycle room before signing again. (#)',
  'Deploys go out on Tuesdays; no merges after four. (#)',
  'Idea: a map of the city by the smell of its bakeries. (#)',
  'Dentist said the left one is fine for another year. (#)',
  'Read RFC 6962 again. The audit path is shorter than I thought. (#)',
];
