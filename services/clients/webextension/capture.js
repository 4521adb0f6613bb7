// Reads the content of a save from a tab.

const maxContent = 10_000, maxTitle = 500, maxURL = 8_192;

/** Runs in the page, once, when the user asks for it. */
function read() {
  return {
    selection: getSelection().toString(),
    text: (document.querySelector('main, article') ?? document.body)?.innerText ?? '',
  };
}

/**
 * Returns the body of a write: the selection, or else the page's title and text. Some pages,
 * such as the browser's own, can't be read: then only the menu's selection and the title are
 * available.
 * @param what {selection, frameId} of the context menu. An undefined selection means: look for
 *   one in the page. An empty selection means: save the page.
 */
export async function capture(tab, { selection: given, frameId = 0 } = {}) {
  const target = { tabId: tab.id, frameIds: [frameId] };
  const [injected] = await chrome.scripting.executeScript({ target, func: read }).catch(() => []);
  const { selection, text } = injected?.result ?? { selection: '', text: '' };
  const selected = given === '' ? '' : selection.trim() || given?.trim() || '';
  return bodyOf(selected || `${tab.title ?? ''}\n\n${text}`, tab);
}

/** Fits a text to the service's limits. If the text was cut, the metadata says so. */
export function bodyOf(text, { title = '', url = '' }) {
  const whole = [...text.toWellFormed().trim()];
  if (whole.length === 0) throw new Error('There is no text here to save');
  const metadata = {};
  // The service takes no noncharacters in metadata.
  if (title) metadata.title = title.slice(0, maxTitle).toWellFormed().replace(/\p{Noncharacter_Code_Point}/gu, '\ufffd');
  // Never send addresses of files or of the browser's own pages.
  if (/^https?:/.test(url) && url.length <= maxURL) metadata.url = url;
  if (whole.length > maxContent) metadata.truncated = true;
  return { content: whole.slice(0, maxContent).join(''), source: 'web extension', metadata };
}
