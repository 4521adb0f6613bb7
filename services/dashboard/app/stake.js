// The stake, and changes of it: the service writes the transaction, and the wallet signs it.
import { html, useEffect, useRef, useState } from './vendor-preact.js';
import { toBase58 } from './vendor-ledger.js';
import { Problem, short, useLoad, useTask, when } from './parts.js';
import { site } from './session.js';
import { WalletChoice } from './signin.js';

/** Shows the stake, if the service has staking. */
export function Stake({ api }) {
  const [status, error, again] = useLoad(() => api.ledger.staking.status().catch(api.guard), []);
  useEffect(() => api.hear((events) => events.some((e) => ['StakeDeposited', 'StakeWithdrawn'].includes(e.type)) && again()), []);
  if (!status) return error && html`<section class="card"><h2>Stake</h2><${Problem} error=${error} again=${again}/></section>`;
  if (!status.live) return null;
  const amount = (units) => inTokens(units, status.decimals);
  return html`<section class="card"><h2>Stake</h2>
    <p class="soft">Of the token <code title=${status.mint}>${short(status.mint, 6)}</code>, in a vault that only your wallet opens.</p>
    <dl class="facts">
      <div><dt>Staked</dt><dd>${amount(status.staked)}</dd></div><div><dt>Mature</dt><dd>${amount(status.mature)}</dd></div>
      <div><dt>Cooling</dt><dd>${amount(status.cooling)}</dd></div><div><dt>In your wallet</dt><dd>${amount(status.walletBalance)}</dd></div></dl>
    ${status.lots.length > 0 && html`<ul class="list" aria-label="Lots">${status.lots.map((lot, i) => html`<li key=${i}><strong class="grow">${amount(lot.amount)}</strong>
      <span class="soft">${lot.mature ? 'mature' : `mature on ${when(lot.maturesAt)}`}</span></li>`)}</ul>`}
    <${Move} api=${api} status=${status} amount=${amount} again=${again}/></section>`;
}

function Move({ api, status, amount, again }) {
  const [unstake, setUnstake] = useState(false), [text, setText] = useState(''), [phase, setPhase] = useState(), [done, setDone] = useState(''), [sent, setSent] = useState();
  const gone = useRef(false);
  useEffect(() => () => { gone.current = true; }, []);
  const most = unstake ? status.staked : status.walletBalance, units = inUnits(text, status.decimals);
  const refusal = text && whyNot(units, unstake, status, amount), verb = unstake ? 'Unstake' : 'Stake';
  const change = (set) => (value) => { set(value); setDone(''); forget(); };

  const [confirm, confirming, unconfirmed, forget] = useTask(async (signature) => {
    const before = BigInt(status.staked); // others may add to a vault meanwhile
    const landed = await confirmed(api, (staked) => unstake ? staked < before : staked >= before + units, gone);
    again();
    if (!landed) throw new Error(`Solana did not confirm transaction ${signature} in time. Look it up in your wallet. If it goes through later, the amounts here change.`);
    setDone(`${unstake ? 'Unstaked' : 'Staked'} ${amount(units.toString())}.`);
    setText('');
  });
  const move = async (account) => {
    try {
      setPhase('Preparing the transaction…');
      const { transaction } = await api.ledger.staking[unstake ? 'unstake' : 'stake'](units.toString()).catch(api.guard);
      setPhase('Approve the transaction in your wallet. Nothing moves until you do.');
      const signature = await send(account, transaction);
      setSent(short(signature));
      confirm(signature);
    } finally {
      setPhase();
    }
  };
  const busy = Boolean(phase) || confirming;
  return html`<form class="stack" aria-label="Move tokens" onSubmit=${(e) => e.preventDefault()}>
    <fieldset class="stack" disabled=${busy}><legend class="unseen">Move tokens</legend>
      <div class="row" role="radiogroup" aria-label="Direction">${[false, true].map((way) => html`<label class="check" key=${way}>
        <input type="radio" name="direction" checked=${unstake === way} onChange=${() => change(setUnstake)(way)}/>${way ? 'Unstake' : 'Stake'}</label>`)}</div>
      <div class="row ends"><label class="grow">Amount<input inputmode="decimal" autoComplete="off" value=${text} aria-invalid=${Boolean(refusal)} aria-describedby="stake-said"
          onFocus=${again} onInput=${(e) => change(setText)(e.target.value)}/></label>
        <button type="button" class="quiet" disabled=${most === '0'} onClick=${() => change(setText)(amount(most).replaceAll(',', ''))}>All: ${amount(most)}</button></div>
    </fieldset>
    <p id="stake-said" class="soft" role="status">${phase ?? (confirming ? `Sent as ${sent}. Waiting for Solana to confirm it…` : refusal || done)}</p>
    <${Problem} error=${unconfirmed}/>
    ${!confirming && !unconfirmed && (phase || (text && !refusal)) && html`<${WalletChoice} owner=${api.session.publicKey} verb=${`${verb}, signed with`} able=${sends} use=${move}/>`}</form>`;
}

