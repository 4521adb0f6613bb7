// What the page shows is in its address, after "#": a screen (#log), or what is searched, filtered
// and open among the memories (#q=bees&tags=family&memory=ID). So a reload keeps it, and Back undoes it.
import { useEffect, useState } from './vendor-preact.js';

/** Returns the address's members: a screen's name has no value. */
export const address = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

let back; // settles when a way back has been gone that is under way

/** Shows something else. As a step of its own, Back returns from it. */
export function goTo(members, step) {
  if (back) return void back.then(() => goTo(members, step));
  const filled = new URLSearchParams(Object.entries(members).filter(([, value]) => value));
  history[step ? 'pushState' : 'replaceState'](step ? { step: true } : history.state, '', `#${filled.size > 0 ? filled : 'memories'}`);
  dispatchEvent(new Event('hashchange'));
}

/** Returns from what was opened as a step. It may also have been opened by a link. */
export function goBack(members) {
  if (!history.state?.step) return goTo(members);
  back ??= new Promise((resolve) => addEventListener('popstate', () => { back = undefined; resolve(); }, { once: true }));
  history.back();
}

export function useAddress() {
  const [at, setAt] = useState(address);
  useEffect(() => {
    const look = () => setAt(address());
    addEventListener('hashchange', look);
    return () => removeEventListener('hashchange', look);
  }, []);
  return at;
}
