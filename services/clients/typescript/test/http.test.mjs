// Retries, with a fake service and a fake clock.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as ledger from "../dist/index.js";
import { all } from "./assert.mjs";

const attemptMs = 30_000;

// Makes a client of a service that gives each of `answers` in turn, and then repeats the
// last. An Error stands for a failed connection. `requests` holds the requests that the
// client sent, `waits` the milliseconds that it waited between them. The waits take no
// real time.
function client(t, answers, options = {}) {
  const requests = [], waits = [];
  t.mock.method(Date, "now", () => Date.parse("2026-01-01T00:00:00Z"));
  t.mock.method(globalThis, "setTimeout", (run, ms) => {
    if (ms === attemptMs) return undefined; // the timeout of an attempt
    waits.push(ms);
    queueMicrotask(run);
    return undefined;
  });
  const fetch = async (_url, init) => {
    const answer = answers[Math.min(requests.push(init), answers.length) - 1];
    if (answer instanceof Error) throw answer;
    return new Response(JSON.stringify(answer.body ?? { error: "not now" }), { status: answer.status, headers: answer.headers ?? {} });
  };
  return { ledger: new ledger.MemoryLedger({ url: "http://service", apiKey: "svc_key_x", timeoutMs: attemptMs, fetch, ...options }), requests, waits };
}
const stored = { status: 201, body: { id: "m", leafHash: "0".repeat(64), leafIndex: 0 } };
const refused = (status, after) => ({ status, headers: after === undefined ? {} : { "Retry-After": after } });

test("Retry-After is waited for, in seconds or until a time", async (t) => {
  const c = client(t, [refused(503, "7"), refused(429, "Thu, 01 Jan 2026 00:00:20 GMT"), refused(503, "0"), stored]);
  assert.equal((await c.ledger.memories.write("x")).id, "m");
  assert.deepEqual(c.waits, [7000, 20000, 0]);
});

test("a service that asks for more than a minute is not waited for", async (t) => {
  for (const after of ["61", "86400", "2592000", "Thu, 02 Jan 2026 00:00:00 GMT"]) {
    const c = client(t, [refused(429, after), stored]);
    await assert.rejects(c.ledger.memories.write("x"), ledger.RateLimitedError);
    assert.deepEqual(c.waits, []);
  }
  const c = client(t, [refused(429, "60"), stored]);
  await c.ledger.memories.write("x");
  assert.deepEqual(c.waits, [60_000]);
});

test("a date that is over is no wait, and nonsense is as if it were not there", async (t) => {
  const nonsense = ["soon", "1.5", "-5", "0, 5"].map((after) => refused(503, after));
  const c = client(t, [refused(503, "Wed, 31 Dec 2025 00:00:00 GMT"), ...nonsense, stored], { backoffMs: 4000, retries: 5 });
  await c.ledger.memories.write("x");
  assert.equal(c.waits.shift(), 0);
  assert.ok(c.waits.every((ms, n) => 4000 << n <= ms && ms <= 8000 << n), `${c.waits}`);
});

for (const answer of [refused(503), refused(500), refused(408), refused(429), new TypeError("fetch failed")]) {
  test(`after ${answer.status ?? answer.message}, waits double, and three attempts follow the first`, async (t) => {
    const c = client(t, [answer]);
    const kind = answer.status === 429 ? ledger.RateLimitedError : answer.status ? ledger.UnavailableError : ledger.ConnectionError;
    await assert.rejects(c.ledger.memories.write("x"), kind);
    assert.equal(c.requests.length, 4);
    assert.equal(c.waits.length, 3);
    c.waits.forEach((ms, n) => assert.ok(500 * 2 ** n <= ms && ms <= 1000 * 2 ** n, `wait ${n}: ${ms}`));
    assert.equal(new Set(c.requests.map((r) => r.headers["Idempotency-Key"])).size, 1);
    assert.equal(new Set(c.requests.map((r) => r.body)).size, 1);
  });
}

