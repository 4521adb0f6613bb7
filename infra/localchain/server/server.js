'use strict';
// A local Solana chain behind JSON-RPC 2.0 on 127.0.0.1. Prints one JSON line
// when it is ready. Saves and exits on SIGTERM, SIGINT or the end of its standard
// input, so that it also ends when its parent was killed.
//
//   node server.js --data DIR [--addr HOST:PORT] [--slot-ms 400] [--confirm-slots 1]
//                  [--finalize-slots 4] [--program ID=FILE]... [--faults]
//
// --slot-ms 0 stops the clock: slots pass only by the `advance` fault.

const fs = require('node:fs');
const http = require('node:http');
const { randomBytes } = require('node:crypto');
const { parseArgs } = require('node:util');
const { Chain } = require('./chain');
const { Faults } = require('./faults');
const { Store } = require('./store');
const { methods } = require('./methods');
const submit = require('./submit');
const errors = require('./errors');

const MAX_BODY = 1 << 20;
const MAX_BATCH = 100;
const mark = randomBytes(8).toString('hex');
const marked = new RegExp(`"${mark}:(\\d+)"`, 'g');

// Writes JSON with BigInts as plain numbers, because a u64 does not fit a double.
function stringify(value) {
  const text = JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? `${mark}:${v}` : v));
  return text.replace(marked, '$1');
}

// Thrown to close the connection without an answer.
class Silence extends Error {}

function answerer(chain, faults, faultsAllowed) {
  const all = {
    ...methods,
    sendTransaction: (c, params) => submit.send(c, params, faults),
    simulateTransaction: submit.simulate,
    requestAirdrop: submit.airdrop,
  };
  const call = (method, params) => {
    if (method === '_fault' && faultsAllowed) return faults.apply(chain, params[0]);
    if (faults.down) throw new Silence();
    if (!Object.hasOwn(all, method)) throw new errors.RpcError(errors.NO_METHOD, 'Method not found');
    faults.before(method);
    const result = all[method](chain, params);
    if (faults.takeLostReply(method)) throw new Silence();
    return result;
  };
  return (request) => {
    const { jsonrpc, id = null, method, params = [] } = request ?? {};
    if (jsonrpc !== '2.0' || typeof method !== 'string' || !Array.isArray(params)) {
      return { jsonrpc: '2.0', error: { code: errors.INVALID_REQUEST, message: 'Invalid request' }, id };
    }
    try {
      return { jsonrpc: '2.0', result: call(method, params), id };
    } catch (err) {
      if (err instanceof Silence) throw err;
      if (!(err instanceof errors.RpcError)) console.error(`${method}:`, err);
      const error = { code: err.code ?? errors.INTERNAL, message: err.message, ...(err.data && { data: err.data }) };
      if (typeof error.code !== 'number') error.code = errors.INTERNAL;
      return { jsonrpc: '2.0', error, id };
    }
  };
}

function handle(answer, req, res) {
  if (req.method === 'GET' && req.url === '/health') {
    return res.end(answer({ jsonrpc: '2.0', id: 1, method: 'getHealth' }).result ?? 'unknown');
  }
  // Pages may call this server, as they may call a real node: the dashboard reads accounts.
  res.setHeader('access-control-allow-origin', '*');
  if (req.method === 'OPTIONS') {
    res.setHeader('access-control-allow-headers', 'content-type');
    res.statusCode = 204;
    return res.end();
  }
  if (req.method !== 'POST') {
    res.statusCode = 405;
    return res.end();
  }
  const chunks = [];
  let size = 0;
  req.on('data', (chunk) => {
    size += chunk.length;
    if (size > MAX_BODY) req.destroy();
    else chunks.push(chunk);
  });
  req.on('end', () => {
    try {
      respond(answer, res, Buffer.concat(chunks));
    } catch (err) {
      if (!(err instanceof Silence)) console.error(err);
      res.socket.destroy();
    }
  });
}

function respond(answer, res, body) {
  let request;
  try {
    request = JSON.parse(body.toString());
  } catch {
    request = undefined;
  }
  let reply;
  if (request === undefined) {
    reply = { jsonrpc: '2.0', error: { code: errors.PARSE, message: 'Parse error' }, id: null };
  } else if (Array.isArray(request)) {
    reply = request.slice(0, MAX_BATCH).map(answer);
  } else {
    reply = answer(request);
  }
  res.setHeader('content-type', 'application/json; charset=utf-8');
  res.end(stringify(reply));
}

function options() {
  const { values } = parseArgs({
    options: {
      data: { type: 'string' },
      addr: { type: 'string', default: '127.0.0.1:0' },
      'slot-ms': { type: 'string', default: '400' },
      'confirm-slots': { type: 'string', default: '1' },
      'finalize-slots': { type: 'string', default: '4' },
      program: { type: 'string', multiple: true, default: [] },
      faults: { type: 'boolean', default: false },
    },
  });
  if (!values.data) throw new Error('--data is missing');
  return values;
}

function main() {
  const values = options();
  const programs = values.program.map((p) => {
    const [id, file] = [p.slice(0, p.indexOf('=')), p.slice(p.indexOf('=') + 1)];
    return { id, elf: fs.readFileSync(file) };
  });
  const chain = new Chain({
    store: new Store(values.data),
    slotMs: Number(values['slot-ms']),
    confirmSlots: Number(values['confirm-slots']),
    finalizeSlots: Number(values['finalize-slots']),
    programs,
    now: Date.now,
  });
  const answer = answerer(chain, new Faults(), values.faults);
  const server = http.createServer((req, res) => handle(answer, req, res));
  const clock = chain.slotMs > 0 ? setInterval(() => chain.tick(), chain.slotMs) : null;

  let ending = false;
  const end = () => {
    if (ending) return;
    ending = true;
    clearInterval(clock);
    server.close();
    server.closeAllConnections();
    chain.save();
    process.exit(0);
  };
  process.on('SIGTERM', end);
  process.on('SIGINT', end);
  process.stdin.on('end', end);
  process.stdin.on('error', end);
  process.stdin.resume();

  const colon = values.addr.lastIndexOf(':');
  server.on('error', (err) => {
    console.error(`cannot listen on ${values.addr}: ${err.message}`);
    process.exit(1);
  });
  server.listen(Number(values.addr.slice(colon + 1)), values.addr.slice(0, colon), () => {
    const { address, port } = server.address();
    console.log(JSON.stringify({ ready: true, url: `http://${address}:${port}`, genesisHash: chain.genesisHash, slot: chain.slot }));
  });
}

main();
