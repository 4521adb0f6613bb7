import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bodyOf } from '../capture.js';
import { Queue, sendable } from '../queue.js';

const session = { url: 'https://ledger.example', owner: 'Alice' };
const signedIn = async () => session;
const entry = (key, more) => ({ key, url: session.url, owner: session.owner, body: { content: key }, ...more });
const failure = (status) => Object.assign(new Error(`status ${status}`), { status });

/** A fake storage.local, which outlives a worker: a second Queue on it is the worker after a restart. */
function memory() {
  let kept = '{}';
  return {
    get: async () => JSON.parse(kept),
    set: async (changed) => { kept = JSON.stringify({ ...JSON.parse(kept), ...changed }); },
  };
}

/** A fake navigator.locks: callbacks of one name run one at a time, in order. */
function locks() {
  const last = new Map();
  return (name, fn) => {
    const turn = (last.get(name) ?? Promise.resolve()).then(fn);
    last.set(name, turn.catch(() => {}));
    return turn;
  };
}

const make = (storage = memory()) => new Queue(storage, locks());
const keys = async (queue) => (await queue.entries()).map(({ key }) => key);

test('saves at the same time are all kept, in order', async () => {
  const queue = make();
  await Promise.all(['a', 'b', 'c'].map((key) => queue.add(entry(key))));
  assert.deepEqual(await keys(queue), ['a', 'b', 'c']);
});

test('what waits is sent in order, once, by however many flushes', async () => {
  const queue = make(), sent = [];
  for (const key of ['a', 'b']) await queue.add(entry(key));
  const send = async ({ key }) => { sent.push(key); };
  const counts = await Promise.all([queue.flush(signedIn, send), queue.flush(signedIn, send)]);
  assert.deepEqual([sent, counts, await keys(queue)], [['a', 'b'], [2, 2], []]);
});

test('events while others are sent cause one further try', async () => {
  const queue = make(), tries = [];
  await queue.add(entry('a'));
  const send = async () => {
    if (tries.push(1) === 1) tries.push(...['b', 'c', 'd'].map(() => assert.rejects(queue.flush(signedIn, send))));
    throw failure(429);
  };
  await assert.rejects(queue.flush(signedIn, send));
  await Promise.all(tries);
  assert.equal(tries.length, 1 + 3 + 1);
});

test('an entry that is added while others are sent stays for the next flush', async () => {
  const queue = make();
  await queue.add(entry('a'));
  await queue.flush(signedIn, () => queue.add(entry('b')));
  assert.deepEqual(await keys(queue), ['b']);
});

for (const status of [undefined, 401, 404, 408, 429, 500, 503]) {
  test(`after ${status ?? 'no answer'} the entry and those behind it wait, with their keys`, async () => {
    const queue = make(), sent = [];
    for (const key of ['a', 'b']) await queue.add(entry(key));
    const send = async ({ key }) => { sent.push(key); throw failure(status); };
    await assert.rejects(queue.flush(signedIn, send), { status });
    assert.deepEqual([sent, await keys(queue)], [['a'], ['a', 'b']]);
  });
}

for (const status of [400, 403, 413, 422]) {
  test(`what is refused with ${status} is kept with the reason, and not sent again`, async () => {
    const queue = make(), sent = [];
    for (const key of ['a', 'b']) await queue.add(entry(key));
    const send = async ({ key }) => { sent.push(key); if (key === 'a') throw failure(status); };
    assert.equal(await queue.flush(signedIn, send), 1);
    await queue.flush(signedIn, send);
    assert.deepEqual(sent, ['a', 'b']);
    assert.deepEqual(await queue.entries(), [entry('a', { problem: `status ${status}` })]);
    await queue.retry('a');
    assert.equal(await queue.flush(signedIn, async () => {}), 1);
  });
}

test('a worker that ends between an answer and its removal sends again with the same key', async () => {
  const storage = memory(), queue = make(storage), sent = [];
  await queue.add(entry('a'));
  let arrived;
  const stored = new Promise((resolve) => { arrived = resolve; });
  // The service stores the entry, but this worker never gets the answer.
  void queue.flush(signedIn, ({ key }) => { sent.push(key); arrived(); return new Promise(() => {}); });
  await stored;
  await make(storage).flush(signedIn, async ({ key }) => { sent.push(key); });
  assert.deepEqual([sent, await keys(queue)], [['a', 'a'], []]);
});

test('nothing of one wallet or service is sent to another', async () => {
  const all = [entry('mine'), entry('bob', { owner: 'Bob' }), entry('elsewhere', { url: 'https://other.example' }), entry('unowned', { owner: null })];
  assert.deepEqual(sendable(all, session).map(({ key }) => key), ['mine', 'unowned']);
});

test('a body fits the limits of the service, and says where it was cut', () => {
  const tab = { title: `${'T'.repeat(498)}\uffff😀`, url: 'https://a.example/?q=1' };
  const cut = bodyOf(' ' + '😀'.repeat(10_001), tab);
  assert.equal([...cut.content].length, 10_000);
  assert.deepEqual(cut.metadata, { title: `${'T'.repeat(498)}\ufffd\ufffd`, url: tab.url, truncated: true });
  assert.deepEqual(bodyOf('a\ud83d', { title: '/home/me', url: 'file:///home/me' }), { content: 'a\ufffd', source: 'web extension', metadata: {} });
  assert.throws(() => bodyOf(' \n', tab), /no text/);
});
