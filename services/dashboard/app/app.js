// The dashboard: the session, the current screen, and the state that all screens share.
import { html, render, useCallback, useEffect, useMemo, useRef, useState } from './vendor-preact.js';
import { UnauthorizedError, VerificationError } from './vendor-ledger.js';
import { follow } from './feed.js';
import { dropDrafts, keepSession, ledgerOf, loadSession } from './session.js';
import { Mark, Problem, plainly, short } from './parts.js';
import { useAddress } from './route.js';
import { useRetractions } from './retract.js';
import { SignIn, useRenewal } from './signin.js';
import { useSignOut } from './signout.js';
import { Memories } from './memories.js';
import { Log } from './log.js';
import { Access } from './access.js';
import { HandOut } from './handout.js';
import { Connect } from './connect.js';
import { Activity } from './activity.js';
import { Data } from './data.js';
import { useImport } from './import.js';
import { Erased } from './erase.js';

// Each screen with its title and the path of its icon, on 24 by 24.
const screens = {
  memories: ['Memories', Memories, 'M5 6h14M5 12h14M5 18h8'],
  log: ['Log', Log, 'M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9'],
  handout: ['Hand out', HandOut, 'M12 15V4M8 8l4-4 4 4M5 13v5a2 2 0 002 2h10a2 2 0 002-2v-5'],
  connect: ['Connect', Connect, 'M9 3v5M15 3v5M6 8h12v4a6 6 0 01-12 0zM12 18v3'],
  access: ['Access', Access, 'M15 9a4 4 0 10-3.7 4L13 15h2v2h2v2h3v-3l-5.3-5.3A4 4 0 0015 9zM10 8.5v.01'],
  activity: ['Activity', Activity, 'M3 12h4l3-8 4 16 3-8h4'],
  data: ['Your data', Data, 'M12 4v11M8 11l4 4 4-4M5 20h14'],
};

function App() {
  const [session, setSession] = useState(loadSession), [expired, setExpired] = useState(false), [erased, setErased] = useState();
  const current = useRef();
  current.current = session;
  const begin = (next) => {
    keepSession(next);
    dropDrafts(next.publicKey);
    setSession(next);
  };
  const end = useCallback((ended, why) => {
    if (why.what === 'erased') { // the stream of events may have noticed the end first
      setErased(why);
      dropDrafts();
    }
    if (ended !== current.current) return; // a late answer to an earlier session
    keepSession(null);
    if (why !== 'expired') dropDrafts();
    setExpired(why === 'expired');
    setSession(null);
  }, []);
  const found = useRef(session); // when the page was opened
  useEffect(() => { if (session && session !== found.current) document.getElementById('main').focus({ preventScroll: true }); }, [session]);
  if (!session && erased) return html`<${Erased} receipt=${erased} onDone=${() => setErased()}/>`;
  if (!session) return html`<${SignIn} expired=${expired} onSignedIn=${begin}/>`;
  return html`<${Shell} key=${session.token} session=${session} begin=${begin} end=${(why) => end(session, why)}/>`;
}

function Shell({ session, begin, end }) {
  const at = useAddress(), screen = Object.keys(screens).find((name) => name in at) ?? 'memories', [state, setState] = useState('connecting');
  const [head, setHead] = useState(), [lie, setLie] = useState(), [problem, setProblem] = useState();
  const listeners = useRef(new Set()), start = useRef(), main = useRef(), shown = useRef(screen);
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
      state: (now) => {
        setState(now);
        if (now !== 'live') return;
        refresh();
        dispatchEvent(new Event('live'));
      },
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
    return () => clearTimeout(timer);
  }, []);
  useEffect(() => {
    if (shown.current === screen) return;
    shown.current = screen;
    main.current.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [screen]);
  const hear = useCallback((listener) => { listeners.current.add(listener); return () => listeners.current.delete(listener); }, []);
  const guard = useCallback((error) => {
    if (error instanceof UnauthorizedError) end('expired');
    throw error;
  }, []);
  const [retract, settle, hidden, undo] = useRetractions(ledger, session, refresh);
  const api = useMemo(() => ({ session, ledger, head, refresh, hear, start, guard, end, retract, settle, hidden }), [session, ledger, head, hidden]);

  const [signOut, leaving] = useSignOut(api), renewal = useRenewal(session, begin), importing = useImport(api);

  const [title, Screen] = screens[screen];
  useEffect(() => { document.title = `${title} · Memory Ledger`; }, [title]);
  return html`<div class="shell"><a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); main.current.focus(); }}>Skip to content</a>
    <header class="top"><p class="brand"><${Mark}/><span>Memory Ledger</span></p>
      <nav aria-label="Screens">${Object.entries(screens).map(([name, [label, , icon]]) =>
        html`<a key=${name} href=${`#${name}`} aria-current=${name === screen ? 'page' : undefined}><svg viewBox="0 0 24 24" aria-hidden="true"><path d=${icon}/></svg><span>${label}</span></a>`)}</nav>
      <p class="who"><span class=${`dot ${state}`} role="img" aria-label=${state === 'live' ? 'Live' : state === 'offline' ? 'Offline' : 'Connecting'} title=${state}></span>
        <code title=${session.publicKey}>${short(session.publicKey)}</code>
        ${signOut}</p></header>
    ${leaving}
    <div class="page">${state === 'offline' && html`<p class="banner" role="status">No connection to Memory Ledger. What you see may be old; trying again.</p>`}
    ${renewal}
    ${lie && html`<div class="banner alarm" role="alert"><p><strong>The log is not the one that this browser saw before.</strong> ${plainly({ message: `${lie.field}: ${lie.problem}` })} The service rewrote it, or its operator
      restored an older backup. Trust nothing here until you know which.</p>
      <button type="button" onClick=${() => ledger.log.accept().then(() => { setLie(undefined); refresh(); }, setProblem)}>The operator restored a backup: start from what it shows now</button></div>`}
    <main id="main" tabIndex="-1" ref=${main} class=${screen}><h1 class=${screen === 'memories' ? 'unseen' : ''}>${title}</h1>
      <${Problem} error=${!head && problem} again=${refresh}/>
      ${(head || !lie) && html`<${Screen} api=${api} importing=${importing}/>`}</main></div>
    ${undo}</div>`;
}

let page = html`<${App}/>`;
try { // a browser that may keep no data for this site throws here
  void [sessionStorage.length, localStorage.length];
} catch {
  page = html`<main class="welcome"><h1>Memory Ledger</h1><p class="notice alarm" role="alert">This browser keeps no data for this site, not even a session. Allow its cookies and site data, and reload.</p></main>`;
}
render(page, document.getElementById('app'));
