// The Activity screen: the owner's events, newest first, live.
import { html } from './vendor-preact.js';
import { Empty, Loading, Problem, Time, short } from './parts.js';
import { useHistory } from './history.js';

const by = { session: 'by you', key: 'by an API key', drop: 'by a link of yours' };
const grant = { drop: 'a link to add', case: 'a link to read' };
const nameOf = (kind) => grant[kind] ?? 'a link';

// The description of an event, by its type: [kind, sentence].
const words = {
  OwnerRegistered: () => ['access', 'Your log was opened'],
  SessionIssued: (d) => ['access', d.audience === 'core' ? 'You signed in' : 'You signed in to the extension API'],
  SessionRevoked: () => ['access', 'A session ended'],
  MemoryWritten: (d, first) => ['memory', `${first === undefined ? `Leaf ${d.leafIndex} was` : `Leaves ${first} to ${d.leafIndex} were`} written ${by[d.via?.kind] ?? ''}`],
  MemoryRetracted: (d) => ['memory', `Leaf ${d.leafIndex} was retracted`],
  GrantMinted: (d) => ['link', `You made ${nameOf(d.kind)}, good for ${d.maxUses}`],
  GrantConsumed: (d) => ['link', `Use ${d.use} of ${nameOf(d.kind)}; ${d.remaining} left`],
  GrantRevoked: (d) => ['link', d.reason === 'superseded' ? `A newer one replaced ${nameOf(d.kind)}` : `You revoked ${nameOf(d.kind)}`],
  ApiKeyCreated: (d) => ['access', `API key “${d.label}” was made`],
  ApiKeyRevoked: () => ['access', 'An API key was revoked'],
  ApiKeyUsed: () => ['access', 'An API key was used'],
  BatchConfirmed: (d) => ['chain', `${d.size} leaves are on the chain, in slot ${d.slot}`],
  StakeDeposited: (d) => ['chain', `${d.amount} base units were staked`],
  StakeWithdrawn: (d) => ['chain', `${d.amount} base units were withdrawn`],
  OwnerErased: () => ['access', 'You erased everything'],
};
// grouped merges the memories of one command, a batch, into one entry. Events are newest first.
function grouped(events) {
  const entries = [];
  for (const e of events) {
    const last = entries.at(-1);
    if (e.type === 'MemoryWritten' && last?.type === e.type && last.commandid === e.commandid) last.first = e.data.leafIndex;
    else entries.push({ ...e });
  }
  return entries;
}

const hidden = ['BatchCut', 'BatchSubmitted', 'BatchFailed']; // steps before a BatchConfirmed

export function Activity({ api }) {
  const [events, error] = useHistory(api, 200);
  if (error) return html`<${Problem} error=${error}/>`;
  if (!events) return html`<${Loading} what="Reading your history"/>`;
  const shown = grouped(events.filter((e) => !hidden.includes(e.type)));
  if (shown.length === 0) return html`<${Empty} title="Nothing happened yet">What is written, handed out and let in shows here as it happens.<//>`;
  return html`<p class="soft">The newest events of your log, as they happen. All of them are in <code>GET /events</code>.</p>
    <ol class="timeline" aria-label="Activity" aria-live="polite" aria-relevant="additions">${shown.map((e) => {
      const [kind, text] = words[e.type]?.(e.data, e.first) ?? ['memory', e.type];
      return html`<li key=${e.id} class=${kind}><span class="grow">${text}</span>
        ${e.data.signature && html`<code class="soft">${short(e.data.signature)}</code>`}<${Time} at=${e.time}/></li>`;
    })}</ol>`;
}
