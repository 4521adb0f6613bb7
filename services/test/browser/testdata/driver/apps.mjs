// Apps that their user connects by OAuth, from the consent page to their end in the dashboard.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { installWallet } from './wallets.mjs';

export async function connectsAnApp(v) {
  const { core, other } = v.config, send = (body, type) => ({ method: 'POST', headers: { 'Content-Type': type }, body });
  const token = async (api, form) => {
    const response = await fetch(`${api}/oauth/token`, send(new URLSearchParams(form).toString(), 'application/x-www-form-urlencoded'));
    return { status: response.status, ...await response.json() };
  };
  // The app's own address is a page of the service here: the visitor goes nowhere else.
  const registered = await fetch(`${core}/oauth/register`, send(JSON.stringify({ client_name: 'Garden Assistant', redirect_uris: ['http://127.0.0.1/health'] }), 'application/json'));
  const { client_id } = await registered.json(), redirect_uri = `${core}/health`, verifier = randomBytes(32).toString('base64url');
  const request = (changes) => `${core}/oauth/authorize?${new URLSearchParams({
    client_id, redirect_uri, response_type: 'code', state: 'the state', scope: 'read write retract', resource: `${core}/mcp`,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256', ...changes,
  })}`;

  const page = await v.open();
  v.expected.push(/status of (400|404)/); // refused requests, and an icon that the service has not
  assert.equal((await page.goto(request({ redirect_uri: 'https://evil.example/' }))).status(), 400);
  await page.getByRole('heading', { level: 1, name: "This app can't be connected" }).waitFor();
  await v.everyLook('refused');

  await page.goto(request());
  const requester = await page.locator('#requester').textContent();
  assert.match(requester, /^Garden Assistant .*Nobody has checked it\.$/);
  assert.match(await page.locator('#answer').textContent(), new RegExp(`^${new URL(core).host} +a program on this computer$`));
  await v.everyLook('consent');
  await page.getByRole('button', { name: "Don't allow" }).click();
  await page.waitForURL((url) => url.pathname === '/health');
  assert.deepEqual(Object.fromEntries(new URL(page.url()).searchParams), { error: 'access_denied', iss: core, state: 'the state' });

  // With the keyboard alone, and with what was taken away.
  await page.goto(request());
  await page.getByRole('checkbox', { name: 'take memories back' }).focus();
  await page.keyboard.press('Space');
  await page.keyboard.press('Tab');
  await page.keyboard.type('garden');
  await page.getByLabel('It ends', { exact: true }).selectOption('in a week');
  await page.getByRole('button', { name: 'Continue with Test Wallet' }).focus();
  await page.keyboard.press('Enter');
  await page.waitForURL((url) => url.pathname === '/health');
  const answer = new URL(page.url()).searchParams;
  assert.equal(answer.get('iss'), core);
  assert.equal(answer.get('state'), 'the state');

  const first = await token(core, { grant_type: 'authorization_code', client_id, redirect_uri, code: answer.get('code'), code_verifier: verifier, resource: `${core}/mcp` });
  assert.equal(first.scope, 'read write');
  const renewed = await token(other, { grant_type: 'refresh_token', client_id, refresh_token: first.refresh_token });
  assert.equal(renewed.status, 200);
  const call = (api, name, args) => fetch(`${api}/mcp`, {
    method: 'POST', headers: { Authorization: `Bearer ${renewed.access_token}`, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } }),
  });
  assert.equal((await call(other, 'remember', { memories: [{ content: 'The roses want water.' }] })).status, 200);
  const { result } = await (await call(core, 'search', { query: 'roses' })).json();
  const [found] = JSON.parse(result.content[0].text).results;
  assert.equal(found.title, 'The roses want water.');

  // The link opens the memory, after a sign-in where there is no session.
  await page.goto(found.url);
  await page.getByRole('button', { name: 'Continue with Test Wallet' }).click();
  await v.dialog.getByLabel('Text', { exact: true }).getByText('The roses want water.').waitFor();
  await v.dialog.getByRole('button', { name: 'Close' }).click();
  await v.dialog.waitFor({ state: 'detached' });
  assert.equal(new URL(page.url()).hash, '#memories');

  await v.go('Access');
  const row = page.getByRole('list', { name: 'Connected apps' }).getByRole('listitem').filter({ hasText: 'Garden Assistant' });
  await row.getByText(new URL(core).host).waitFor();
  await row.getByText('garden', { exact: true }).waitFor();
  await row.getByText(/used (just now|\d+ seconds ago)/).waitFor();
  await v.everyLook('apps');
  await row.getByRole('button', { name: 'End Garden Assistant' }).click();
  await row.waitFor({ state: 'detached' });
  assert.equal((await call(other, 'search', { query: 'roses' })).status, 401);
  assert.equal((await token(core, { grant_type: 'refresh_token', client_id, refresh_token: renewed.refresh_token })).error, 'invalid_grant');
  await v.go('Activity');
  await page.getByText('You connected the app “Garden Assistant”').waitFor();
}

// The MCP inspector's own client discovers, registers and asks for consent.
export async function connectsTheInspector(v) {
  await v.signIn({ alone: true });
  const page = await v.context.newPage(); // of another program: it may ask for what it likes
  await page.addInitScript(installWallet, v.wallet);
  await page.goto(v.config.inspector);
  await page.getByRole('switch', { name: 'Connect or disconnect' }).press('Space'); // its label covers it
  await page.getByRole('button', { name: 'Continue with Test Wallet' }).click();
  await page.waitForURL(`${v.config.inspector}/**`);
  await page.getByText('Connected', { exact: true }).waitFor();
  await page.getByText('Tools', { exact: true }).click();
  await page.getByRole('button', { name: 'Remember remember' }).click();
  await page.getByRole('button', { name: 'Add item to memories' }).click();
  await page.getByRole('textbox', { name: 'content', exact: true }).fill('The roses want water.');
  await page.getByRole('button', { name: 'Execute Tool' }).click();
  await page.getByRole('heading', { name: 'Results' }).waitFor();
  const [key] = await v.call('GET', '/keys'), [memory] = await v.call('GET', '/memories');
  assert.deepEqual(key.app, { name: 'MCP Inspector', redirectHost: new URL(v.config.inspector).host });
  assert.deepEqual([memory.content, memory.via], ['The roses want water.', { kind: 'key', id: key.id }]);

  await v.go('Access');
  await v.page.getByRole('button', { name: 'End MCP Inspector' }).click();
  await v.page.getByRole('button', { name: 'End MCP Inspector' }).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Recent memories recent' }).click();
  await page.getByRole('button', { name: 'Execute Tool' }).click();
  await page.waitForURL(`${v.config.core}/oauth/authorize?*`); // neither of its tokens lives
}
