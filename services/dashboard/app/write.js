// The form that writes a memory, and the form that corrects one.
import { html, useLayoutEffect, useRef, useState } from './vendor-preact.js';
import { Problem, Unfold, listOf, tagsOf, useTask } from './parts.js';
import { draftOf, keepDraft } from './session.js';

/** Stores memories: [store, storing, error, change]. Call change when the memory to store is another one. name is its draft's. */
function useStore(api, name) {
  const keepKey = (key) => keepDraft(api.session.publicKey, `key:${name}`, key);
  const [store, storing, error] = useTask(async (memory, done) => {
    // Use the same key for the next try, also after a reload: the memory may be stored although the answer was lost.
    const idempotencyKey = draftOf(api.session.publicKey, `key:${name}`) ?? crypto.randomUUID();
    keepKey(idempotencyKey);
    const written = await api.ledger.memories.store(memory, { idempotencyKey }).catch(api.guard);
    keepKey();
    api.refresh();
    done(written);
  });
  return [store, storing, error, () => keepKey()];
}

/** Holds a draft that outlives the session. */
export function useDraft(owner, name) {
  const [draft, setDraft] = useState(() => draftOf(owner, name) ?? undefined);
  return [draft, (next) => { setDraft(next); keepDraft(owner, name, next); }];
}

const nothing = { text: '', source: '', day: '', tags: '', namespace: '' };

export function Write({ api }) {
  const [kept, keep] = useDraft(api.session.publicKey, 'new'), draft = kept ?? nothing;
  const [open, setOpen] = useState(false), [saved, setSaved] = useState(false);
  const [store, storing, error, anew] = useStore(api, 'new'), newest = useRef();
  newest.current = kept;
  const { text, ...more } = draft;
  const change = (next) => { anew(); setSaved(false); keep(Object.values(next).some(Boolean) ? next : undefined); };
  const field = (name) => ({ value: draft[name], onInput: (e) => change({ ...draft, [name]: e.target.value }) });
  const save = () => {
    const tags = listOf(draft.tags);
    const memory = { content: text, source: draft.source.trim() || undefined, occurredAt: draft.day || undefined, tags: tags.length > 0 ? tags : undefined, namespace: draft.namespace.trim() || undefined };
    return store(memory, () => {
      if (newest.current === kept) keep(undefined); // otherwise the next memory was begun meanwhile
      setSaved(true);
    });
  };
  const keys = (e) => {
    if (e.key === 'Enter' && (e.ctrlKey || e.metaKey) && text && !storing) save();
    else if (e.key === 'Escape') e.target.blur();
  };
  return html`<form class="write" aria-label="Write a memory" onSubmit=${(e) => { e.preventDefault(); save(); }}>
    <textarea dir="auto" aria-label="New memory" placeholder="Write something to remember…" rows="1" ...${field('text')} onKeyDown=${keys}></textarea>
    ${open && html`<div class="fields"><label>When it happened<input type="date" ...${field('day')}/></label>
      <label>Tags<input dir="auto" placeholder="tea, cats" ...${field('tags')}/></label>
      <label>Source<input dir="auto" placeholder="diary" maxLength="80" ...${field('source')}/></label>
      <label>Namespace<input dir="auto" placeholder="home" maxLength="80" ...${field('namespace')}/></label></div>`}
    <div class="row"><${Unfold} what="More" open=${open} values=${Object.values(more)} onToggle=${() => setOpen(!open)}/>
      <span class="grow soft" role="status">${saved && 'Stored.'}</span>
      <button class="primary" disabled=${!text || storing}>${storing ? 'Storing…' : 'Remember'}</button></div>
    <${Problem} error=${error} redo=${save}/></form>`;
}

/** Stores a new text in place of a memory. The draft is kept elsewhere, so that it survives a look at the memory. */
export function Correct({ api, memory, draft, onDraft, onBack, onDone }) {
  const box = useRef();
  const [store, storing, error, anew] = useStore(api, memory.id);
  useLayoutEffect(() => box.current.focus(), []);
  const { namespace } = memory.metadata, tags = tagsOf(memory.metadata);
  const save = () => store({ content: draft, tags: tags.length > 0 ? tags : undefined, namespace: typeof namespace === 'string' ? namespace : undefined, supersedes: [memory.id] }, (written) => { onDraft(undefined); onDone(written); });
  return html`<form class="stack" onSubmit=${(e) => { e.preventDefault(); save(); }}>
    <label>What is right<textarea ref=${box} dir="auto" rows="6" readOnly=${storing} value=${draft} onInput=${(e) => { anew(); onDraft(e.target.value); }}></textarea></label>
    <p class="soft">Search by meaning, agents and links to read then find only the new text. The old text stays in your log, marked as corrected. Tags and namespace are kept.</p>
    <${Problem} error=${error}/>
    <footer class="row"><span class="grow"></span><button type="button" class="quiet" onClick=${onBack}>Back</button>
      <button class="primary" disabled=${storing || !draft || draft === memory.content}>${storing ? 'Storing…' : 'Correct it'}</button></footer></form>`;
}
