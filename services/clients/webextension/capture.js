// Reads the content of a save from a tab.

const maxContent = 10_000, maxTitle = 500, maxURL = 8_192;

// Each runs in the page.
const selection = () => getSelection().toString().trim();
const text = () => [...document.querySelectorAll('main, article'), document.body].find((part) => part?.innerText.trim())?.innerText ?? '';

// Some pages, such as the browser's own, can't be read.
const read = (target, func) => chrome.scripting.executeScript({ target, func }).then((all) => all.map(({ result }) => result), () => []);

/** Returns what is selected in a frame of a tab, or without one in the first frame that has a selection, or ''. */
export const selectionIn = async (tabId, frameId) =>
  (await read(frameId === undefined ? { tabId, allFrames: true } : { tabId, frameIds: [frameId] }, selection)).find(Boolean) ?? '';

/**
 * Returns the body of a write: the selection, or else the page's title and text.
 * @param what {selection, frameId} of the context menu. An undefined selection means: look for
 *   one in the page. An empty selection means: save the page.
 */
export async function capture(tab, { selection: given, frameId } = {}) {
  const selected = given === '' ? '' : await selectionIn(tab.id, frameId) || given?.trim();
  return bodyOf(selected || `${tab.title ?? ''}\n\n${(await read({ tabId: tab.id }, text))[0] ?? ''}`, tab);
}

/** Fits a text to the service's limits. If the text was cut, the metadata says so. */
export function bodyOf(text, { title = '', url = '' }) {
  const whole = [...text.toWellFormed().trim()];
  if (whole.length === 0) throw new Error('There is no text here to save');
  // The metadata, which is not encrypted, must not name files or the browser's own pages. In
  // Firefox, a page without a title has its address as the title.
  const metadata = {}, web = /^https?:/.test(url);
  // The service takes no noncharacters in metadata.
  if (web && title) metadata.title = title.slice(0, maxTitle).toWellFormed().replace(/\p{Noncharacter_Code_Point}/gu, '\ufffd');
  if (web && url.length <= maxURL) metadata.url = url;
  if (whole.length > maxContent) metadata.truncated = true;
  return { content: whole.slice(0, maxContent).join(''), source: 'web extension', metadata };
}
