// What a save takes from a tab.

const maxContent = 10_000, maxTitle = 500, maxURL = 8_192;

/** Runs in the page, once, when the user asks for it. */
function read() {
  return {
    selection: getSelection().toString(),
    text: (document.querySelector('main, article') ?? document.body)?.innerText ?? '',
  };
}

/**
 * The body of a write: the selection, or else the page's title and text. Where a page can't be
 * read, as the browser's own, the menu's selection and the title are all there is.
 * @param what {selection, frameId} of the context menu; selection undefined: look for one;
 *   empty: the page
 */
export async function capture(tab, { selection: given, frameId = 0 } = {}) {
  const target = { tabId: tab.id, frameIds: [frameId] };
  const [injected] = await chrome.scripting.executeScript({ target, func: read }).catch(() => []);
  const { selection, text } = injected?.result ?? { selection: '', text: '' };
  const selected = given === '' ? '' : selection.trim() || given?.trim() || '';
  return bodyOf(selected || `${tab.title ?? ''}\n\n${text}`, tab);
}

/** Fits a text to the service's limits. Says so in the metadata where it was cut. */
export function bodyOf(text, { title = '', url = '' }) {
  const whole = [...text.toWellFormed().trim()];
  if (whole.length === 0) throw new Error('There is no text here to save');
  const metadata = {};
  if (title) metadata.title = title.slice(0, maxTitle).toWellFormed();
  // Addresses of files and of the browser's own pages stay here.
  if (/^https?:/.test(url) && url.length <= maxURL) metadata.url = url;
  if (whole.length > maxContent) metadata.truncated = true;
  return { content: whole.slice(0, maxContent).join(''), source: 'web extension', metadata };
}
