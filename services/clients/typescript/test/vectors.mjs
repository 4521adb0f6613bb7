// The golden vectors, for every runtime. vectors(client, files) returns the tests, each a
// name and a function. `files` comes from fixtures.mjs.
import { equal, ok, rejects } from "./assert.mjs";

const hex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const base64 = (bytes) => btoa(String.fromCharCode(...bytes));
const concat = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));
function u64(n) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(n), true);
  return bytes;
}
const isTypeError = (run) => rejects((async () => run())(), TypeError);

// The error for each altered receipt. For a malformed member it is a MalformedError that
// names the member; the test takes that name from the file's name.
const receipts = {
  "version-unknown": ["MalformedError", "version"],
  "entry-content-altered": ["ContentMismatchError", "entry"],
  "entry-metadata-altered": ["ContentMismatchError", "entry"],
  "entry-owner-of-somebody-else": ["ContentMismatchError", "entry"],
  "entry-owner-no-key": ["MalformedError", "entry.owner"],
  "entry-salt-altered": ["ContentMismatchError", "entry"],
  "entry-v-unknown": ["MalformedError", "entry.v"],
  "entry-salt-in-capitals": ["MalformedError", "entry.salt"],
  "leafhash-altered": ["LeafMismatchError", "leafHash"],
  "leafindex-of-another-leaf": ["InclusionError", "leafIndex"],
  "leafindex-outside-the-tree": ["InclusionError", "leafIndex"],
  "leafindex-outside-a-tree-of-one": ["InclusionError", "leafIndex"],
  "treesize-larger": ["InclusionError", "treeSize"],
  "treesize-smaller": ["InclusionError", "treeSize"],
  "siblings-one-altered": ["InclusionError", "siblings"],
  "siblings-one-missing": ["InclusionError", "siblings"],
  "directions-one-altered": ["InclusionError", "directions"],
  "directions-one-missing": ["InclusionError", "directions"],
  "batchroot-altered": ["RootMismatchError", "batchRoot"],
  "consistency-one-altered": ["ConsistencyError", "consistency"],
  "consistency-one-missing": ["ConsistencyError", "consistency"],
  "consistency-without-anchor": ["ConsistencyError", "consistency"],
  "consistency-where-nothing-is-to-prove": ["ConsistencyError", "consistency"],
  "anchor-committedroot-is-not-batchroot": ["AnchorError", "anchor.committedRoot"],
  "anchor-committedroot-altered": ["AnchorError", "anchor.committedRoot"],
  "anchor-committedsize-larger": ["ConsistencyError", "consistency"],
  "anchor-committedsize-smaller-than-treesize": ["AnchorError", "anchor.committedSize"],
  "anchor-slot-zero": ["AnchorError", "anchor.slot"],
  "anchor-cluster-no-hash": ["AnchorError", "anchor.cluster"],
  "anchor-programid-no-address": ["AnchorError", "anchor.programId"],
  "anchor-account-no-address": ["AnchorError", "anchor.account"],
  "anchor-txsignature-no-signature": ["AnchorError", "anchor.txSignature"],
  "onchain-cluster-another": ["AnchorError", "anchor.cluster"],
  "onchain-programid-another": ["AnchorError", "anchor.programId"],
  "onchain-account-not-there": ["AnchorError", "anchor.account"],
  "onchain-txsignature-not-there": ["AnchorError", "anchor.txSignature"],
  "onchain-slot-another": ["AnchorError", "anchor.slot"],
};

