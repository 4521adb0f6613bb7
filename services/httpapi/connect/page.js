// The sign-in: find wallets, let the person choose one, have it sign the
// challenge, and hand over the session. The sections, from top to bottom:
// problems, views, wallets, the API, one attempt, the start. wallets.js, and extension.js or
// consent.js with what to hand over, precede this file in the page and form one module with it.
(() => {
  const root = document.getElementById('page');
  const apiURL = root.dataset.api;

  const walletGrace = 1200; // ms after loading to wait for wallets
  const serverPatience = 20000; // ms for one answer of the API
  const leavePatience = 5000; // ms for the browser to open what the session is for

  // ---- Problems ----------------------------------------------------------

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
    refused: (_, wallet) => ['You did not sign',
      `The message was declined in the wallet, so you are not signed in.${wallet?.envelopes ? '' : ' A hardware wallet signs only off-chain messages, which this wallet may not offer: update it, or use another one.'}`],
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
    terms: () => ['This can\'t be allowed so',
      'The service does not accept the namespaces, or the clock of this computer is wrong. Change them and try again.'],
    notOpened: () => handover.notOpened,
  };

  // ---- Views -------------------------------------------------------------

  const $ = (id) => document.getElementById(id);
  const views = ['choose', 'working', 'problem', 'done'];
  let shown = 'choose';

  function show(view) {
    shown = view;
    for (const id of views) $(id).hidden = id !== view;
  }

  // say announces a text to screen readers.
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

  // showProblem shows what happened and focuses the button that leads on.
  function showProblem(kind, wallet, again) {
    const [title, text] = problems[kind](wallet ? wallet.name : '', wallet);
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

  const wallets = new Map(); // wallet -> its button

  // iconOf shows the wallet's own icon if that is a data URL, or else a letter.
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

  function add(wallet) {
    const item = document.createElement('li'), button = buttonOf(wallet);
    item.append(button);
    $('wallets').append(item);
    wallets.set(wallet, button);
  }

  function remove(wallet) {
    const button = wallets.get(wallet), focused = button === document.activeElement;
    button.parentElement.remove();
    wallets.delete(wallet);
    if (focused) $('wallets').querySelector('button')?.focus();
  }

  function showWallets(found) {
    for (const wallet of found) if (!wallets.has(wallet)) add(wallet);
    for (const wallet of wallets.keys()) if (!found.includes(wallet)) remove(wallet);
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

  let missing = false; // the page says that there is no wallet

  function lookForWallets() {
    walletsChanged();
    findWallets(showWallets);
    const giveUp = () => setTimeout(() => {
      if (wallets.size > 0 || shown !== 'choose') return;
      missing = true;
      // A wallet that was just installed gets into a page only when the page loads.
      showProblem('noWallet', null, () => location.reload());
    }, walletGrace);
    if (document.readyState === 'complete') giveUp();
    else window.addEventListener('load', giveUp, { once: true });
  }

  // ---- The API -----------------------------------------------------------

  // post calls the API at the address that this page came from.
  async function post(path, body, signal, token) {
    const request = new AbortController();
    const stop = () => request.abort();
    const timer = setTimeout(stop, serverPatience);
    signal.addEventListener('abort', stop, { once: true });
    try {
      const response = await fetch(path, {
        method: 'POST', headers: { 'Content-Type': 'application/json', ...(token && { Authorization: `Bearer ${token}` }) }, body: JSON.stringify(body),
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
    const answer = await post(`${handover.root}auth/challenge`, { publicKey }, signal);
    if (answer.status !== 200) throw refusalOf(answer);
    const { message, issuedAt, expiresAt } = answer.body;
    // Return a duration, not a time: the clock here may be wrong.
    const lifetime = Date.parse(expiresAt) - Date.parse(issuedAt);
    if (typeof message !== 'string' || !(lifetime > 0)) throw new Problem('unreachable');
    return { message, lifetime };
  }

  async function getSession(publicKey, message, signature, signal) {
    const answer = await post(`${handover.root}auth/verify`, { publicKey, message, signature: handover.signature(signature) }, signal);
    if (answer.status === 401) { // only the text tells the causes of a 401 apart
      throw new Problem(/expired/.test(answer.body.error) ? 'expired' : 'mismatch');
    }
    if (answer.status !== 200) throw refusalOf(answer);
    const session = answer.body;
    if (!session.token || !session.publicKey || !session.expiresAt) throw new Problem('unreachable');
    return session;
  }

  // ---- One attempt -------------------------------------------------------

  let attempt = new AbortController(); // the current attempt; an abort ends it

  // unless waits for a promise, but not beyond the end of the attempt. A later
  // answer of the wallet is ignored.
  function unless(signal, promise, kind) {
    return new Promise((resolve, reject) => {
      const end = () => reject(signal.reason);
      if (signal.aborted) return end();
      signal.addEventListener('abort', end, { once: true });
      promise.then(resolve, (error) => reject(error instanceof Problem ? error : new Problem(error instanceof WalletError ? error.kind : kind, error)));
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
      const account = await unless(signal, wallet.connect(), 'locked');
      step('challenge');
      const { message, lifetime } = await unless(signal, getChallenge(account.publicKey, signal), 'unreachable');
      timer = setTimeout(() => current.abort(new Problem('expired')), lifetime);
      showMessage(message);
      step('sign');
      const signature = await unless(signal, account.signChallenge(message, signal), 'refused');
      clearTimeout(timer); // from here on the server decides
      showMessage('');
      step('verify');
      const session = await unless(signal, getSession(account.publicKey, message, signature, signal), 'unreachable');
      const address = await unless(signal, handover.address(session, (path, body, token) => post(path, body, signal, token),
        (answer) => answer.status === 400 ? new Problem('terms') : refusalOf(answer)), 'unreachable');
      leave(address, wallet);
    } catch (error) {
      if (error.kind === 'cancelled' || current !== attempt) return;
      const kind = error instanceof Problem ? error.kind : 'unreachable';
      console.warn('sign-in:', kind, error.cause ?? error);
      showProblem(kind, wallet, kind === 'terms' ? showChoice : () => signIn(wallet));
    } finally {
      clearTimeout(timer);
      if (current === attempt) showMessage('');
    }
  }

  // leave opens an address, which replaces this page in the history.
  function leave(address, wallet) {
    show('done');
    $('done-title').focus();
    say(`Signed in. Taking you back to ${handover.back}.`);
    const timer = setTimeout(() => showProblem('notOpened', wallet, () => signIn(wallet)), leavePatience);
    window.addEventListener('pagehide', () => clearTimeout(timer), { once: true });
    location.replace(address);
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
  lookForWallets();
})();
