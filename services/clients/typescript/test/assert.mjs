// What tests share that also run in browsers, where node:assert does not exist.
export function ok(value, why = "it is not so") {
  if (!value) throw new Error(why);
}

/** Compares values that JSON can hold. */
export function equal(got, want, why = "") {
  const [is, has] = [JSON.stringify(got), JSON.stringify(want)];
  ok(is === has, `${why}: got ${is}, want ${has}`);
}

/** Awaits a failure of the given kind with the given members, and returns the error. */
export async function rejects(promise, kind = Error, members = {}) {
  const err = await promise.then(() => undefined, (err) => err);
  ok(err !== undefined, `it did not fail with ${kind.name}`);
  ok(err instanceof kind, `it is not a ${kind.name}: ${err?.stack ?? err}`);
  for (const [name, want] of Object.entries(members)) equal(err[name], want, `${name} of ${err}`);
  return err;
}

export async function all(items) {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}
