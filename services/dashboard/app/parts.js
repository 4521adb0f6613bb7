// Small parts that several screens show.
import { html, useEffect, useLayoutEffect, useRef, useState } from './vendor-preact.js';
import { ApiError, ConnectionError, TimeoutError, VerificationError } from './vendor-ledger.js';
import { WalletError } from './wallets.js';

/** Returns an error's message with its hashes shortened. */
export const plainly = (error) => `${error.message.replace(/[0-9a-f]{64}/g, (hash) => short(hash, 6))}.`;

/** Describes an error in words for people. */
export function inWords(error) {
  if (error instanceof VerificationError) return `The service's answer does not hold: ${plainly(error)}`;
  if (error instanceof ConnectionError || error instanceof TimeoutError) return 'Memory Ledger does not answer. Check your connection, then try again.';
  if (error instanceof WalletError || error instanceof ApiError) return error.message;
  if (error?.code === 4001 || /reject|declin|denied|cancel/i.test(error?.message ?? '')) return 'You declined it in the wallet, so nothing was done.';
  return error?.message || 'Something went wrong.';
}

/** Shows an error. again loads what is missing, also by itself once the connection is back. redo repeats what a person did. */
export function Problem({ error, again, redo = again }) {
  useEffect(() => {
    if (!error || !again) return;
    addEventListener('live', again);
    return () => removeEventListener('live', again);
  }, [error, again]);
  return error && html`<div class="notice alarm" role="alert"><p>${inWords(error)}</p>
    ${redo && html`<button type="button" onClick=${redo}>Try again</button>`}</div>`;
}

export const Loading = ({ what = 'Loading' }) => html`<p class="loading" role="status"><span class="spinner" aria-hidden="true"></span>${what}…</p>`;

export const Empty = ({ title, children }) => html`<div class="empty"><${Mark} size="40"/><h2>${title}</h2><p>${children}</p></div>`;

export const Mark = ({ size = 28 }) => html`
  <svg class="mark" viewBox="0 0 32 32" width=${size} height=${size} aria-hidden="true" focusable="false">
  <rect width="32" height="32" rx="8"/><path d="M16 9v9M9 22v-4h14v4"/>
  <circle cx="16" cy="9" r="3"/><circle cx="9" cy="23" r="3"/><circle cx="23" cy="23" r="3"/></svg>`;

export const AboutWallets = () => html`<a href="https://solana.com/docs/intro/wallets" target="_blank" rel="noopener noreferrer">About Solana wallets<span class="unseen"> (opens in a new tab)</span></a>`;

const steps = [[60, 'second'], [60, 'minute'], [24, 'hour'], [7, 'day'], [4.35, 'week'], [12, 'month'], [Infinity, 'year']];
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
const exact = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'short' });

export function ago(text, now = Date.now()) {
  let amount = (Date.parse(text) - now) / 1000;
  for (const [size, unit] of steps) {
    if (Math.abs(amount) < size) return unit === 'second' && Math.abs(amount) < 10 ? 'just now' : relative.format(Math.round(amount), unit);
    amount /= size;
  }
}

export const Time = ({ at }) => at ? html`<time dateTime=${at} title=${exact.format(new Date(at))}>${ago(at)}</time>` : html`<span>never</span>`;
export const when = (at) => exact.format(new Date(at));
const dayOnly = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeZone: 'UTC' });
/** Says when a memory happened: on a day, or at a time. Returns undefined if its metadata does not say. */
export function happened({ occurredAt } = {}) {
  if (typeof occurredAt !== 'string' || !/^\d{4}-\d\d-\d\d/.test(occurredAt) || Number.isNaN(Date.parse(occurredAt))) return undefined;
  return occurredAt.length === 10 ? dayOnly.format(new Date(occurredAt)) : when(occurredAt);
}
/** Says what a memory waits for that is not on the chain. */
export const waiting = (head) => head?.delayed ? `delayed since ${when(head.waitingSince)}; nothing is lost; the operator was told` : 'waiting to go on the chain';
export const count = (n, unit) => `${n.toLocaleString('en')} ${unit}${n === 1 ? '' : 's'}`;
export const memories = (n) => n === 1 ? '1 memory' : `${n.toLocaleString('en')} memories`;
export const short = (text, n = 4) => text.length > 2 * n + 1 ? `${text.slice(0, n)}…${text.slice(-n)}` : text;

