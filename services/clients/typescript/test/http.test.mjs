// Retries, with a service and a clock of the test's own.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as ledger from "../dist/index.js";

const settled = () => new Promise((resolve) => setImmediate(resolve));

// A client of a service that answers with each of `answers` in turn: an Error is a
// connection that fails. `waits` are for how long it waited, `requests` what it sent.
function client(t, answers, options = {}) {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"], now: Date.parse("2026-01-01T00:00:00Z") });
  const requests = [];
  const fetch = async (url, init) => {
    requests.push({ at: Date.now(), path: new URL(url).pathname, ...init });
    const answer = answers[requests.length - 1] ?? answers.at(-1);
    if (answer instanceof Error) throw answer;
    return new Response(JSON.stringify(answer.body ?? { error: "not now" }), { status: answer.status, headers: answer.headers ?? {} });
  };
  return {
    ledger: new ledger.MemoryLedger({ url: "http://service", apiKey: "svc_key_x", verify: false, fetch, ...options }),
    requests,
    waits: () => requests.slice(1).map((r, n) => r.at - requests[n].at),
    // Lets time pass until a call has ended.
    async until(call) {
      let ended = false;
      const result = call.then((value) => ({ value }), (error) => ({ error })).finally(() => (ended = true));
      for (let step = 0; !ended && step < 10_000; step++) {
        for (let n = 0; n < 5; n++) await settled();
        if (!ended) t.mock.timers.tick(100);
      }
      return result;
    },
  };
}
const stored = { status: 201, body: { id: "m", leafHash: "00", leafIndex: 0 } };
const refused = (status, after) => ({ status, headers: after === undefined ? {} : { "Retry-After": after } });
const near = (waits, wanted) => {
  assert.equal(waits.length, wanted.length);
  waits.forEach((ms, n) => assert.ok(wanted[n] <= ms && ms <= wanted[n] + 200, `wait ${n} is ${ms} ms, not ${wanted[n]}`));
};

test("Retry-After is waited for, in seconds or until a time", async (t) => {
  const c = client(t, [refused(503, "7"), refused(429, "Thu, 01 Jan 2026 00:00:20 GMT"), refused(503, "0"), stored]);
  assert.equal((await c.until(c.ledger.memories.write("x"))).value.id, "m");
  near(c.waits(), [7000, 13000, 0]);
});

test("a date that is over is no wait, and nonsense is none at all", async (t) => {
  const c = client(t, [refused(503, "Wed, 31 Dec 2025 00:00:00 GMT"), refused(503, "soon"), stored], { backoffMs: 4000 });
  await c.until(c.ledger.memories.write("x"));
  const [first, second] = c.waits();
  near([first], [0]);
  assert.ok(4000 <= second && second <= 8200, `${second}`);
});

test("without it, waits double, and three attempts follow the first", async (t) => {
  for (const answer of [refused(503), refused(500), refused(408), refused(429), new TypeError("fetch failed")]) {
    await t.test(String(answer.status ?? answer), async (t) => {
      const c = client(t, [answer]);
      const { error } = await c.until(c.ledger.memories.write("x"));
      assert.ok(error instanceof (answer.status === 429 ? ledger.RateLimitedError : answer.status ? ledger.UnavailableError : ledger.ConnectionError), String(error));
      assert.equal(c.requests.length, 4);
      c.waits().forEach((ms, n) => assert.ok(500 * 2 ** n <= ms && ms <= 1000 * 2 ** n + 200, `wait ${n}: ${ms}`));
      assert.equal(new Set(c.requests.map((r) => r.headers["Idempotency-Key"])).size, 1);
      assert.equal(new Set(c.requests.map((r) => r.body)).size, 1);
    });
  }
});

test("what can't get better is not repeated", async (t) => {
  for (const [status, kind] of [[400, "InvalidRequestError"], [401, "UnauthorizedError"], [403, "ForbiddenError"], [404, "NotFoundError"], [409, "ConflictError"],
    [410, "GoneError"], [413, "InvalidRequestError"], [422, "IdempotencyError"]]) {
    await t.test(String(status), async (t) => {
      const c = client(t, [{ status, body: { error: "why" }, headers: { "X-Request-Id": "r1", "Retry-After": "1" } }]);
      const { error } = await c.until(c.ledger.memories.write("x"));
      assert.deepEqual([error.name, error.status, error.message, error.requestId], [kind, status, "why", "r1"]);
      assert.equal(c.requests.length, 1);
    });
  }
});

test("what could happen twice is repeated after 429 only", async (t) => {
  const c = client(t, [refused(429, "2"), refused(503, "2"), stored]);
  assert.ok((await c.until(c.ledger.keys.create("k"))).error instanceof ledger.UnavailableError);
  near(c.waits(), [2000]);
  t.mock.timers.reset();
  const lost = client(t, [new TypeError("fetch failed"), stored]);
  assert.ok((await lost.until(lost.ledger.keys.create("k"))).error instanceof ledger.ConnectionError);
  assert.equal(lost.requests.length, 1);
});

test("a signal ends the wait", async (t) => {
  const c = client(t, [refused(503, "3600")]);
  const abort = new AbortController();
  const call = c.ledger.memories.write("x", {}, { signal: abort.signal });
  for (let n = 0; n < 5; n++) await settled();
  abort.abort(new Error("enough"));
  await assert.rejects(call, { message: "enough" });
  assert.equal(c.requests.length, 1);
});

test("each attempt has its time", async (t) => {
  const c = client(t, [], { retries: 1, backoffMs: 10, timeoutMs: 5000, fetch: (_url, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))) });
  const begun = Date.now();
  assert.ok((await c.until(c.ledger.memories.write("x"))).error instanceof ledger.TimeoutError);
  assert.ok(10_000 <= Date.now() - begun && Date.now() - begun <= 10_500, String(Date.now() - begun));
});
