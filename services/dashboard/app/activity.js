// The Activity screen: the owner's events, newest first, live.
import { html } from './vendor-preact.js';
import { Empty, Loading, Problem, Time, short } from './parts.js';
import { useHistory } from './history.js';

const by = { session: 'in a session of yours', key: 'by an API key', drop: 'by a link of yours' };
const grant = { drop: 'a link to add', case: 'a link to read' };
const nameOf = (kind) => grant[kind] ?? 'a link';

// The description of an event, by its type: [kind, sentence].
const words = {
  OwnerRegistered: () => ['access', 'Your log was opened'],
  SessionIssued: (d) => ['access', d.audience === 'core' ? 'You signed in' : 'You signed in to the extension API'],
  SessionRevoked: () => ['access', 'A session ended'],
  MemoryWritten: (d, first) => ['memory', `${first === undefined ? `Leaf ${d.leafIndex} was` : `Leaves ${first} to ${d.leafIndex} were`} ${d.imported ? 'imported' : 'written'} ${by[d.via?.kind] ?? ''}`],
  MemoryRetracted: (d) => ['memory', `Leaf ${d.leafIndex} was retracted`],
  MemoryForgotten: (d) => ['memory', `The text of leaf ${d.leafIndex} was made unreadable for good`],
  ImportStarted: (d) => ['memory', `An import of ${d.size} leaves began`],
  ImportFinished: (d) => ['memory', d.reason === 'complete' ? `An import is complete: ${d.leaves} leaves` : `You gave up an import at leaf ${d.leaves}`],
  GrantMinted: (d) => ['link', `You made ${nameOf(d.kind)}, good for ${d.maxUses}`],
  GrantConsumed: (d) => ['link', `Use ${d.use} of ${nameOf(d.kind)}; ${d.remaining} left`],
  GrantRevoked: (d) => ['link', d.reason === 'superseded' ? `A newer one replaced ${nameOf(d.kind)}` : `You revoked ${nameOf(d.kind)}`],
  ApiKeyCreated: (d) => ['access', d.app ? `You connected the app “${d.label}” at ${d.app.redirectHost}` : `API key “${d.label}” was made`],
  ApiKeyRevoked: () => ['access', 'An API key was revoked'],
  ApiKeyUsed: () => ['access', 'An API key was used'],
  BatchConfirmed: (d) => ['chain', `${d.size} leaves are on the chain, in slot ${d.slot}`],
  StakeDeposited: (d) => ['chain', `${d.amount} base units were staked`],
  StakeWithdrawn: (d) => ['chain', `${d.amount} base units were withdrawn`],
  OwnerErased: () => ['access', 'You erased everything'],
};
const hidden = ['BatchCut', 'BatchSubmitted', 'BatchFailed']; // steps before a BatchConfirmed

// rowsOf merges the memories of one command, a batch, into one row. Events are oldest first.
function rowsOf(events) {
  const rows = [];
  for (const e of events.filter(({ type }) => !hidden.includes(type))) {
    const last = rows.at(-1);
    if (e.type === 'MemoryWritten' && last?.type === e.type && last.commandid === e.commandid) {
      last.first ??= last.data.leafIndex;
      last.data = e.data;
    } else rows.push({ ...e });
  }
  return rows;
}

export function Activity({ api }) {
  const { entries: shown, error, older, reading } = useHistory(api, 40, rowsOf);
  if (error && !shown) return html`<${Problem} error=${error}/>`;
  if (!shown) return html`<${Loading} what="Reading your history"/>`;
  if (shown.length === 0) return html`<${Empty} title="Nothing happened yet">What is written, handed out and let in shows here as it happens.<//>`;
  return html`<p class="soft">What happened in your log, newest first, as it happens.</p>
    <ol class="timeline" aria-label="Activity" aria-live="polite" aria-relevant="additions">${shown.map((e) => {
      const [kind, text] = words[e.type]?.(e.data, e.first) ?? ['memory', e.type];
      return html`<li key=${e.id} class=${kind}><span class="grow">${text}</span>
        ${e.data.signature && html`<code class="soft">${short(e.data.signature)}</code>`}<${Time} at=${e.time}/></li>`;
    })}</ol>
    <${Problem} error=${error} again=${older}/>
    ${reading ? html`<${Loading} what="Reading older events"/>` : older && !error && html`<button type="button" onClick=${older}>Older</button>`}`;
}
