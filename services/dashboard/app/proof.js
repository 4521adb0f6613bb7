// Checks a memory's receipt in this browser, step by step, and draws the path.
import { html, useState } from './vendor-preact.js';
import { AnchorError, ChainUnreachableError, ConsistencyError, StaleProofError, VerificationError, canonicalize, checkOnchain, entryHash, nodeHash, parseReceipt, verifyCorrection, verifyReceipt } from './vendor-ledger.js';
import { site } from './session.js';
import { saveJSON } from './files.js';
import { Problem, plainly, short, useLoad, useTask, waiting, when } from './parts.js';

// check runs a check and returns its result. Only a false statement fails the check. Any
// other error, such as an unreachable service or node, is thrown.
async function check(title, good, run) {
  try {
    await run();
    return { title, text: good, state: 'passed' };
  } catch (error) {
    if (!(error instanceof VerificationError)) throw error;
    return { title, text: plainly(error), state: 'failed' };
  }
}

/**
 * Fetches the receipt of a memory and checks the memory as it is shown: the text hashes to
 * the leaf, the leaf leads to the log's root, and the root is in the account on the chain.
 * All steps use the same receipt. `anchored` says whether the leaf was in the anchored part of
 * an earlier head. Returns { steps, summary, receipt, nodes, hashes }.
 */
export async function verify(ledger, memory, anchored) {
  const { body: r } = await ledger.core('GET', `/memories/${memory.id}/receipt`);
  const text = (m) => canonicalize({ content: m.content, metadata: m.metadata }, 0);
  const steps = [await check('Text to leaf', 'The text that you see, hashed here, gives this leaf.', async () => {
    parseReceipt(r);
    if (r.entry.owner !== ledger.owner) throw new VerificationError('owner', `the receipt is of the log of ${r.entry.owner}`);
    if (text(r.entry) !== text(memory)) throw new VerificationError('entry', 'the receipt is of another text');
    if (r.leafIndex !== memory.leafIndex) throw new VerificationError('leafIndex', `it is ${r.leafIndex}, the memory is leaf ${memory.leafIndex}`);
    const leaf = await entryHash(r.entry);
    if (leaf !== r.leafHash || leaf !== memory.leafHash) throw new VerificationError('leafHash', `the text hashes to ${short(leaf, 6)}, the service says ${short(r.leafHash, 6)} and ${short(memory.leafHash, 6)}`);
  })];
  if (steps[0].state === 'failed') return draw(r, steps);

  let head, outer; // outer is an error in the step from the root to the chain
  steps.push(await check('Leaf to root', `${r.siblings.length === 1 ? '1 step leads' : `${r.siblings.length} steps lead`} to the root of a log of ${r.treeSize.toLocaleString('en')}, of which the log of today is a continuation.`, async () => {
    try {
      await verifyReceipt(r);
    } catch (error) {
      if (!(error instanceof AnchorError || error instanceof ConsistencyError)) throw error;
      outer = error;
    }
    head = await ledger.log.head();
    const now = { size: head.treeSize, root: head.root };
    await ledger.log.growth({ size: r.treeSize, root: r.batchRoot }, now, {});
    if (!r.anchor && anchored) outer = new StaleProofError('anchor', 'it is null, but the memory is on the chain');
    if (!r.anchor || outer) return;
    try { // the receipt's tree may be a prefix of a committed log that is not this one
      await ledger.log.growth({ size: r.anchor.committedSize, root: r.anchor.committedRoot }, now, {});
    } catch (error) {
      if (!(error instanceof VerificationError)) throw error;
      outer = new AnchorError('anchor.committedRoot', 'the log of today is no continuation of the committed one');
    }
  }));
  if (steps[1].state === 'passed') steps.push(await root(r, outer, head));
  return draw(r, steps);
}

async function root(r, outer, head) {
  const title = 'Root to chain';
  if (outer) return { title, text: plainly(outer), state: 'failed' };
  if (!r.anchor) return { title, text: head.delayed ? `Not yet: it is ${waiting(head)}.` : 'Not yet: it goes on the chain with the next batch.', state: 'waiting' };
  if (!site.rpcUrl) return { title, text: `The receipt names account ${short(r.anchor.account)}. This service names no Solana node, so the account was not looked at.`, state: 'waiting' };
  try {
    return await check(title, `Account ${short(r.anchor.account)} on Solana holds it, since slot ${r.anchor.slot.toLocaleString('en')}.`, () => checkOnchain(site.rpcUrl, r));
  } catch (error) {
    if (!(error instanceof ChainUnreachableError)) throw error;
    return { title, text: `The Solana node gave no answer (${error.message}). This says nothing about the memory.`, state: 'waiting' };
  }
}