const sends = (wallet) => wallet.sends || (wallet.signs && site.rpcUrl !== '');

function whyNot(units, unstake, { staked, walletBalance, minPartialUnstake, decimals }, amount) {
  if (units === null) return `Write a number such as 12${decimals > 0 ? '.5' : ''}, with at most ${decimals} decimals.`;
  if (units === 0n) return 'Write more than 0.';
  if (!unstake) return units > BigInt(walletBalance) && `Your wallet holds ${amount(walletBalance)}.`;
  if (units > BigInt(staked)) return `You have staked ${amount(staked)}.`;
  return units < BigInt(minPartialUnstake) && units < BigInt(staked) && `Take out ${amount(minPartialUnstake)} at least, or all of it.`;
}

// send has the wallet sign and send a transaction. If the wallet can only sign, this page
// sends the transaction. send returns the transaction's signature.
async function send(account, base64) {
  const transaction = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  if (account.sendTransaction) return toBase58(await account.sendTransaction(transaction, site.chain));
  const signed = await account.signTransaction(transaction, site.chain);
  // An answer may be lost although the transaction went through: only the chain tells.
  const { error } = await fetch(site.rpcUrl, {
    method: 'POST', headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'sendTransaction', params: [btoa(String.fromCharCode(...signed)), { encoding: 'base64', preflightCommitment: 'confirmed' }] }),
    signal: AbortSignal.timeout(15_000),
  }).then((response) => response.json()).catch(() => ({}));
  if (error) throw new Error(`Solana refused the transaction: ${error.message}`);
  return toBase58(signed.slice(1, 65)); // after the number of signatures, which is 1
}

const confirmMs = 90_000; // about the lifetime of a transaction's blockhash

// confirmed waits until the staked amount shows the move.
async function confirmed(api, shows, gone) {
  for (const end = Date.now() + confirmMs; Date.now() < end && !gone.current;) {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const status = await api.ledger.staking.status().catch(() => null); // can't be read at the moment
    if (status && shows(BigInt(status.staked))) return true;
  }
  return gone.current;
}

/** Formats an amount of base units as people write it. */
function inTokens(units, decimals) {
  const digits = units.padStart(decimals + 1, '0'), cut = digits.length - decimals, fraction = digits.slice(cut).replace(/0+$/, '');
  return BigInt(digits.slice(0, cut)).toLocaleString('en') + (fraction && `.${fraction}`);
}

/** Parses a text to base units. Returns null if the text is not an amount. */
function inUnits(text, decimals) {
  const [, whole, fraction = ''] = /^(\d{1,20})(?:\.(\d*))?$/.exec(text.trim()) ?? [];
  return whole === undefined || fraction.length > decimals ? null : BigInt(whole + fraction.padEnd(decimals, '0'));
}
