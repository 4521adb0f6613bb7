// The Activity screen: the owner's events, newest first, live.
import { html } from './vendor-preact.js';
import { Empty, Loading, Problem, Time, count, memories, when } from './parts.js';
import { useHistory } from './history.js';
import { keyName, madeAt, useApiKeys } from './names.js';
import { explorerOf } from './proof.js';

const linkTo = { drop: 'to add', case: 'to read' };
const grantOf = ({ kind, namespace }) => `a link ${linkTo[kind]}${namespace ? ` in the namespace “${namespace}”` : ''}`;
const oldGrant = ({ kind, grantId }) => `the link ${linkTo[kind]} of ${when(madeAt(grantId))}`;
const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** Says by which session, key or link something was done. */
const by = (via, keys) => !via ? '' : via.kind === 'session' ? ' in a session of yours' : via.kind === 'key' ? ` by ${keyName(keys, via.id)}` : ` by the holder of ${oldGrant({ kind: 'drop', grantId: via.id })}`;

// The description of an event, by its type: [kind, sentence]. For a memory that was written alone, "A memory" opens it.
const words = {
  OwnerRegistered: () => ['access', 'Your log was opened'],
  SessionIssued: (d) => ['access', d.audience === 'core' ? 'You signed in' : 'You signed in to make links, or in the browser extension'],
  SessionRevoked: () => ['access', 'A session ended'],
  MemoryWritten: (d, keys, n) => ['memory', `${n === 1 ? 'A memory' : memories(n)} ${n === 1 ? 'was' : 'were'} ${d.imported ? 'imported' : d.supersedes ? 'written, in place of an earlier one' : 'written'}${by(d.via, keys)}`],
  MemoryRetracted: () => ['memory', 'A memory was retracted'],
  MemoryForgotten: () => ['memory', 'The text of a memory was made unreadable for good'],
  ImportStarted: (d) => ['memory', `An import of ${memories(d.size)} began`],
  ImportFinished: (d) => ['memory', d.reason === 'complete' ? `An import is complete: ${memories(d.leaves)}` : `You gave up an import after ${memories(d.leaves)}`],
  GrantMinted: (d, keys) => ['link', `${capital(grantOf(d))} was made${by(d.by, keys)}, good for ${count(d.maxUses, 'use')}`],
  GrantConsumed: (d) => ['link', `Someone used ${oldGrant(d)}; ${count(d.remaining, 'use')} left`],
  GrantRevoked: (d) => ['link', d.reason === 'superseded' ? `A newer link replaced ${oldGrant(d)}` : `You ended ${oldGrant(d)}`],
  ApiKeyCreated: (d) => ['access', d.app ? `You connected the app “${d.label}” at ${d.app.redirectHost}` : `API key “${d.label}” was made`],
  ApiKeyRevoked: (d, keys) => ['access', `${capital(keyName(keys, d.keyId))} was revoked`],
  ApiKeyUsed: (d, keys) => ['access', `${capital(keyName(keys, d.keyId))} was used`],
  BatchConfirmed: (d) => ['chain', `Your log's first ${memories(d.size)} ${d.size === 1 ? 'is' : 'are'} on the chain`],
  StakeDeposited: (d) => ['chain', `${d.amount} base units were staked`],
  StakeWithdrawn: (d) => ['chain', `${d.amount} base units were withdrawn`],
  OwnerErased: (d) => ['access', `You erased everything: ${memories(d.leaves)}`],
};
const hidden = ['BatchCut', 'BatchSubmitted', 'BatchFailed']; // steps before a BatchConfirmed

// rowsOf merges the memories of one command, a batch, into one row. Events are oldest first.
function rowsOf(events) {
  const rows = [];
  for (const e of events.filter(({ type }) => !hidden.includes(type))) {
    const last = rows.at(-1);
    if (e.type === 'MemoryWritten' && last?.type === e.type && last.commandid === e.commandid) {
      last.count++;
      last.data = e.data;
    } else rows.push({ ...e, count: 1 });
  }
  return rows;
}

export function Activity({ api }) {
  const { entries: shown, error, again, older, reading } = useHistory(api, 40, rowsOf), [keys] = useApiKeys(api);
  if (error && !shown) return html`<${Problem} error=${error} again=${again}/>`;
  if (!shown) return html`<${Loading} what="Reading your history"/>`;
  if (shown.length === 0) return html`<${Empty} title="Nothing happened yet">What is written, handed out and let in shows here as it happens.<//>`;
  return html`<p class="soft">What happened in your log, newest first, as it happens.</p>
    <ol class="timeline" aria-label="Activity" aria-live="polite" aria-relevant="additions">${shown.map((e) => {
      const [kind, text] = words[e.type]?.(e.data, keys, e.count) ?? ['memory', e.type];
      const alone = e.type === 'MemoryWritten' && e.count === 1, explorer = e.data.signature && explorerOf(e.data.cluster, e.data.signature);
      return html`<li key=${e.id} class=${kind}><p class="grow">${alone ? html`<a href=${`#memory=${e.data.memoryId}`}>A memory</a>${text.slice(8)}` : text}
        ${explorer && html`<a href=${explorer} target="_blank" rel="noopener noreferrer">transaction<span class="unseen"> (opens in a new tab)</span></a>`}</p><${Time} at=${e.time}/></li>`;
    })}</ol>
    <${Problem} error=${error} again=${older}/>
    ${reading ? html`<${Loading} what="Reading older events"/>` : older && !error && html`<button type="button" onClick=${older}>Older</button>`}`;
}
