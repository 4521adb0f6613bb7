// The dashboard: the session, the current screen, and the state that all screens share.
import { html, render, useCallback, useEffect, useMemo, useRef, useState } from './vendor-preact.js';
import { UnauthorizedError, VerificationError } from './vendor-ledger.js';
import { follow } from './feed.js';
import { keepSession, ledgerOf, loadSession } from './session.js';
import { Mark, Problem, plainly, short } from './parts.js';
import { SignIn } from './signin.js';
import { useSignOut } from './signout.js';
import { Memories } from './memories.js';
import { Log } from './log.js';
import { Access } from './access.js';
import { HandOut } from './handout.js';
import { Activity } from './activity.js';
import { Data } from './data.js';

const screens = {
  memories: ['Memories', Memories], log: ['Log', Log], handout: ['Hand out', HandOut],
  access: ['Access', Access], activity: ['Activity', Activity], data: ['Your data', Data],
};
const screenOf = () => Object.keys(screens).find((name) => location.hash === `#${name}`) ?? 'memories';

function App() {
  const [session, setSession] = useState(loadSession), [expired, setExpired] = useState(false);
  const current = useRef();
  current.current = session;
  const end = useCallback((ended, why) => {
    if (ended !== current.current) return; // a late answer to an earlier session
    keepSession(null);
    setExpired(why === 'expired');
    setSession(null);
  }, []);
  if (!session) return html`<${SignIn} expired=${expired} onSignedIn=${setSession}/>`;
  return html`<${Shell} key=${session.token} session=${session} end=${(why) => end(session, why)}/>`;
}

function Shell({ session, end }) {
  const [screen, setScreen] = useState(screenOf), [state, setState] = useState('connecting');
  const [head, setHead] = useState(), [lie, setLie] = useState(), [problem, setProblem] = useState();
  const listeners = useRef(new Set()), start = useRef(), main = useRef();
  const ledger = useMemo(() => ledgerOf(session), [session]);

  // The parts of api, which every screen gets: the client, the log's head, and the feed.
  const refresh = useCallback(async () => {
    try {
      setHead(await ledger.log.head());
      setProblem(undefined);
    } catch (error) {
      if (error instanceof UnauthorizedError) end('expired');
      else if (error instanceof VerificationError) setLie(error);
      else setProblem(error);
    }
  }, [ledger]);
  useEffect(() => {
    refresh();
    let due; // many events at once cause only one request for the head
    return follow(session, {
      start: (cursor) => { start.current = cursor; listeners.current.forEach((hear) => hear([])); },
      state: (now) => { setState(now); if (now === 'live') refresh(); },
      expired: () => end('expired'),
      events: (events) => {
        clearTimeout(due);
        due = setTimeout(refresh, 100);
        listeners.current.forEach((hear) => hear(events));
      },
    });
  }, [ledger]);
  useEffect(() => {
    const timer = setTimeout(() => end('expired'), Math.min(Date.parse(session.expiresAt) - Date.now(), 2 ** 31 - 1));
    const navigate = () => { setScreen(screenOf()); main.current.focus(); scrollTo(0, 0); };
    window.addEventListener('hashchange', navigate);
    return () => { clearTimeout(timer); window.removeEventListener('hashchange', navigate); };
  }, []);
  const hear = useCallback((listener) => { listeners.current.add(listener); return () => listeners.current.delete(listener); }, []);
  const guard = useCallback((error) => {
    if (error instanceof UnauthorizedError) end('expired');
    throw error;
  }, []);
  const api = useMemo(() => ({ session, ledger, head, refresh, hear, start, guard, end }), [session, ledger, head]);

  const [signOut, leaving] = useSignOut(api);

  const [title, Screen] = screens[screen];
  useEffect(() => { document.title = `${title} · Memory Ledger`; }, [title]);
  return html`<a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); main.current.focus(); }}>Skip to content</a>
    <header class="top"><p class="brand"><${Mark}/><span>Memory Ledger</span></p>
      <nav aria-label="Screens">${Object.entries(screens).map(([name, [label]]) =>
        html`<a key=${name} href=${`#${name}`} aria-current=${name === screen ? 'page' : undefined}>${label}</a>`)}</nav>
      <p class="who"><span class=${`dot ${state}`} role="img" aria-label=${state === 'live' ? 'Live' : state === 'offline' ? 'Offline' : 'Connecting'} title=${state}></span>
        <code title=${session.publicKey}>${short(session.publicKey)}</code>
        ${signOut}</p></header>
    ${leaving}
    ${state === 'offline' && html`<p class="banner" role="status">No connection to Memory Ledger. What you see may be old; trying again.</p>`}
    ${lie && html`<div class="banner alarm" role="alert"><p><strong>The log is not the one that this browser saw before.</strong> ${plainly({ message: `${lie.field}: ${lie.problem}` })}
      The service rewrote it, or its operator restored an older backup. Trust nothing here until you know which.</p>
      <button type="button" onClick=${() => ledger.log.accept().then(() => { setLie(undefined); refresh(); }, setProblem)}>The operator restored a backup: start from what it shows now</button></div>`}
    <main id="main" tabIndex="-1" ref=${main} class=${screen}><h1 class=${screen === 'memories' ? 'unseen' : ''}>${title}</h1>
      <${Problem} error=${!head && problem} again=${refresh}/>
      ${(head || !lie) && html`<${Screen} api=${api}/>`}</main>`;
}

render(html`<${App}/>`, document.getElementById('app'));
