// The Connect screen, and the lines that connect an assistant: by the service's address alone, or with a key.
import { html, useRef, useState } from './vendor-preact.js';
import { AboutWallets, Copy, Problem, count, useTask } from './parts.js';
import { madeAt, useApiKeys } from './names.js';
import { site } from './session.js';

const json = (value) => JSON.stringify(value, null, 2);
const bearer = (key) => key && { Authorization: `Bearer ${key}` };
const servers = (member, server) => (url, key) => json({ [member]: { memory: server(`${url}/mcp`, bearer(key)) } });

// For each client: where its lines go, and the lines, with a key or without. hosted clients take an address in their own
// settings, and no key; bare ones take only a key. As in docs/agents.md.
const clients = {
  Claude: { hosted: 'In Claude: Settings, Connectors, Add custom connector. Paste this address', lines: (url) => `${url}/mcp` },
  ChatGPT: { hosted: 'In ChatGPT: Settings, Apps & Connectors, Advanced settings, switch on developer mode; then Create. Paste this address', lines: (url) => `${url}/mcp` },
  'Claude Code': { where: 'In a terminal', lines: (url, key) => `claude mcp add --transport http memory ${url}/mcp${key ? ` --header "Authorization: Bearer ${key}"` : ''}` },
  Cursor: { where: 'In ~/.cursor/mcp.json', lines: servers('mcpServers', (url, headers) => ({ url, headers })) },
  'VS Code': { where: 'In .vscode/mcp.json', lines: servers('servers', (url, headers) => ({ type: 'http', url, headers })) },
  'Claude Desktop': { where: 'In claude_desktop_config.json', bare: true, lines: (url, key) => json({ mcpServers: { memory: { command: '/path/to/ledger', args: ['mcp'], env: { LEDGER_URL: url, LEDGER_API_KEY: key } } } }) },
  'Another assistant': { where: 'In its list of MCP servers', lines: servers('mcpServers', (url, headers) => ({ type: 'http', url, headers })) },
  'A program': { where: 'In a terminal', bare: true, lines: (url, key) => `curl ${url}/memories -H "Authorization: Bearer ${key}"` },
};
const local = /^http:|\/\/(localhost|127\.|\[::1\])/.test(site.coreUrl);

const Choice = ({ names, value, onChange }) => html`<label>Lines to paste for<select value=${value} onChange=${(e) => onChange(e.target.value)}>${names.map((name) => html`<option key=${name}>${name}</option>`)}</select></label>`;

const Text = ({ text, note }) => html`<pre class="secret" tabIndex="0" role="group" aria-label="Lines">${text}</pre>
  <div class="row"><p class="soft grow">${note}</p><${Copy} text=${text} what="Copy lines"/></div>`;

/** The lines that give a key to a client, and a button that tries the key. */
export function Lines({ secret, only }) {
  const names = Object.keys(clients).filter((name) => !clients[name].hosted), [chosen, setChosen] = useState('Claude Code');
  const name = only ?? chosen, { where, lines } = clients[name];
  return html`${!only && html`<${Choice} names=${names} value=${name} onChange=${setChosen}/>`}
    <${Text} text=${lines(site.coreUrl, secret)} note=${`${where}. The key is in them.`}/><${Try} secret=${secret}/>`;
}

/** Calls the tools' address as an assistant would, with the key. */
function Try({ secret }) {
  const [tools, setTools] = useState();
  const [run, running, error] = useTask(async () => {
    setTools();
    const response = await fetch('/mcp', {
      method: 'POST', headers: { ...bearer(secret), 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
      body: json({ jsonrpc: '2.0', id: 1, method: 'tools/list' }), signal: AbortSignal.timeout(30_000),
    });
    const answer = await response.json().catch(() => ({}));
    if (!answer.result) throw new Error(response.status === 401 ? 'The service does not accept this key: it was revoked, or has ended.' : `This does not work: ${answer.error?.message ?? answer.error ?? response.status}.`);
    setTools(answer.result.tools.length);
  });
  return html`<div class="row"><button type="button" disabled=${running} onClick=${run}>${running ? 'Trying…' : 'Try it'}</button>
      <p class="grow" role="status">${tools && html`<strong>It works.</strong> An assistant with this key gets ${count(tools, 'tool')}.`}</p></div>
    <${Problem} error=${error}/>`;
}

export function Connect({ api }) {
  const [name, setName] = useState('Claude'), { hosted, where, bare, lines } = clients[name];
  return html`<section class="card stack"><h2>Connect an assistant</h2>
      <p class="soft">It then remembers for you and recalls what you kept, as far as you allow. You see and end it under <a href="#access">Access</a>.</p>
      <${Choice} names=${Object.keys(clients)} value=${name} onChange=${setName}/>
      ${!bare && html`<${Text} text=${lines(site.coreUrl)} note=${`${hosted ?? where}. The assistant then opens a page, where you choose what it may do and sign with your wallet.`}/>`}
      ${hosted && local && html`<p class="notice">${name} calls from its maker's servers, which reach only a public https address. This service is at ${site.coreUrl}.</p>`}
      <${Arrived} api=${api}/>
      ${!hosted && html`<${KeyFor} key=${name} api=${api} name=${name} or=${!bare}/>`}</section>
    <section class="card"><h2>Save from your browser</h2><p class="soft">The browser extension keeps what you select, and finds it again. It asks for the address <code>${site.extensionUrl}</code>.</p></section>
    <section class="card"><h2>Your wallet is the way in</h2><p class="soft">The same wallet opens the same memories in every browser; back up its recovery phrase. To use a phone, open this page in your wallet's own browser. <${AboutWallets}/></p></section>`;
}

/** Names the apps that were connected since the screen was opened. */
function Arrived({ api }) {
  const [keys] = useApiKeys(api), opened = useRef(Date.now());
  const apps = (keys ?? []).filter((k) => k.app && !k.revokedAt && madeAt(k.id) > opened.current);
  return html`<p role="status">${apps.length > 0 && html`<span class="tag">Connected</span> <bdi>${apps.map((k) => k.label).join(', ')}</bdi>`}</p>`;
}

/** Makes a key for a client that takes one. */
function KeyFor({ api, name, or }) {
  const [made, setMade] = useState();
  const [make, making, error] = useTask(async () => setMade(await api.ledger.keys.create(name, { scopes: ['read', 'write'] }).catch(api.guard)));
  if (made) return html`<p>This key may read, search and write. It is shown only this once.</p><${Lines} secret=${made.key} only=${name}/>`;
  return html`<div class="row"><p class="soft grow">${or ? 'Or with a key, if it can’t open that page.' : 'It needs a key.'}</p>
      <button type="button" class=${or ? '' : 'primary'} disabled=${making} onClick=${make}>Make a key</button></div><${Problem} error=${error}/>`;
}