for (const [status, name] of [[400, "InvalidRequestError"], [401, "UnauthorizedError"], [403, "ForbiddenError"], [404, "NotFoundError"], [409, "ConflictError"],
  [410, "GoneError"], [413, "InvalidRequestError"], [422, "IdempotencyError"], [302, "ApiError"]]) {
  test(`${status} is not repeated`, async (t) => {
    const c = client(t, [{ status, body: { error: "why" }, headers: { "X-Request-Id": "r1", "Retry-After": "1" } }]);
    await assert.rejects(c.ledger.memories.write("x"), { name, status, message: "why", requestId: "r1" });
    assert.deepEqual(c.requests.map((r) => r.redirect), ["manual"]);
  });
}

test("what could happen twice is repeated after 429 only", async (t) => {
  const c = client(t, [refused(429, "2"), refused(503, "2"), stored]);
  await assert.rejects(c.ledger.keys.create("k"), ledger.UnavailableError);
  assert.deepEqual(c.waits, [2000]);
});

test("what could happen twice is not repeated after a lost answer", async (t) => {
  const c = client(t, [new TypeError("fetch failed"), stored]);
  await assert.rejects(c.ledger.keys.create("k"), ledger.ConnectionError);
  assert.equal(c.requests.length, 1);
});

test("an answer that does not say that it is done is refused", async (t) => {
  const calls = {
    write: (c) => c.memories.write("x"), batch: (c) => c.memories.writeBatch([{ content: "x" }]), search: (c) => c.memories.searchPage("x"),
    retract: (c) => c.memories.retract("m"), forget: (c) => c.memories.forget("m"), import: (c) => c.log.import("lines"), giveUp: (c) => c.log.giveUpImport(),
    key: (c) => c.keys.create("k"), keys: (c) => c.keys.list(), revoke: (c) => c.keys.revoke("k"),
    sessions: (c) => c.sessions.list(), end: (c) => c.sessions.end("s"), endOthers: (c) => c.sessions.endOthers(),
    drop: (c) => c.grants.createDrop(), case: (c) => c.grants.createCase(), fill: (c) => c.grants.fillDrop("http://service/d", { content: "x" }),
    revokeDrop: (c) => c.grants.revokeDrop("d"), revokeCase: (c) => c.grants.revokeCase("c"), dropStatus: (c) => c.grants.dropStatus("d"), caseStatus: (c) => c.grants.caseStatus("c"),
  };
  for (const [name, call] of Object.entries(calls)) {
    for (const body of [{}, [{}], { ok: false, id: "m", url: null, key: 7, leafHash: "0" }]) {
      const c = client(t, [{ status: 200, body }], { verify: false, extensionUrl: "http://service" });
      await assert.rejects(call(c.ledger), ledger.MalformedError, name);
      assert.equal(c.requests.length, 1);
    }
  }
  const none = client(t, [], { fetch: async () => new Response(null, { status: 204 }) });
  await assert.rejects(none.ledger.events.follow().next(), ledger.ConnectionError);
});

// A page of another origin. The browser fails each request whose answer the page may not read.
function page(t, { allowed = false, up = true } = {}) {
  const asked = [];
  globalThis.location = { origin: "https://page.example" };
  t.after(() => delete globalThis.location);
  const fetch = async (url, { mode = "cors" } = {}) => {
    asked.push(`${mode} ${new URL(url).pathname}`);
    if (up && (mode === "no-cors" || (allowed && asked.length > 1))) return new Response("ok");
    throw new TypeError("Failed to fetch");
  };
  return { fetch, asked };
}

for (const [api, setting, call] of [
  ["http://service", "CORE_ALLOWED_ORIGINS", (c) => c.memories.write("x")],
  ["http://service:2", "EXTENSION_ALLOWED_ORIGINS", (c) => c.grants.createCase()],
]) {
  test(`a page that ${setting} lacks hears of it at once`, async (t) => {
    const { fetch, asked } = page(t), c = client(t, [], { fetch, extensionUrl: "http://service:2" });
    await assert.rejects(call(c.ledger), (err) => {
      assert.ok(err instanceof ledger.CorsError && err instanceof ledger.ConnectionError, String(err));
      for (const word of [api, "https://page.example", setting]) assert.ok(err.message.includes(word), err.message);
      return true;
    });
    assert.deepEqual(c.waits.filter((ms) => ms !== attemptMs), []);
    assert.equal(asked.length, 3);
  });
}

