// The choice of a wallet: for sign-in, and for each action where the owner must prove
// again that the wallet is theirs.
import { html, useEffect, useState } from './vendor-preact.js';
import { AboutWallets, Dialog, Mark, Problem, useTask } from './parts.js';
import { findWallets } from './wallets.js';
import { signInTo, site } from './session.js';

const grace = 1500; // ms to wait for wallets to appear

/**
 * Lists the wallets. Connects the chosen wallet and passes its account to use, which may
 * fail. able reports whether a wallet can do the task.
 */
export function WalletChoice({ owner, use, verb = 'Continue with', able = () => true }) {
  const [found, setFound] = useState([]), [missing, setMissing] = useState(false), [chosen, setChosen] = useState(), [stop, setStop] = useState();
  const wallets = found.filter(able);
  useEffect(() => {
    const timer = setTimeout(() => setMissing(true), grace), stop = findWallets(setFound);
    return () => { clearTimeout(timer); stop(); };
  }, []);
  const [start, running, error] = useTask(async (wallet) => {
    setChosen(wallet);
    // A wallet may never answer. An answer after the person stopped waiting is ignored.
    const asking = (ask) => (...given) => new Promise((resolve, reject) => {
      setStop(() => () => reject(new Error(`You stopped waiting for ${wallet.name}. Try again, or choose another wallet.`)));
      ask(...given).then(resolve, reject);
    }).finally(() => setStop());
    const account = await asking(wallet.connect)();
    if (owner && account.publicKey !== owner) throw new Error(`The wallet has another account: ${account.publicKey}. Switch it to ${owner}.`);
    await use({ ...account, ...Object.fromEntries(['signMessage', 'signTransaction', 'sendTransaction'].map((name) => [name, account[name] && asking(account[name])])) });
  });
  return html`<div class="wallets">
    ${wallets.map((wallet) => html`<button type="button" class="wallet" key=${wallet.name} disabled=${running} onClick=${() => start(wallet)}>
      ${/^data:image\/(svg\+xml|webp|png|gif);base64,/.test(wallet.icon ?? '')
        ? html`<img src=${wallet.icon} alt="" width="28" height="28"/>` : html`<span class="letter" aria-hidden="true">${wallet.name[0].toUpperCase()}</span>`}
      <span>${running && chosen === wallet ? `Waiting for ${wallet.name}…` : `${verb} ${wallet.name}`}</span></button>`)}
    ${stop && html`<button type="button" class="quiet" onClick=${stop}>Stop waiting</button>`}
    ${wallets.length === 0 && (missing ? html`<div class="notice alarm" role="alert"><p>${found.length > 0 ? html`<strong>This wallet can't do it.</strong> It does not take
      transactions by the Wallet Standard. Open this page with another wallet.` : html`<strong>No wallet found.</strong> Install a Solana wallet for this browser,
      or switch it on for this site, and reload. On a phone, open this page in your wallet's own browser. <${AboutWallets}/>`}</p>
      <button type="button" onClick=${() => location.reload()}>Reload</button></div>`
      : html`<p class="loading" role="status"><span class="spinner" aria-hidden="true"></span>Looking for wallets in this browser…</p>`)}
    <${Problem} error=${error}/></div>`;
}

export function SignIn({ expired, onSignedIn }) {
  const home = new URL(site.coreUrl).origin;
  return html`<main class="welcome" id="main">
    <p class="brand"><${Mark}/>Memory Ledger</p>
    <h1>Your memories,<br/>in a log that can't be rewritten</h1>
    <p class="lead">Sign one message with your Solana wallet to see what is kept in your name, and to check the proof of it in this browser. It costs nothing and moves nothing.</p>
    ${expired && html`<p class="notice" role="status">Your session has ended. Sign in again to go on where you were; what you were writing is kept.</p>`}
    ${home !== location.origin && html`<p class="notice alarm">This page is not at the service's own address. Sign in at <a href=${`${home}/app/`}>${home}</a>: nothing for that address is signed here.</p>`}
    <${WalletChoice} use=${async (account) => onSignedIn(await signInTo(location.origin, account))}/>
    <ul class="promises"><li><strong>Encrypted at rest</strong>Under a key of your own, which the service holds.</li>
    <li><strong>Nothing silently changed</strong>Each memory has a proof, which your browser checks.</li>
    <li><strong>Anyone can check</strong>What proves it is on Solana.</li></ul>
  </main>`;
}

const announced = 5 * 60_000; // ms before the end of a session
const clock = new Intl.DateTimeFormat('en', { timeStyle: 'short' });

/** Returns what announces the end of a session, and offers another one. */
export function useRenewal(session, begin) {
  const [soon, setSoon] = useState(false), [open, setOpen] = useState(false), end = new Date(session.expiresAt);
  useEffect(() => {
    const timer = setTimeout(() => setSoon(true), end - Date.now() - announced);
    return () => clearTimeout(timer);
  }, []);
  return soon && html`<div class="banner" role="status"><p>Your session ends at ${clock.format(end)}. What you are writing is kept.</p><button type="button" onClick=${() => setOpen(true)}>Sign in again</button></div>
    ${open && html`<${Dialog} title="Sign in again" onClose=${() => setOpen(false)}><p class="soft">A new session goes on where you are.</p>
      <${WalletChoice} owner=${session.publicKey} verb="Sign in with" use=${async (account) => begin(await signInTo(location.origin, account))}/><//>`}`;
}
