// What an owner does who has only the page: each task takes at most four steps from home. And how they bring their notes.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

// steps runs the steps of a task, each one action of a person.
async function steps(...actions) {
  assert.ok(actions.length <= 4, `${actions.length} steps`);
  for (const action of actions) await action();
}

export const tasks = {
  async 'task: find what I said about X in spring'(v) {
    for (const [content, occurredAt] of [['The bicycle needs a new chain', '2024-04-02'], ['The bicycle was stolen', '2023-10-05'], ['Tulips by the gate', '2024-04-10']]) await v.call('POST', '/memories', { content, occurredAt });
    await v.signIn();
    await steps(
      () => v.page.getByRole('searchbox').fill('bicycle'),
      () => v.page.getByRole('button', { name: 'Filter' }).click(),
      () => v.page.getByLabel('Happened from').fill('2024-03-01'),
      () => v.page.getByLabel('Happened until').fill('2024-05-31'),
    );
    await v.page.getByText('1 found').waitFor();
    await v.rows.filter({ hasText: 'needs a new chain' }).waitFor();
  },

  async 'task: correct what I said'(v) {
    await v.call('POST', '/memories', { content: 'The bicycle room is on the left' });
    await v.signIn();
    await steps(
      () => v.page.getByRole('button', { name: /bicycle room/ }).first().click(),
      () => v.dialog.getByRole('button', { name: /^Correct/ }).click(),
      () => v.dialog.getByRole('textbox').fill('The bicycle room is on the right'),
      () => v.dialog.getByRole('button', { name: 'Correct it' }).click(),
    );
    await v.dialog.getByRole('heading', { name: 'What it said before' }).waitFor();
    const [now, before] = await v.call('GET', '/memories?order=newest');
    assert.deepEqual([now.content, now.supersedes], ['The bicycle room is on the right', [before.id]]);
  },

  async 'task: see who read my link, and end it'(v) {
    const { token } = await v.session(v.config.extension);
    const { url } = await (await fetch(`${v.config.extension}/agent-cases`, { method: 'POST', headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }, body: '{"maxReads":2}' })).json();
    await (await fetch(url)).text();
    await v.signIn();
    const link = v.page.getByRole('region', { name: 'Let someone read' });
    await steps(
      () => v.go('Hand out'),
      () => link.getByText('Someone read; 1 use left').waitFor(),
      () => link.getByRole('button', { name: 'End link' }).click(),
    );
    await link.getByText('This link is ended by you.').waitFor();
    assert.equal((await fetch(url)).status, 404);
  },

  async 'task: connect an assistant'(v) {
    await v.signIn();
    await steps(
      () => v.go('Connect'),
      () => v.page.getByRole('combobox', { name: 'Lines to paste for' }).selectOption('VS Code'),
      () => v.page.getByRole('button', { name: 'Make a key' }).click(),
      () => v.page.getByRole('button', { name: 'Try it' }).click(),
    );
    await v.page.getByText('It works.').waitFor();
    const lines = JSON.parse(await v.page.getByRole('group', { name: 'Lines' }).last().textContent()).servers.memory;
    const { result } = await (await fetch(lines.url, {
      method: 'POST', headers: { ...lines.headers, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'remember', arguments: { memories: [{ content: 'By the assistant' }] } } }),
    })).json();
    assert.ok(!result.isError, JSON.stringify(result));
    assert.equal((await v.call('GET', '/memories'))[0].content, 'By the assistant');
  },

  async 'task: take everything with me'(v) {
    await v.fill(3);
    await v.signIn();
    const download = v.page.waitForEvent('download');
    await steps(
      () => v.go('Your data'),
      () => v.page.getByRole('button', { name: 'Export everything' }).click(),
    );
    const file = fs.readFileSync(await (await download).path(), 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line));
    assert.deepEqual([file.length, file.at(-1).complete], [5, true]);
  },

  async 'import notes, once'(v) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'ledger-notes-')), vault = path.join(folder, 'vault');
    const put = (name, text) => { fs.mkdirSync(path.dirname(path.join(vault, name)), { recursive: true }); fs.writeFileSync(path.join(vault, name), text); };
    put('work/plan.md', '---\ndate: 2024-03-01\ntags: [plans, "#big", constructor]\nrating: 4.5\n---\nShip in May.\n\n## Risks\n');
    put('loose.md', '\ufeffNo front matter.\r\n');
    put('.obsidian/settings.md', 'never read');
    put('work/picture.png', 'never read');
    put('empty.md', '---\na: 1\n---\n');
    try {
      await v.signIn({ hash: '#data' });
      const section = v.page.locator('section', { has: v.page.getByRole('heading', { name: 'Import', exact: true }) });
      const choose = () => section.getByLabel('Choose a folder').setInputFiles(vault);
      await choose();
      await section.getByText('2 memories to store. 1 left out:').waitFor();
      await section.getByText('empty.md: it is empty').waitFor();
      await v.accessible();
      assert.equal((await v.call('GET', '/log')).treeSize, 0, 'nothing is stored before the owner says so');
      let chosen = false; // until then, the page does not learn that the log has grown
      const before = await v.call('GET', '/log');
      await v.page.route('**/log', (route) => chosen ? route.continue() : route.fulfill({ json: before }));
      await section.getByRole('button', { name: 'Store 2 memories' }).click();
      await section.getByText('Done: 2 memories stored.').waitFor();
      put('loose.md', 'It has changed.');
      chosen = true;
      await choose();
      await section.getByText('1 memory to store. 1 there already. 1 left out:').waitFor();
      await section.getByRole('button', { name: 'Store 1 memory' }).click();
      await section.getByText('Done: 1 memory stored.').waitFor();
      put('work/plan.md', 'Ship in May.\n\n## Risks\nNone.\n\n## Names\nLedger.\n');
      await section.getByLabel('Make each heading of a note a memory').check();
      await choose();
      await section.getByText('3 memories to store. 1 there already.').waitFor();
      await v.accessible();
      await v.shot('import');
      await section.getByRole('button', { name: 'Not now' }).click();
      const chooseLines = () => section.getByLabel('Choose files').setInputFiles([
        { name: 'lines.txt', mimeType: 'text/plain', buffer: Buffer.from('One line.\n\n Another. \r\n') },
        { name: 'all.jsonl', mimeType: 'application/jsonl', buffer: Buffer.from('{"id":7,"text":"Jo is 30.","date":"1970-01-01","tags":"a, b","constructor":"good","metadata":{"kept":true}}\nnot json\n{"text":"\\ud800"}\n') },
        { name: 'large.jsonl', mimeType: 'application/jsonl', buffer: Buffer.from(JSON.stringify({ text: 'Much.', notes: 'x'.repeat(65_000) })) },
        { name: 'a.constructor', mimeType: 'text/plain', buffer: Buffer.from('never read') },
        { name: 'mem0.json', mimeType: 'application/json', buffer: Buffer.from('{"results":[{"id":"m1","memory":"Likes chess","created_at":"2024-07-20T01:30:36-07:00","updated_at":null,"categories":["hobbies"]}]}') },
      ]);
      await chooseLines();
      for (const left of ['2: it is not a JSON object', "3: it can't be stored: a lone surrogate"]) await section.getByText(`all.jsonl:${left}`).waitFor();
      await section.getByText('large.jsonl:1: its metadata is too long').waitFor();
      await section.getByRole('button', { name: 'Store 4 memories' }).click();
      await section.getByText('Done: 4 memories stored.').waitFor();
      const all = await v.call('GET', '/memories');
      assert.deepEqual(all.map(({ content, metadata: { supersedes, ...metadata } }) => [content, metadata]), [
        ['No front matter.', { title: 'loose', source: 'markdown', externalId: 'loose.md' }],
        ['Ship in May.\n\n## Risks', { title: 'plan', occurredAt: '2024-03-01', tags: ['plans', 'big', 'constructor'], rating: 4.5, namespace: 'work', source: 'markdown', externalId: 'work/plan.md' }],
        ['It has changed.', { title: 'loose', source: 'markdown', externalId: 'loose.md' }],
        ['One line.', { source: 'text', externalId: createHash('sha256').update('One line.').digest('hex').slice(0, 32) }],
        ['Another.', { source: 'text', externalId: createHash('sha256').update('Another.').digest('hex').slice(0, 32) }],
        ['Jo is 30.', { kept: true, occurredAt: '1970-01-01', tags: ['a', 'b'], constructor: 'good', source: 'jsonl', externalId: '7' }],
        ['Likes chess', { occurredAt: '2024-07-20T01:30:36-07:00', tags: ['hobbies'], source: 'mem0', externalId: 'm1' }],
      ]);
      assert.deepEqual(all[2].supersedes, [all[0].id]);

      // What was taken back can be brought again.
      for (const { id } of all.slice(3)) await v.call('DELETE', `/memories/${id}`);
      await chooseLines();
      const answer = await v.hold('**/memories/batch', { times: 1 });
      await section.getByRole('button', { name: 'Store 4 memories' }).click();
      await v.go('Log'); // meanwhile
      await v.go('Your data');
      answer();
      await section.getByText('Done: 4 memories stored.').waitFor();
      assert.deepEqual((await v.call('GET', '/memories')).map(({ content }) => content), all.map(({ content }) => content));
      const second = await v.hold('**/memories/batch');
      await v.page.route('**/memories/batch', (route) => route.continue(), { times: 1 });
      await section.getByLabel('Choose files').setInputFiles({ name: 'many.txt', mimeType: 'text/plain', buffer: Buffer.from(Array.from({ length: 257 }, (_, i) => `line ${i}`).join('\n')) });
      await section.getByRole('button', { name: 'Store 257 memories' }).click();
      await section.getByText('256 of 257 memories stored…').waitFor();
      second();
      await section.getByText('Done: 257 memories stored.').waitFor();
    } finally {
      fs.rmSync(folder, { recursive: true });
    }
  },
};