const summaries = { 1: 'The text is the one in your log.', 2: 'The text is in your log, and the log has only grown.', 3: 'The text is in your log, and the log is committed on Solana.' };

// draw computes the nodes of the path, from the leaf up.
async function draw(r, steps) {
  if (![r.siblings, r.directions].every(Array.isArray)) return { steps, hashes: [] }; // not in the form of a receipt
  const nodes = [r.leafHash];
  for (const [i, sibling] of (r.siblings ?? []).entries()) {
    const below = nodes.at(-1);
    nodes.push(r.directions[i] ? await nodeHash(below, sibling) : await nodeHash(sibling, below));
  }
  const hashes = [['Leaf', r.leafHash], ...r.siblings.map((hash, i) => [`Sibling ${i + 1}, ${r.directions[i] ? 'right' : 'left'}`, hash]), ['Root', r.batchRoot],
    ...(r.anchor ? [['Account', r.anchor.account], ['Transaction', r.anchor.txSignature]] : [])];
  return { steps, summary: summaries[steps.filter((s) => s.state === 'passed').length], receipt: r, nodes, hashes };
}

const level = 46, width = 440, middle = width / 2;

/** The path, from the text at the bottom to the account at the top. */
export function Path({ result: { receipt: r, nodes, steps } }) {
  if (!r) return null;
  const state = (i) => steps[i]?.state ?? 'unknown';
  const top = r.anchor || state(2) !== 'unknown' ? 96 : 24, height = top + r.siblings.length * level + 124;
  const y = (i) => top + 30 + (r.siblings.length - i) * level; // the height of the node at a level
  const away = (i) => i > 0 && r.directions[i - 1]; // whether the label moves to the left, away from a line on the right
  const card = (at, title, text, kind) => html`<g class=${`card ${kind}`}><rect x=${middle - 130} y=${at} width="260" height="50" rx="10"/>
    <text x=${middle} y=${at + 20} class="name">${title}</text><text x=${middle} y=${at + 38} class="hash">${text}</text></g>`;
  const label = `Picture of the path: the text gives leaf ${r.leafIndex}, ${r.siblings.length} siblings lead to the root${r.anchor ? ', and the root to the account on Solana' : ''}.`;
  return html`<figure class="path"><svg viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${label}>
    ${top > 24 && html`<path class=${`link ${state(2)}`} d=${`M${middle} ${y(nodes.length - 1)}V60`}/>
      ${card(10, r.anchor ? 'Account on Solana' : 'Solana', r.anchor ? `${short(r.anchor.account, 6)} · slot ${r.anchor.slot}` : 'not there yet', state(2))}`}
    <path class=${`link ${state(0)}`} d=${`M${middle} ${y(0)}v36`}/>
    ${r.siblings.map((hash, i) => {
      const right = r.directions[i], x = right ? middle + 120 : middle - 120, at = y(i);
      return html`<g key=${i}><path class=${`link ${state(1)}`} d=${`M${middle} ${at}V${at - level}`}/>
        <path class="link side" d=${`M${x} ${at - 7}C${x} ${at - level + 8} ${middle + (right ? 50 : -50)} ${at - level} ${middle + (right ? 9 : -9)} ${at - level}`}/>
        <rect class="sibling" x=${x - 7} y=${at - 7} width="14" height="14" rx="4"/>
        <text class=${right ? 'after' : 'before'} x=${x + (right ? 14 : -14)} y=${at + 4}>${short(hash, 4)}</text></g>`;
    })}
    ${nodes.map((hash, i) => html`<g key=${hash}><circle class=${`node ${i === 0 ? state(0) : state(1)}`} cx=${middle} cy=${y(i)} r=${i === nodes.length - 1 ? 9 : 7}/>
      <text class=${away(i) ? 'before' : 'after'} x=${middle + (away(i) ? -16 : 16)} y=${y(i) + 4}>${i === nodes.length - 1 ? `root ${short(hash, 4)}` : i === 0 ? `leaf ${r.leafIndex}` : short(hash, 4)}</text></g>`)}
    ${card(y(0) + 36, 'The text that you see', `hashed to ${short(nodes[0], 6)}`, state(0))}
  </svg><figcaption>Each dot is the hash of the two below it. Squares are hashes that the service gave; dots were computed here.</figcaption></figure>`;
}