/** Splits a text at its commas. */
export const listOf = (text) => [...new Set(text.split(',').map((part) => part.trim()).filter(Boolean))];
/** Returns the tags of a memory. A name in metadata alone may have any value. */
export const tagsOf = ({ tags } = {}) => Array.isArray(tags) && tags.every((tag) => typeof tag === 'string') ? tags : [];

/** A button that shows further fields. While they are hidden, it says how many of them have a value. */
export function Unfold({ what, open, values, onToggle }) {
  const filled = values.filter(Boolean).length;
  return html`<button type="button" class="quiet" aria-expanded=${open} onClick=${onToggle}>${open ? 'Less' : filled > 0 ? `${what} (${filled})` : what}</button>`;
}

export function Copy({ text, what = 'Copy' }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    const timer = done && setTimeout(() => setDone(false), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  return html`<button type="button" class="quiet" onClick=${() => navigator.clipboard.writeText(text).then(() => setDone(true), () => {})}>
    <span aria-live="polite">${done ? 'Copied' : what}</span></button>`;
}

/** A dialog over the page. Escape, or a click outside the dialog, closes it. A selection that ends outside is no click there. */
export function Dialog({ title, onClose, children, wide }) {
  const ref = useRef(), pressed = useRef();
  // Not useEffect: it would give the focus back a moment after the dialog is gone, and a key
  // pressed meanwhile would be lost.
  useLayoutEffect(() => {
    const dialog = ref.current, before = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      before?.focus?.();
    };
  }, []);
  return html`<dialog ref=${ref} class=${wide ? 'wide' : ''} aria-labelledby="dialog-title"
      onCancel=${(e) => { e.preventDefault(); onClose(); }} onMouseDown=${(e) => { pressed.current = e.target; }} onClick=${(e) => e.target === ref.current && pressed.current === ref.current && onClose()}>
    <div class="sheet"><header><h2 id="dialog-title">${title}</h2>
      <button type="button" class="icon" aria-label="Close" onClick=${onClose}>✕</button></header>${children}</div></dialog>`;
}

/** Runs a task and tracks its state: [run, running, error, clear]. A button that is disabled meanwhile has the focus again at its end. */
export function useTask(task) {
  const [state, setState] = useState({}), from = useRef();
  useLayoutEffect(() => {
    if (state.running) return;
    if (document.activeElement === document.body) from.current?.focus({ preventScroll: true });
    from.current = null;
  }, [state]);
  const run = async (...args) => {
    from.current = document.activeElement;
    setState({ running: true });
    try {
      await task(...args);
      setState({});
    } catch (error) {
      setState({ error });
    }
  };
  return [run, Boolean(state.running), state.error, () => setState({})];
}

/** Loads a value, and loads it again whenever one of the inputs changes: [value, error, again]. */
export function useLoad(load, inputs) {
  const [state, setState] = useState({}), [round, setRound] = useState(0);
  useEffect(() => {
    let current = true;
    load().then((value) => current && setState({ value }), (error) => current && setState((s) => ({ ...s, error })));
    return () => { current = false; };
  }, [...inputs, round]);
  return [state.value, state.error, () => setRound((n) => n + 1)];
}

/** Loads a list, and loads it again after an event of one of the types, and when the feed begins: [list, error, again]. */
export function useFresh(api, load, types) {
  const [list, error, again] = useLoad(() => load().catch(api.guard), []);
  useEffect(() => api.hear((events) => (events.length === 0 || events.some((e) => types.includes(e.type))) && again()), []);
  return [list, error, again];
}
