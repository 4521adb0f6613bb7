// Files that the page gives its visitor.

/** Has the browser save a file. */
export function saveFile(name, content, type = 'application/json') {
  const link = Object.assign(document.createElement('a'), { href: URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export const saveJSON = (name, value) => saveFile(name, `${JSON.stringify(value, null, 2)}\n`);