// The error for each bad export.
const exports = {
  "empty": ["IncompleteExportError", "export"],
  "no-json": ["MalformedError", "export"],
  "format-unknown": ["MalformedError", "format"],
  "header-with-another-member": ["MalformedError", "more"],
  "anchor-missing": ["MalformedError", "anchor"],
  "owner-no-key": ["MalformedError", "owner"],
  "owner-another": ["OwnerMismatchError", "entry.owner"],
  "root-altered": ["RootMismatchError", "root"],
  "treesize-smaller": ["IncompleteExportError", "treeSize"],
  "treesize-larger": ["IncompleteExportError", "treeSize"],
  "anchor-cluster-no-hash": ["AnchorError", "anchor.cluster"],
  "anchor-slot-zero": ["AnchorError", "anchor.slot"],
  "anchor-committedsize-zero": ["AnchorError", "anchor.committedSize"],
  "anchor-committedsize-beyond": ["AnchorError", "anchor.committedSize"],
  "anchor-committedsize-another": ["RootMismatchError", "anchor.committedRoot"],
  "anchor-committedroot-altered": ["RootMismatchError", "anchor.committedRoot"],
  "content-altered": ["LeafMismatchError", "leafHash"],
  "metadata-altered": ["LeafMismatchError", "leafHash"],
  "metadata-an-array": ["MalformedError", "entry.metadata"],
  "salt-altered": ["LeafMismatchError", "leafHash"],
  "salt-no-hex": ["MalformedError", "entry.salt"],
  "entry-of-another-owner": ["OwnerMismatchError", "entry.owner"],
  "entry-v-unknown": ["MalformedError", "entry.v"],
  "entry-of-another-leaf": ["LeafMismatchError", "leafHash"],
  "leafhash-altered": ["LeafMismatchError", "leafHash"],
  "leafhash-of-an-erased-one-altered": ["RootMismatchError", "anchor.committedRoot"],
  "leaf-forged-whole": ["RootMismatchError", "anchor.committedRoot"],
  "leaf-forged-after-the-anchor": ["RootMismatchError", "root"],
  "leaves-swapped": ["IncompleteExportError", "index"],
  "leaf-twice": ["IncompleteExportError", "index"],
  "leaf-missing": ["IncompleteExportError", "index"],
  "entry-missing": ["MalformedError", "entry"],
  "leaf-with-another-member": ["MalformedError", "more"],
  "content-twice": ["MalformedError", "export"],
  "createdat-no-time": ["MalformedError", "createdAt"],
  "createdat-no-day": ["MalformedError", "createdAt"],
  "via-with-another-member": ["MalformedError", "via.more"],
  "last-line-missing": ["IncompleteExportError", "export"],
  "breaks-off": ["IncompleteExportError", "export"],
  "breaks-off-before-the-last-line-end": ["IncompleteExportError", "export"],
  "end-not-complete": ["MalformedError", "complete"],
  "end-counts-otherwise": ["IncompleteExportError", "leaves"],
  "more-after-the-end": ["MalformedError", "export"],
};

