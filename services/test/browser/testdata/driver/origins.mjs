// Pages of two ordinary sites call the API: one is on its list, one is not.
import assert from 'node:assert/strict';

// ask runs in the page. It makes every kind of call, and reports whether the page
// could read the answer.
async function ask(api) {
  const attempt = (path, options) => fetch(api + path, options).then((response) => response.status, () => 'blocked');
  const json = { 'Content-Type': 'application/json' };
  return {
    health: await attempt('/health'),
    challenge: await attempt('/auth/challenge', { method: 'POST', headers: json, body: '{}' }),
    memories: await attempt('/memories', { headers: { Authorization: 'Bearer nothing' } }),
    write: await attempt('/memories', { method: 'POST', headers: { ...json, Authorization: 'Bearer nothing', 'Idempotency-Key': 'a' }, body: '{}' }),
    missing: await attempt('/no-such-route'),
    cookies: await attempt('/health', { credentials: 'include' }),
    put: await attempt('/memories', { method: 'PUT', body: '' }),
  };
}

export async function crossOrigin(stage) {
  stage.page = await stage.context.newPage();
  const { listed, unlisted, api } = stage.config;
  await stage.page.goto(listed);
  assert.deepEqual(await stage.page.evaluate(ask, api), {
    health: 200, challenge: 400, memories: 401, write: 401, missing: 404, cookies: 'blocked', put: 'blocked',
  });
  await stage.page.goto(unlisted);
  assert.deepEqual(await stage.page.evaluate(ask, api), {
    health: 'blocked', challenge: 'blocked', memories: 'blocked', write: 'blocked', missing: 'blocked', cookies: 'blocked', put: 'blocked',
  });
}
