// The sign-in page returns to this page. It first removes the session from the address, so that
// neither the history nor a screenshot contains it.
import { accept } from './service.js';

const { search, hash } = location;
history.replaceState(null, '', location.pathname);
const accepted = await accept(search, hash);
document.title = accepted ? 'Signed in' : 'Not signed in';
document.getElementById('title').textContent = document.title;
document.getElementById('text').textContent = accepted
  ? 'You can close this tab. Select some text anywhere and press Alt+Shift+S.'
  : 'This sign-in was not started here, or was used already. Start again in the extension.';