test("a service that is down, or one lost connection, is not said to refuse the page", async (t) => {
  const down = page(t, { up: false }), c = client(t, [], { fetch: down.fetch });
  await assert.rejects(c.ledger.log.head(), (err) => err.name === "ConnectionError");
  assert.equal(down.asked.filter((a) => a === "cors /log").length, 4);
  const lost = page(t, { allowed: true }), d = client(t, [], { fetch: lost.fetch, verify: false });
  await assert.rejects(d.ledger.log.head(), (err) => err.name !== "CorsError");
});

test("a signal ends the wait", async (t) => {
  const c = client(t, [refused(503, "60")]);
  const abort = new AbortController();
  globalThis.setTimeout.mock.mockImplementation((_run, ms) => {
    if (ms === 60_000) queueMicrotask(() => abort.abort(new Error("enough")));
  });
  await assert.rejects(c.ledger.memories.write("x", {}, { signal: abort.signal }), { message: "enough" });
  assert.equal(c.requests.length, 1);
  // Also the wait behind another call.
  const stuck = new ledger.MemoryLedger({ url: "http://service", fetch: () => new Promise(() => {}) }), late = new AbortController();
  const [, waits] = [stuck.log.head(), stuck.log.head({ signal: late.signal })];
  late.abort(new Error("enough"));
  await assert.rejects(waits, { message: "enough" });
  await assert.rejects(stuck.log.head({ signal: abort.signal }), { message: "enough" });
});

test("each attempt has its time", async (t) => {
  const fetch = (_url, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const c = client(t, [], { retries: 1, timeoutMs: 5000, fetch });
  await assert.rejects(c.ledger.memories.write("x"), ledger.TimeoutError);
  assert.equal(c.waits.filter((ms) => ms === 5000).length, 2);
});

test("a timeout is at most what a timer can hold, and Infinity is none", async (t) => {
  const c = client(t, [stored], { timeoutMs: 2 ** 31 });
  await c.ledger.memories.write("x");
  assert.deepEqual(c.waits, [2 ** 31 - 1]);
  await c.ledger.memories.write("x", {}, { timeoutMs: Infinity });
  assert.deepEqual(c.waits, [2 ** 31 - 1]);
});

for (const timeoutMs of [NaN, -1, 0]) {
  test(`a timeout of ${timeoutMs} is refused`, () => {
    assert.throws(() => new ledger.MemoryLedger({ url: "http://service", timeoutMs }), { name: "TypeError", message: "timeoutMs must be more than 0" });
  });
}

test("a list in an object is streamed as a bare one is", async () => {
  const { streamedObjects } = await import("../dist/http.js");
  async function* parts() {
    for (const part of ['{"memor', 'ies":[{"a":{"b":"]}"}', '},{"a":2}', "]}"]) yield new TextEncoder().encode(part);
  }
  assert.deepEqual(await all(streamedObjects(parts())), [{ a: { b: "]}" } }, { a: 2 }]);
});

test("an import is sent once, as it is", async (t) => {
  for (const answer of [refused(503), refused(429, "1"), new TypeError("fetch failed")]) {
    const c = client(t, [answer]), file = new Blob(["lines"]);
    await assert.rejects(c.ledger.log.import(file));
    assert.equal(c.requests.length, 1);
    assert.equal(c.requests[0].body, file);
    assert.equal(c.requests[0].headers["Content-Type"], "application/x-ndjson");
  }
  const c = client(t, [{ status: 200, body: { treeSize: 2, root: "", added: 1 } }]);
  assert.equal((await c.ledger.log.import(new Blob(["lines"]).stream())).added, 1);
  assert.equal(c.requests[0].duplex, "half");
});
