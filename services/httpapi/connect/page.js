'use strict';
// The sign-in: find wallets, let the person choose one, have it sign the
// challenge, and hand the session to the extension. Reads from top to bottom:
// what can go wrong, what is shown, wallets, the API, one attempt, the start.
(() => {
  const root = document.getElementById('page');
  const callback = root.dataset.callback; // checked by the server
  const apiURL = root.dataset.api;

  const walletGrace = 1200; // ms after loading in which wallets may still turn up
  const walletLook = 400; // ms between looks at window.solana
  const serverPatience = 20000; // ms for one answer of the API
  const leavePatience = 5000; // ms for the browser to open the extension

  // ---- What can go wrong -------------------------------------------------

  class Problem extends Error {
    constructor(kind, cause) {
      super(kind, { cause });
      this.kind = kind;
    }
  }

  const problems = {
    noWallet: () => ['No wallet found', 'This browser has no Solana wallet, or it is switched off for this site.'],
    locked: (wallet) => [`${wallet} did not connect`,
      'The wallet is locked, or the request was declined. Unlock it, then try again.'],
    refused: () => ['You did not sign',
      'The message was declined in the wallet, so you are not signed in.'],
    expired: () => ['That took too long',
      'A message can be signed for a few minutes only. Try again to get a fresh one.'],
    unreachable: () => ['Memory Ledger does not answer',
      'The service is down or out of reach. Check your connection, or try again in a moment.'],
    busy: () => ['Too many tries',
      'The service asks for a short break. Try again in a minute.'],
    changed: (wallet) => [`${wallet} signed something else`,
      'The wallet changed the message before it signed it, so the signature proves nothing. Try again, or use another wallet.'],
    mismatch: () => ['The signature was not accepted',
      'It does not fit the message and the address. Try again, or use another wallet.'],
    unusable: (wallet) => [`${wallet} can't be used here`,
      'The service does not accept its address or its answer. Try another account or another wallet.'],
    notOpened: () => ['The extension did not open',
      'Check that it is installed in this browser and switched on, then try again.'],
  };

  // ---- What is shown -----------------------------------------------------

  const $ = (id) => document.getElementById(id);
  const views = ['choose', 'working', 'problem', 'done'];
  let shown = 'choose';

  function show(view) {
    shown = view;
    for (const id of views) $(id).hidden = id !== view;
  }

  // say tells a screen reader what the eye sees.
  function say(text) {
    $('status').textContent = text;
  }

  function showChoice() {
    show('choose');
    say('');
    $('wallets').querySelector('button')?.focus();
  }

  const steps = {
    connect: (wallet) => [`Waiting for ${wallet}`, 'Unlock it if it asks, and share the address that you want to sign in with.'],
    challenge: () => ['Asking for a message to sign', ''],
    sign: (wallet) => [`Sign the message in ${wallet}`, 'Check that the wallet shows this site and the text below, then confirm.'],
    verify: () => ['Checking the signature', ''],
  };
  const stepOrder = ['connect', 'sign', 'verify'];

  function showStep(step, wallet) {
    const [title, hint] = steps[step](wallet.name);
    $('working-title').textContent = title;
    $('working-hint').textContent = hint;
    $('working-hint').hidden = hint === '';
    const now = stepOrder.indexOf(step === 'challenge' ? 'sign' : step);
    stepOrder.forEach((name, i) => {
      const item = $('steps').querySelector(`[data-step=${name}]`);
      item.dataset.state = i < now ? 'done' : i === now ? 'now' : 'later';
      if (i === now) item.setAttribute('aria-current', 'step');
      else item.removeAttribute('aria-current');
    });
    if (shown !== 'working') {
      show('working');
      $('working-title').focus();
    }
    say(`${title}. ${hint}`);
  }

  function showMessage(text) {
    $('message').hidden = text === '';
    $('message-text').textContent = text;
    if (text === '') $('message').open = false;
  }

  // showProblem says what happened and puts the focus on the way out of it.
  function showProblem(kind, wallet, again) {
    const [title, text] = problems[kind](wallet ? wallet.name : '');
    $('problem-title').textContent = title;
    $('problem-text').textContent = text;
    $('again').onclick = again;
    $('other').hidden = wallets.size < 2 || !wallet;
    $('ways').hidden = kind !== 'noWallet';
    $('copy').hidden = kind !== 'noWallet' || !navigator.clipboard;
    show('problem');
    say('');
    if (kind !== 'noWallet') $('again').focus();
  }

  // ---- Wallets -----------------------------------------------------------

  const wallets = new Map(); // wallet object -> { name, button, connect, sign, injected }

  const longestName = 40;

  // plainName keeps a wallet's name from posing as more than a name.
  function plainName(name) {
    const letters = [...String(name ?? '').replace(/[\p{C}\p{Z}]+/gu, ' ').trim()];
    if (letters.length > longestName) return `${letters.slice(0, longestName - 1).join('').trim()}…`;
    return letters.join('') || 'Wallet';
  }

  const addressForm = /^[1-9A-HJ-NP-Za-km-z]{32,44}$/;

  function checkedAddress(text) {
    if (!addressForm.test(text)) throw new Problem('locked');
    return text;
  }

  function checkedSignature(bytes) {
    const signature = Uint8Array.from(bytes ?? []);
    if (signature.length !== 64) throw new Problem('mismatch');
    return signature;
  }

  function sameBytes(a, b) {
    return a.length === b.length && a.every((byte, i) => byte === b[i]);
  }

  // signInInput reads the challenge back into the fields that it was made of.
  function signInInput(text) {
    const lines = text.split('\n');
    const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    return {
      domain: lines[0].split(' ')[0], address: lines[1], statement: lines[3],
      uri: field('URI'), version: field('Version'), chainId: field('Chain ID'), nonce: field('Nonce'),
      issuedAt: field('Issued At'), expirationTime: field('Expiration Time'),
    };
  }

  // standardWallet adapts a wallet of the Wallet Standard, or returns null for
  // one that can't sign in here.
  function standardWallet(wallet) {
    const { 'standard:connect': connecting, 'solana:signMessage': signing, 'solana:signIn': signingIn } = wallet.features;
    if (!connecting || !(signing || signingIn)) return null;
    const feature = signingIn ? 'solana:signIn' : 'solana:signMessage';
    let signInFailed = false; // where the wallet has both, the next try is by signMessage
    return {
      name: plainName(wallet.name),
      icon: wallet.icon,
      async connect() {
        const shared = (await connecting.connect())?.accounts ?? [];
        const accounts = shared.length > 0 ? shared : wallet.accounts ?? [];
        const account = accounts.find((a) => a.features?.includes(feature)) ?? accounts[0];
        return { address: checkedAddress(account?.address), account };
      },
      async sign(text, account, signal) {
        const message = new TextEncoder().encode(text);
        if (signingIn && !(signing && signInFailed)) {
          signInFailed = true; // unless it turns out otherwise
          const [signed] = await signingIn.signIn(signInInput(text));
          signInFailed = !sameBytes(signed.signedMessage ?? [], message);
          if (!signInFailed) return checkedSignature(signed.signature);
          if (!signing) throw new Problem('changed');
          signal.throwIfAborted(); // the wallet is not to ask again for what was cancelled
        }
        const [signed] = await signing.signMessage({ account, message });
        if (!sameBytes(signed.signedMessage ?? message, message)) throw new Problem('changed');
        return checkedSignature(signed.signature);
      },
    };
  }

  // injectedWallet adapts window.solana, for wallets that know no standard.
  function injectedWallet(provider) {
    if (typeof provider?.connect !== 'function' || typeof provider.signMessage !== 'function') return null;
    const known = [['isPhantom', 'Phantom'], ['isSolflare', 'Solflare'], ['isBackpack', 'Backpack']];
    return {
      name: known.find(([flag]) => provider[flag])?.[1] ?? "This browser's wallet",
      injected: true,
      async connect() {
        const key = (await provider.connect())?.publicKey ?? provider.publicKey;
        return { address: checkedAddress(String(key?.toBase58?.() ?? key)) };
      },
      async sign(text) {
        const signed = await provider.signMessage(new TextEncoder().encode(text), 'utf8');
        return checkedSignature(signed?.signature ?? signed);
      },
    };
  }

  // iconOf shows what the wallet brought along, if it is data, or a letter.
  function iconOf(wallet) {
    const data = /^data:image\/(svg\+xml|webp|png|gif);base64,/.test(wallet.icon ?? '');
    const icon = document.createElement(data ? 'img' : 'span');
    icon.className = data ? 'icon' : 'icon letter';
    if (data) {
      icon.src = wallet.icon;
      icon.alt = '';
    } else {
      icon.textContent = [...wallet.name][0].toUpperCase();
      icon.setAttribute('aria-hidden', 'true');
    }
    return icon;
  }

  function span(className, text) {
    const element = document.createElement('span');
    element.className = className;
    element.textContent = text;
    return element;
  }

  function buttonOf(wallet) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'wallet';
    const label = span('label', 'Continue with ');
    const name = document.createElement('bdi');
    name.textContent = wallet.name;
    label.append(name);
    button.append(iconOf(wallet), label);
    button.addEventListener('click', () => signIn(wallet));
    return button;
  }

  function add(key, adapt) {
    let wallet = null;
    try {
      wallet = wallets.has(key) ? null : adapt(key);
    } catch { /* a wallet that breaks when looked at can't be used */ }
    if (!wallet) return;
    wallet.button = buttonOf(wallet);
    wallets.set(key, wallet);
    const item = document.createElement('li');
    item.append(wallet.button);
    $('wallets').append(item);
    walletsChanged();
  }

  function remove(key) {
    const { button } = wallets.get(key) ?? {};
    if (!button) return;
    const focused = button === document.activeElement;
    button.parentElement.remove();
    wallets.delete(key);
    if (focused) $('wallets').querySelector('button')?.focus();
    walletsChanged();
  }

  function walletsChanged() {
    $('looking').hidden = wallets.size > 0;
    if (shown === 'problem' && missing && wallets.size > 0) {
      missing = false;
      const focused = $('problem').contains(document.activeElement);
      show('choose');
      if (focused) $('wallets').querySelector('button').focus();
      say('A wallet was found.');
    }
  }

  function register(...found) {
    for (const wallet of found) add(wallet, standardWallet);
    const all = [...wallets];
    if (all.some(([, wallet]) => !wallet.injected)) {
      // window.solana is one of these, by its older way in.
      all.filter(([, wallet]) => wallet.injected).forEach(([key]) => remove(key));
    }
    return () => found.forEach(remove);
  }

  // lookAtWindow takes window.solana only where no wallet knows the standard.
  function lookAtWindow() {
    if (wallets.size === 0) add(window.solana, injectedWallet);
  }

  let missing = false; // the page says that there is no wallet

  function findWallets() {
    walletsChanged();
    const api = Object.freeze({ register });
    window.addEventListener('wallet-standard:register-wallet', (event) => event.detail?.(api));
    window.dispatchEvent(new CustomEvent('wallet-standard:app-ready', { detail: api }));
    lookAtWindow();
    setInterval(lookAtWindow, walletLook);
    const giveUp = () => setTimeout(() => {
      if (wallets.size > 0 || shown !== 'choose') return;
      missing = true;
      // A wallet that was just installed gets into pages only as they load.
      showProblem('noWallet', null, () => location.reload());
    }, walletGrace);
    if (document.readyState === 'complete') giveUp();
    else window.addEventListener('load', giveUp, { once: true });
  }

  // ---- The API -----------------------------------------------------------

  // post calls the API by the address that this page came from.
  async function post(path, body, signal) {
    const request = new AbortController();
    const stop = () => request.abort();
    const timer = setTimeout(stop, serverPatience);
    signal.addEventListener('abort', stop, { once: true });
    try {
      const response = await fetch(path, {
        method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body),
        credentials: 'omit', cache: 'no-store', redirect: 'error', signal: request.signal,
      });
      return { status: response.status, body: await response.json() };
    } catch (error) {
      throw new Problem('unreachable', error);
    } finally {
      clearTimeout(timer);
    }
  }

  function refusalOf(answer) {
    if (answer.status === 429) return new Problem('busy');
    return new Problem(answer.status >= 500 ? 'unreachable' : 'unusable');
  }

  async function getChallenge(publicKey, signal) {
    const answer = await post('auth/challenge', { publicKey }, signal);
    if (answer.status !== 200) throw refusalOf(answer);
    const { message, issuedAt, expiresAt } = answer.body;
    // A duration, not a time: the clock here may be wrong.
    const lifetime = Date.parse(expiresAt) - Date.parse(issuedAt);
    if (typeof message !== 'string' || !(lifetime > 0)) throw new Problem('unreachable');
    return { message, lifetime };
  }

  async function getSession(publicKey, message, signature, signal) {
    const answer = await post('auth/verify', { publicKey, message, signature: [...signature] }, signal);
    if (answer.status === 401) { // only the text says which of its causes it was
      throw new Problem(/expired/.test(answer.body.error) ? 'expired' : 'mismatch');
    }
    if (answer.status !== 200) throw refusalOf(answer);
    return answer.body;
  }

  // ---- One attempt -------------------------------------------------------

  let attempt = new AbortController(); // the current one; its end is an abort

  // unless waits for a promise, but no longer than for the attempt's end. What
  // the wallet says later is not heard.
  function unless(signal, promise, kind) {
    return new Promise((resolve, reject) => {
      const end = () => reject(signal.reason);
      if (signal.aborted) return end();
      signal.addEventListener('abort', end, { once: true });
      promise.then(resolve, (error) => reject(error instanceof Problem ? error : new Problem(kind, error)));
    });
  }

  async function signIn(wallet) {
    attempt.abort(new Problem('cancelled'));
    const current = attempt = new AbortController();
    const { signal } = current;
    const step = (name) => showStep(name, wallet);
    let timer;
    try {
      step('connect');
      const { address, account } = await unless(signal, wallet.connect(), 'locked');
      step('challenge');
      const { message, lifetime } = await unless(signal, getChallenge(address, signal), 'unreachable');
      timer = setTimeout(() => current.abort(new Problem('expired')), lifetime);
      showMessage(message);
      step('sign');
      const signature = await unless(signal, wallet.sign(message, account, signal), 'refused');
      clearTimeout(timer); // from here on the server decides
      showMessage('');
      step('verify');
      const session = await unless(signal, getSession(address, message, signature, signal), 'unreachable');
      leave(session, wallet);
    } catch (error) {
      if (error.kind === 'cancelled' || current !== attempt) return;
      const kind = error instanceof Problem ? error.kind : 'unreachable';
      console.warn('sign-in:', kind, error.cause ?? error);
      showProblem(kind, wallet, () => signIn(wallet));
    } finally {
      clearTimeout(timer);
      if (current === attempt) showMessage('');
    }
  }

  // leave hands the session over in the fragment, which no server sees, in
  // place of this page, so that history keeps neither.
  function leave({ token, publicKey, expiresAt }, wallet) {
    if (!token || !publicKey || !expiresAt) throw new Problem('unreachable');
    show('done');
    $('done-title').focus();
    say('Signed in. Taking you back to the extension.');
    const session = new URLSearchParams([
      ['token', token], ['publicKey', publicKey], ['expiresAt', expiresAt], ['apiUrl', apiURL],
    ]);
    const timer = setTimeout(() => showProblem('notOpened', wallet, () => signIn(wallet)), leavePatience);
    window.addEventListener('pagehide', () => clearTimeout(timer), { once: true });
    location.replace(`${callback}#${session}`);
  }

  // ---- The start ---------------------------------------------------------

  function noteAddress() {
    $('site').textContent = location.host;
    $('elsewhere').hidden = location.origin === new URL(apiURL).origin;
  }

  $('cancel').addEventListener('click', () => {
    attempt.abort(new Problem('cancelled'));
    showChoice();
  });
  $('other').addEventListener('click', showChoice);
  $('copy').addEventListener('click', () => navigator.clipboard.writeText(location.href).then(
    () => say("The page's address was copied."), () => say('The address could not be copied.'),
  ));
  if (matchMedia('(hover: none) and (pointer: coarse)').matches) $('ways').prepend($('phone'));
  noteAddress();
  findWallets();
})();
