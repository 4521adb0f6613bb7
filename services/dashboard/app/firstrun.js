// What an owner sees who has no memories yet.
import { html } from './vendor-preact.js';
import { Mark, Problem, useTask } from './parts.js';

const example = 'This is an example. Open it and press “Verify in this browser”. Then correct it, or take it back: nothing is lost by trying.';

export function FirstRun({ api }) {
  const [write, writing, error] = useTask(async () => {
    const { id } = await api.ledger.memories.store({ content: example, source: 'example', tags: ['example'] }, { idempotencyKey: 'the-example' }).catch(api.guard);
    api.refresh();
    location.hash = `memory=${id}`;
  });
  return html`<div class="first"><${Mark} size="40"/><h2>Nothing here yet</h2><p class="soft">Write your first memory above, or begin with one of these.</p>
    <ul><li><h3>Try it</h3><p class="soft">One example memory, with its proof.</p><button type="button" disabled=${writing} onClick=${write}>Write an example</button></li>
      <li><h3>Bring what you have</h3><p class="soft">Files of notes, or an export from elsewhere.</p><a class="button" href="#data">Import</a></li>
      <li><h3>Connect an assistant</h3><p class="soft">Claude, ChatGPT, Cursor and others.</p><a class="button" href="#connect">Connect</a></li></ul>
    <${Problem} error=${error} redo=${write}/></div>`;
}
