// The log as a whole: its size, how much of it is on the chain, and how it grew.
import { html, useEffect } from './vendor-preact.js';
import { Copy, Empty, Loading, Problem, Time, memories, short, useLoad, waiting, when } from './parts.js';
import { useHistory } from './history.js';

const newestAnchors = 8;

export function Log({ api }) {
  const { head } = api, { entries: anchors, error, again } = useHistory(api, newestAnchors, (events) => events.filter((e) => e.type === 'BatchConfirmed'));
  useEffect(() => { api.refresh(); }, []); // what waits becomes late without an event
  if (!head) return html`<${Loading} what="Opening your log"/>`;
  const share = head.treeSize === 0 ? 0 : head.anchoredSize / head.treeSize;
  return html`<section class="figures" aria-label="Figures">
      <div class="card"><p class="number">${head.treeSize.toLocaleString('en')}</p><p class="soft">${head.treeSize === 1 ? 'memory' : 'memories'} written</p></div>
      <div class="card"><p class="number">${head.anchoredSize.toLocaleString('en')}</p><p class="soft">of them on the chain</p>
        <progress max="1" value=${share} aria-label="Share on the chain">${Math.round(share * 100)}%</progress></div>
      <div class="card"><p class="number">${(head.treeSize - head.anchoredSize).toLocaleString('en')}</p><p class="soft">${waiting(head)}</p></div></section>
    <section class="card"><div class="row"><h2 class="grow">Growth</h2><p class="key soft"><i class="committed"></i>on the chain <i></i>waiting</p></div><${Growth} api=${api} size=${head.treeSize} anchored=${head.anchoredSize}/></section>
    <section class="card"><h2>Newest on the chain</h2><${Problem} error=${error} again=${again}/>
      ${!anchors ? !error && html`<${Loading}/>` : anchors.length === 0 ? html`<p class="soft">None yet. ${head.delayed ? `The first one is ${waiting(head)}.` : "What you write is put on Solana soon."}</p>`
        : html`<ul class="list">${anchors.slice(0, newestAnchors).map(({ id, time, data }) => html`<li key=${id}><div class="grow"><strong>${memories(data.size)}</strong>
          <details><summary>Details</summary><p class="soft">root ${short(data.root, 6)} · slot ${data.slot.toLocaleString('en')} · transaction ${short(data.signature, 6)} <${Copy} text=${data.signature} what="Copy transaction"/></p></details></div>
          <${Time} at=${time}/></li>`)}</ul>`}</section>
    <details class="card"><summary>Root of the log</summary><p class="soft">One hash that stands for every memory in your log, in order, and for those that were taken back. This browser remembers it and refuses a log that does not continue it.</p>
      <div class="row"><code class="grow break">${head.root}</code><${Copy} text=${head.root}/></div></details>`;
}

const samples = 16, width = 640, height = 180;

/** Shows how the log grew, from the times of some evenly spaced memories. */
function Growth({ api, size, anchored }) {
  const round = Math.ceil(size / Math.max(1, Math.floor(size / 50))); // do not load again for every new leaf
  const [points, error, again] = useLoad(async () => {
    const leaves = [...new Set(Array.from({ length: Math.min(samples, size) }, (_, i) => Math.round(i * (size - 1) / Math.max(1, Math.min(samples, size) - 1))))];
    const pages = await Promise.all(leaves.map((leaf) => api.ledger.core('GET', `/memories?limit=1&cursor=${leaf}`).catch(api.guard)));
    return pages.flatMap(({ body }) => body.map((m) => ({ at: Date.parse(m.createdAt), size: m.leafIndex + 1 })));
  }, [round]);
  if (size === 0) return html`<${Empty} title="An empty log">It grows with your first memory.<//>`;
  if (error) return html`<${Problem} error=${error} again=${again}/>`;
  if (!points) return html`<${Loading}/>`;
  const now = Date.now(), first = points[0]?.at ?? now, span = Math.max(1, now - first);
  const all = [...points, { at: now, size }];
  const x = (at) => (at - first) / span * width, y = (n) => height - n / size * (height - 10);
  const line = all.map((p, i) => i === 0 ? `M0 ${y(p.size)}` : `L${x(p.at).toFixed(1)} ${y(p.size).toFixed(1)}`).join('');
  return html`<figure class="growth"><svg viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label=${`The log grew from ${when(first)} to ${memories(size)} now; ${anchored} are on the chain.`}>
    <defs><clipPath id="committed"><rect x="0" y=${y(anchored)} width=${width} height=${height}/></clipPath></defs>
    <path class="area" d=${`${line}V${height}H0Z`}/><path class="area committed" clip-path="url(#committed)" d=${`${line}V${height}H0Z`}/><path class="line" d=${line}/></svg>
    <figcaption class="row"><span class="grow">${when(first)}</span><span>now</span></figcaption></figure>`;
}