// The genesis hashes of public chains, and the explorer's parameters for them.
const explorers = { '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d': '', EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG: '?cluster=devnet', '4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY': '?cluster=testnet' };

/** Returns the address of a transaction in a public chain's explorer, undefined for a private chain. */
export const explorerOf = (cluster, signature) => cluster in explorers ? `https://explorer.solana.com/tx/${encodeURIComponent(signature)}${explorers[cluster]}` : undefined;

function Explorer({ anchor }) {
  const address = anchor && explorerOf(anchor.cluster, anchor.txSignature);
  return address && html`<p><a href=${address} target="_blank" rel="noopener noreferrer">The transaction in Solana's explorer<span class="unseen"> (opens in a new tab)</span></a></p>`;
}

export function Proof({ api, memory, anchored }) {
  const [result, setResult] = useState();
  const [check, checking, error] = useTask(async () => {
    setResult(undefined);
    setResult(await verify(api.ledger, memory, anchored).catch(api.guard));
  });
  const [save, saving, unsaved] = useTask(async () => saveJSON(`receipt-${memory.leafIndex}.json`, (await api.ledger.core('GET', `/memories/${memory.id}/receipt`).catch(api.guard)).body));
  const failed = result?.steps.find((s) => s.state === 'failed');
  return html`<section class="proof" aria-labelledby="proof-title"><div class="row"><h3 id="proof-title" class="grow">Proof</h3>
      <button type="button" class="quiet" disabled=${saving} onClick=${save}>Download receipt</button>
      <button type="button" class="primary" disabled=${checking} onClick=${check}>${checking ? 'Checking…' : result ? 'Check again' : 'Verify in this browser'}</button></div>
    ${!result && html`<p class="soft">Your browser hashes the text itself, walks the path to the log's root, and compares that with the account on Solana.</p>`}
    <${Problem} error=${error ?? unsaved}/>
    ${result && html`<p class=${`verdict ${failed ? 'bad' : 'good'}`} role=${failed ? 'alert' : 'status'}>${failed ? 'This does not hold. The service gave a false answer.' : result.summary}</p>
      <ol class="steps">${result.steps.map((s) => html`<li key=${s.title} class=${s.state}><strong>${s.title}</strong> <span>${s.text}</span></li>`)}</ol>
      <${Path} result=${result}/>
      <${Explorer} anchor=${result.receipt?.anchor}/>
      <details><summary>All hashes</summary><dl class="hashes">${result.hashes.map(([name, hash], i) => html`<div key=${i}><dt>${name}</dt><dd><code title=${hash}>${hash}</code></dd></div>`)}</dl></details>`}
    </section>`;
}

/** What a memory said before it was corrected, and the proof that the one corrects the other. */
export function Correction({ api, memory }) {
  const read = (id, what) => api.ledger.core('GET', `/memories/${id}${what}`).then(({ body }) => body);
  const [before] = useLoad(() => Promise.allSettled(memory.supersedes.map((id) => read(id, ''))), [memory.id]);
  const known = (before ?? []).flatMap(({ value }) => value ?? []), [proven, setProven] = useState(false);
  const [prove, proving, error] = useTask(async () => {
    const newer = await read(memory.id, '/receipt').catch(api.guard);
    for (const { id } of known) await verifyCorrection(newer, await read(id, '/receipt'));
    setProven(true);
  });
  if (known.length === 0) return null;
  return html`<section class="proof" aria-labelledby="before-title"><h3 id="before-title">What it said before</h3>
    ${known.map((m) => html`<blockquote key=${m.id} class="content" dir="auto" tabIndex="0" aria-label="Text before">${m.content}<footer class="soft">written ${when(m.createdAt)}</footer></blockquote>`)}
    <p class="soft">Nothing was overwritten: both texts are in your log, each with a proof of its own. The newer one names the hash of the older one, so anyone can check which text replaced which.</p>
    <div class="row"><span class="grow" role="status">${proven && html`<strong>Proven.</strong> The newer receipt names the older one, and both hold.`}</span>
      <button type="button" disabled=${proving} onClick=${prove}>${proving ? 'Checking…' : 'Prove the correction'}</button></div>
    <${Problem} error=${error}/></section>`;
}
