// The form that writes a memory, and the form that corrects one.
import { html, useLayoutEffect, useRef, useState } from './vendor-preact.js';
import { Problem, Unfold, listOf, tagsOf, useTask } from './parts.js';

/** Stores memories: [store, storing, error, change]. Call change when the memory to store is another one. */
function useStore(api) {
  const attempt = useRef();
  const [store, storing, error] = useTask(async (memory, done) => {
    // Use the same key for the next try: the memory may be stored although the answer was lost.
    attempt.current ??= crypto.randomUUID();
    const written = await api.ledger.memories.store(memory, { idempotencyKey: attempt.current }).catch(api.guard);
    attempt.current = undefined;
    api.refresh();
    done(written);
  });
  return [store, storing, error, () => { attempt.current = undefined; }];
}

const nothingMore = { day: '', tags: '', namespace: '' };

export function Write({ api }) {
  const [text, setText] = useState(''), [source, setSource] = useState(''), [more, setMore] = useState(nothingMore);
  const [open, setOpen] = useState(false), [saved, setSaved] = useState(false);
  const [store, storing, error, anew] = useStore(api);
  const change = (set) => (e) => {
    anew();
    setSaved(false);
    set(e.target.value);
  };
  const field = (name) => ({ value: more[name], onInput: change((value) => setMore((now) => ({ ...now, [name]: value }))) });
  const save = () => {
    const tags = listOf(more.tags);
    const memory = { content: text, source: source.trim() || undefined, occurredAt: more.day || undefined, tags: tags.length > 0 ? tags : undefined, namespace: more.namespace.trim() || undefined };
    return store(memory, () => { setText(''); setMore(nothingMore); setSaved(true); });
  };
  const keys = (e) => e.key === 'Enter' && (e.ctrlKey || e.metaKey) && text && !storing && save();
  return html`<form class="write" aria-label="Write a memory" onSubmit=${(e) => { e.preventDefault(); save(); }}>
    <textarea dir="auto" aria-label="New memory" placeholder="Write something to remember…" rows="2" value=${text} onInput=${change(setText)} onKeyDown=${keys}></textarea>
    <div class="row"><input dir="auto" aria-label="Source (optional)" placeholder="Source" maxLength="80" value=${source} onInput=${change(setSource)}/>
    <${Unfold} what="More" open=${open} values=${Object.values(more)} onToggle=${() => setOpen(!open)}/>
    <span class="grow" role="status">${saved && 'Stored.'}</span>
    <button class="primary" disabled=${!text || storing}>${storing ? 'Storing…' : 'Remember'}</button></div>
    ${open && html`<div class="fields"><label>When it happened<input type="date" ...${field('day')}/></label>
      <label>Tags<input dir="auto" placeholder="family, garden" ...${field('tags')}/></label>
      <label>Namespace<input dir="auto" placeholder="home" maxLength="80" ...${field('namespace')}/></label></div>`}
    <${Problem} error=${error} again=${save}/></form>`;
}

/** Stores a new text in place of a memory. The draft is kept elsewhere, so that it survives a look at the memory. */
export function Correct({ api, memory, draft, onDraft, onBack, onDone }) {
  const box = useRef();
  const [store, storing, error, anew] = useStore(api);
  useLayoutEffect(() => box.current.focus(), []);
  const { namespace } = memory.metadata, tags = tagsOf(memory.metadata);
  const save = () => store({ content: draft, tags: tags.length > 0 ? tags : undefined, namespace: typeof namespace === 'string' ? namespace : undefined, supersedes: [memory.id] }, onDone);
  return html`<form class="stack" onSubmit=${(e) => { e.preventDefault(); save(); }}>
    <label>What is right<textarea ref=${box} dir="auto" rows="6" value=${draft} onInput=${(e) => { anew(); onDraft(e.target.value); }}></textarea></label>
    <p class="soft">Best match, agents and links to read then find only the new text. The old text stays in your log, marked as corrected. Tags and namespace are kept.</p>
    <${Problem} error=${error}/>
    <footer class="row"><span class="grow"></span><button type="button" class="quiet" onClick=${onBack}>Back</button>
      <button class="primary" disabled=${storing || !draft || draft === memory.content}>${storing ? 'Storing…' : 'Correct it'}</button></footer></form>`;
}