export function vectors(ledger, files) {
  const read = (path) => files[path];
  const json = (path) => JSON.parse(read(path));
  const named = (folder) => Object.keys(files).filter((path) => path.startsWith(folder)).map((path) => path.slice(folder.length).replace(/\.\w+$/, ""));

  // A Solana node that holds one commitment.
  const nodeOf = ({ genesis, owner, account, signature, data, tx }) => async (_url, request) => {
    const { method, params } = JSON.parse(request.body);
    if (method === "getTransaction") equal(params[1].maxSupportedTransactionVersion, 1); // else a node does not show those of version 1
    const value = params[0] === account ? { owner, data: [base64(data), "base64"] } : null;
    const result = { getGenesisHash: genesis, getAccountInfo: { value }, getTransaction: params[0] === signature ? tx : null }[method];
    return new Response(JSON.stringify({ jsonrpc: "2.0", id: 1, result }));
  };

  // The chain of the receipt vectors.
  function vectorChain(size) {
    const good = json("events/verify/testdata/receipt/good.json"), a = good.anchor;
    const authority = Uint8Array.from({ length: 32 }, (_, i) => 0x21 + i), owner = ledger.fromBase58(good.entry.owner, 32);
    const root = hex(a.committedRoot), now = size === a.committedSize;
    const data = concat(new TextEncoder().encode("MLCOMMT1"), authority, owner, u64(size), now ? root : new Uint8Array(32).fill(1), u64(now ? a.slot : a.slot + 100), u64(1));
    const tx = { slot: a.slot, meta: { err: null }, transaction: { message: {
      accountKeys: [ledger.toBase58(authority), a.account, a.programId],
      instructions: [{ programIdIndex: 2, accounts: [0, 1], data: ledger.toBase58(concat(u64(1), owner, u64(a.committedSize), root)) }] } } };
    return { genesis: a.cluster, owner: a.programId, account: a.account, signature: a.txSignature, data, tx };
  }

  const tests = [];
  const test = (name, run) => tests.push({ name, run });

  test("leaves", async () => {
    for (const v of json("events/verify/leaf/testdata/vectors.json")) {
      const entry = { content: v.content, metadata: JSON.parse(v.metadata), owner: v.owner, salt: v.salt, v: 1 };
      equal(ledger.canonicalize(entry), v.entry, v.name);
      equal(await ledger.entryHash(entry), v.leafHash, v.name);
    }
  });

  test("what I-JSON has not", async () => {
    for (const value of [NaN, Infinity, "\ud800", { "\udc00": 1 }, undefined, 1n]) await isTypeError(() => ledger.canonicalize(value));
    const nested = (depth) => JSON.parse('{"a":'.repeat(depth) + "1" + "}".repeat(depth));
    ledger.canonicalize(nested(64));
    await isTypeError(() => ledger.canonicalize(nested(65)));
  });

  test("the journey", async () => {
    const leaf = json("docs/journey/leaf.json"), tree = json("docs/journey/tree.json");
    const chain = json("docs/journey/commitment.json"), receipt = json("docs/journey/receipt.json");
    equal(ledger.canonicalize(receipt.entry), leaf.entry);
    equal(await ledger.leafHash(leaf.entry), leaf.leafHash);
    const log = new ledger.RootOfLeaves();
    for (const hash of tree.leaves) {
      await log.add(hash);
      equal(await log.root(), tree.roots[log.size], `root of ${log.size}`);
    }
    await ledger.verifyReceipt(read("docs/journey/receipt.json"));
    const authority = ledger.fromBase58(chain.authority, 32), owner = ledger.fromBase58(chain.owner, 32);
    equal(await ledger.commitmentAddress(chain.programId, authority, owner), chain.account);
    await ledger.checkIssuer(receipt, { programId: chain.programId, authority: chain.authority });
    await rejects(ledger.checkIssuer(receipt, { programId: chain.programId, authority: chain.owner }), ledger.AnchorError);
    const commit = chain.commits.at(-1);
    const tx = { slot: commit.slot, meta: { err: null }, transaction: { message: {
      accountKeys: [chain.authority, chain.account, chain.programId],
      instructions: [{ programIdIndex: 2, accounts: [0, 1], data: ledger.toBase58(hex(commit.instruction)) }] } } };
    const node = nodeOf({ genesis: chain.cluster, owner: chain.programId, account: chain.account, signature: commit.txSignature, data: hex(commit.accountData), tx });
    equal(await ledger.checkOnchain("http://rpc", receipt, { fetch: node }), { authority: chain.authority, size: commit.size, root: commit.root });
  });

  test("every proof between every two sizes", async () => {
    const leaves = [];
    for (let n = 0; n < 20; n++) leaves.push(await ledger.leafHash(String(n)));
    const rootOf = async (part) => {
      if (part.length < 2) return part[0] ?? ledger.emptyRoot;
      const k = 2 ** Math.floor(Math.log2(part.length - 1));
      return ledger.nodeHash(await rootOf(part.slice(0, k)), await rootOf(part.slice(k)));
    };
    // Makes a proof by the definition of RFC 9162, section 2.1.4.1.
    const proofOf = async (m, part, whole) => {
      if (m === part.length) return whole ? [] : [await rootOf(part)];
      const k = 2 ** Math.floor(Math.log2(part.length - 1));
      return m <= k ? [...await proofOf(m, part.slice(0, k), whole), await rootOf(part.slice(k))]
        : [...await proofOf(m - k, part.slice(k), false), await rootOf(part.slice(0, k))];
    };
    for (let to = 1; to <= leaves.length; to++) {
      const toRoot = await rootOf(leaves.slice(0, to));
      for (let from = 1; from <= to; from++) {
        const proof = await proofOf(from, leaves.slice(0, to), true), fromRoot = await rootOf(leaves.slice(0, from));
        const refused = async (altered, why) => ok(!await ledger.isConsistent(from, to, fromRoot, toRoot, altered), `${from} to ${to}, ${why}`);
        ok(await ledger.isConsistent(from, to, fromRoot, toRoot, proof), `${from} to ${to}`);
        for (let i = 0; i < proof.length; i++) await refused(proof.with(i, ledger.emptyRoot), `hash ${i}`);
        await refused([...proof, toRoot], "one more");
        if (proof.length > 0) await refused(proof.slice(1), "one less");
      }
    }
  });

  test("good receipts", async () => {
    await ledger.verifyReceipt(read("events/verify/testdata/receipt/good-not-anchored.json"));
    const receipt = await ledger.verifyReceipt(read("events/verify/testdata/receipt/good.json"));
    for (const size of [11, 16]) {
      equal((await ledger.checkOnchain("http://rpc", receipt, { fetch: nodeOf(vectorChain(size)) })).size, size);
    }
    await rejects(ledger.checkOnchain("http://rpc", receipt, { fetch: nodeOf(vectorChain(10)) }), ledger.AnchorError, { field: "anchor.committedSize" });
    for (const body of ["<html>", '{"result":null}']) {
      await rejects(ledger.checkOnchain("http://rpc", receipt, { fetch: async () => new Response(body) }), ledger.ChainUnreachableError);
    }
    for (const [result, error] of [["{}", ledger.ChainUnreachableError], ['{"context":{"slot":4241},"value":null}', ledger.ChainUnreachableError], ['{"context":{"slot":4242},"value":null}', ledger.AnchorError]]) {
      const saying = async (url, request) =>
        JSON.parse(request.body).method === "getAccountInfo" ? new Response(`{"result":${result}}`) : nodeOf(vectorChain(11))(url, request);
      await rejects(ledger.checkOnchain("http://rpc", receipt, { fetch: saying }), error);
    }
    const fetch = async (url) => Promise.reject(new TypeError(`error sending request for url (${url})`)); // as in Deno
    for (const url of ["https://user:secret@127.0.0.1:1", "https://127.0.0.1:99999/secret", "https://127.0.0.1:1/secret"]) {
      ok(!String(await rejects(ledger.checkOnchain(url, receipt, { fetch }), ledger.ChainUnreachableError)).includes("secret"), url);
    }
  });

  const badReceipts = named("events/verify/testdata/receipt/bad/");
  test("every bad receipt that is named is there", () => equal(Object.keys(receipts).filter((name) => !badReceipts.includes(name)), []));
  for (const name of badReceipts) {
    test(`bad receipt ${name}`, async () => {
      const check = async () => {
        const receipt = await ledger.verifyReceipt(read(`events/verify/testdata/receipt/bad/${name}.json`));
        ok(name.startsWith("onchain-"), "it passed offline");
        await ledger.checkOnchain("http://rpc", receipt, { fetch: nodeOf(vectorChain(11)) });
      };
      const err = await rejects(check(), ledger.VerificationError, { liar: "issuer" });
      if (receipts[name]) return equal([err.name, err.field], receipts[name]);
      equal(err.name, "MalformedError");
      const words = name.split("-"), field = err.field.toLowerCase().split(".");
      equal(words.slice(0, field.length), field);
    });
  }

  test("what is no receipt", async () => {
    const good = read("events/verify/testdata/receipt/good.json");
    for (const text of ["", "receipt", "[]", "null", '{"a":1}', good + "{}", good.replace('"treeSize": 5,', ""), good.replace('"version"', '"extra": 1, "version"'),
      good.replace('"leafHash": "', '"leafHash": "AB'), good.replace('"treeSize": 5', '"treeSize": 5.5'), good.replace('"treeSize": 5', '"treeSize": 1e30'),
      good.replace('"content"', '"content": "shown by other readers", "content"')]) {
      await rejects(ledger.verifyReceipt(text), ledger.MalformedError);
    }
  });

  test("errors are printable", async () => {
    const bad = "\u001b[2J\u009b31m\u202e\r\n", good = read("events/verify/testdata/receipt/good.json");
    const member = await rejects(ledger.verifyReceipt(good.replace('"version"', `${JSON.stringify(bad)}: 1, "version"`)), ledger.MalformedError);
    const refusing = new ledger.MemoryLedger({ url: "http://service", fetch: async () => new Response(JSON.stringify({ error: `${bad}good` }), { status: 400 }) });
    const refused = await rejects(refusing.keys.list(), ledger.InvalidRequestError);
    for (const { message } of [member, refused]) ok(!/[\p{C}\p{Zl}]/u.test(message), JSON.stringify(message));
  });

  // Reads an export in pieces of `piece` bytes, by default as one, and counts its leaves.
  const readExport = async (text, piece = Infinity) => {
    const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
    const stream = new ReadableStream({
      at: 0,
      pull(controller) {
        if (this.at >= bytes.length) return controller.close();
        controller.enqueue(bytes.slice(this.at, this.at + piece));
        this.at += piece;
      },
    });
    const leaves = ledger.verifyExport(stream), opened = [];
    for (;;) {
      const { done, value } = await leaves.next();
      if (done) return { header: value, opened };
      opened.push(value.entry?.content ?? null);
    }
  };
  const goodExport = "events/verify/testdata/export/good.ndjson";

  test("good exports", async () => {
    for (const piece of [1, 7, Infinity]) {
      const { header, opened } = await readExport(read(goodExport), piece);
      equal([header.treeSize, header.anchor.committedSize], [7, 5]);
      equal(opened, [0, 1, 2, null, 4, 5, 6].map((n) => n === null ? null : `memory ${n} ☂`));
    }
    equal((await readExport(read("events/verify/testdata/export/good-not-anchored.ndjson"))).header.anchor, null);
    equal((await readExport(read("events/verify/testdata/export/good-empty.ndjson"))).opened, []);
    equal((await readExport(read("events/verify/testdata/export/good-damaged.ndjson"))).opened[2], null);
  });

  test("every bad export has its error", () => equal(named("events/verify/testdata/export/bad/").sort(), Object.keys(exports).sort()));
  for (const [name, [kind, field]] of Object.entries(exports)) {
    test(`bad export ${name}`, async () => {
      await rejects(readExport(read(`events/verify/testdata/export/bad/${name}.ndjson`)), ledger.VerificationError, { name: kind, field, liar: "issuer" });
    });
  }

  test("an export that is not UTF-8", async () => {
    const bytes = new TextEncoder().encode(read(goodExport).replace("memory 2", "memory \u0000"));
    bytes[bytes.indexOf(0)] = 0xff;
    for (const piece of [1, 7, Infinity]) await rejects(readExport(bytes, piece), ledger.MalformedError, { field: "line" });
    const cut = new TextEncoder().encode(read(goodExport).split("☂")[0] + "☂").slice(0, -1);
    await rejects(readExport(cut), ledger.IncompleteExportError);
  });

  test("an export that ends anywhere is not whole", async () => {
    const text = read(goodExport);
    for (let size = 0; size < text.length; size += 13) await rejects(readExport(text.slice(0, size)), ledger.IncompleteExportError);
    await rejects(readExport(text.slice(0, -1)), ledger.IncompleteExportError);
  });

  test("a receipt that was saved before its anchor is not wrong, and can be completed", async () => {
    const later = json("events/verify/testdata/receipt/good.json"), early = { ...later, anchor: null, consistency: [] };
    const { programId } = later.anchor;
    await rejects(ledger.checkOnchain("http://rpc", early, { fetch: () => ok(false) }), ledger.NotAnchoredError, {});
    await rejects(ledger.checkIssuer(early, { programId }), ledger.NotAnchoredError, {});
    ok(!(new ledger.NotAnchoredError() instanceof ledger.VerificationError));
    equal((await ledger.completeReceipt(early, later)).anchor.committedSize, 11);
    equal(await ledger.completeReceipt(later, early), later);
    await rejects(ledger.completeReceipt(early, early), ledger.NotAnchoredError, {});
    await rejects(ledger.completeReceipt(early, json("docs/journey/receipt.json")), ledger.OwnerMismatchError, { field: "entry.owner" });
    // Another leaf of the same tree, as the chain's first commitment has it.
    const journey = json("docs/journey/receipt.json"), { commits, ...chain } = json("docs/journey/commitment.json");
    const before = { ...journey, anchor: null, consistency: [] };
    const node = (commits) => async (_, { body }) => {
      const { method, params } = JSON.parse(body), commit = commits.find((c) => c.txSignature === params[0]);
      const result = {
        getGenesisHash: () => chain.cluster,
        getSignaturesForAddress: () => params[0] === chain.account && !params[1].before ? [{ signature: "failed", err: "why" }, ...commits.toReversed().map((c) => ({ signature: c.txSignature, err: null }))] : [],
        getTransaction: () => ({ slot: commit.slot, meta: { err: null }, transaction: { message: {
          accountKeys: [chain.authority, chain.account, chain.programId],
          instructions: [{ programIdIndex: 2, accounts: [0, 1], data: ledger.toBase58(hex(commit.instruction)) }] } } }),
      }[method]();
      return new Response(JSON.stringify({ jsonrpc: "2.0", id: 1, result }));
    };
    const done = await ledger.completeOnchain("http://rpc", before, chain, { fetch: node(commits) });
    equal([done.anchor.committedSize, done.anchor.slot, done.anchor.txSignature], [5, 4100, commits[0].txSignature]);
    await ledger.checkIssuer(done, chain);
    await rejects(ledger.completeOnchain("http://rpc", before, chain, { fetch: node(commits.slice(1)) }), ledger.NotAnchoredError, {});
    const forked = [{ ...commits[0], instruction: commits[0].instruction.replace(/.$/, (c) => c === "0" ? "1" : "0") }, commits[1]];
    await rejects(ledger.completeOnchain("http://rpc", before, chain, { fetch: node(forked) }), ledger.RootMismatchError, { field: "batchRoot" });
    await rejects(ledger.completeOnchain("http://rpc", before, { programId, authority: "x" }, {}), TypeError);
    // From before its owner moved, with another operator's anchor of the same tree.
    const moved = { ...journey, anchor: { ...journey.anchor, account: journey.anchor.programId } };
    for (const made of [commits, commits.slice(1)]) {
      const there = await ledger.completeOnchain("http://rpc", moved, chain, { fetch: node(made) });
      equal([there.anchor.account, there.anchor.committedSize, there.consistency.length], [chain.account, 7, journey.consistency.length]);
    }
    equal((await ledger.completeReceipt(moved, journey)).anchor.account, chain.account);
  });

  const staking = JSON.parse(read("anchoring/staking/testdata/transactions.json"));
  const moveOf = (vector) => ({ programId: staking.Program, mint: staking.Mint, owner: staking.Owner, move: vector.Kind === 2 ? "stake" : "unstake", amount: vector.Amount });
  for (const vector of staking.Transactions) {
    test(`staking transaction: ${vector.Name}`, async () => {
      const check = ledger.checkTransaction(vector.Transaction, moveOf(vector));
      if (!vector.Wrong) return check;
      await rejects(check, ledger.TransactionError, { field: vector.Wrong, liar: "service" });
    });
  }

  test("a staking transaction of another program or mint, or of no amount", async () => {
    const [vector] = staking.Transactions;
    for (const other of [{ programId: "x" }, { programId: staking.Mint }, { mint: staking.Owner }, { mint: "" }]) {
      await rejects(ledger.checkTransaction(vector.Transaction, { ...moveOf(vector), ...other }), ledger.TransactionError, {});
    }
    for (const amount of ["", "1.5", "-1", String(2n ** 64n + BigInt(vector.Amount))]) {
      await rejects(ledger.checkTransaction(vector.Transaction, { ...moveOf(vector), amount }), TypeError);
    }
  });

  test("base58", () => {
    for (const bytes of [new Uint8Array(32), Uint8Array.from({ length: 32 }, (_, i) => i), new Uint8Array(32).fill(255)]) {
      equal([...ledger.fromBase58(ledger.toBase58(bytes), 32)], [...bytes]);
    }
    for (const text of ["", "1", "l0O", "1".repeat(33), "z".repeat(44), "1".repeat(1e6), 5]) ok(ledger.fromBase58(text, 32) === undefined, String(text).slice(0, 50));
  });

  return tests;
}
