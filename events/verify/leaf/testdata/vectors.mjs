// Writes vectors.json: leaves of version 1, computed without any of the Go
// code. RFC 8785 is based on JavaScript's own number and string forms.
import { createHash, createHmac, hkdfSync } from "node:crypto";
import { writeFileSync } from "node:fs";

const jcs = (v) =>
  v === null || typeof v !== "object" ? JSON.stringify(v)
  : Array.isArray(v) ? "[" + v.map(jcs).join(",") + "]"
  : "{" + Object.keys(v).sort().map((k) => JSON.stringify(k) + ":" + jcs(v[k])).join(",") + "}";

const owner = "4Nd1mYvYzk6jNsMbXzN7XUxuJdDmHMczYbsYnyDyB1vM";
const cases = [
  ["plain", "00".repeat(32), "the sky is blue", {}],
  ["metadata is sorted", "01".repeat(32), "x", { b: 1, a: [true, null, "é"], "\u20ac": 1e21, "1": -0 }],
  ["names sort by UTF-16 code units", "02".repeat(32), "x", { "\ud83d\ude00": 1, "\ufb33": 2 }],
  ["control characters", "03".repeat(32), "nul \u0000 tab \t newline \n quote \" backslash \\ del \u007f", { "\u0000": "\u001f" }],
  ["numbers take the shortest form", "04".repeat(32), "n", { a: 1e-7, b: 0.1 + 0.2, c: 123456789012345680000, d: 5e-324, e: 1.7976931348623157e308 }],
  ["html is not escaped", "05".repeat(32), "<script>&amp;</script> \u2028", { "<": "&>" }],
  ["a salt depends on the data key", "06".repeat(32), "the sky is blue", {}],
  ["a guest has salts of its own", "00".repeat(32), "the sky is blue", {}, "01926f3a-7b1c-7def-8123-456789abcdef"],
];
const out = cases.map(([name, dataKey, content, metadata, guest]) => {
  const secret = Buffer.from(hkdfSync("sha256", Buffer.from(dataKey, "hex"), "", guest ? "memory-ledger/leaf/guest/v1" + guest : "memory-ledger/leaf/v1", 32));
  const salt = createHmac("sha256", secret).update(jcs({ content, metadata, owner, v: 1 })).digest("hex");
  const entry = jcs({ content, metadata, owner, salt, v: 1 });
  const leafHash = createHash("sha256").update(Buffer.concat([Buffer.from([0]), Buffer.from(entry)])).digest("hex");
  return { name, dataKey, guest, owner, content, metadata: jcs(metadata), salt, entry, leafHash };
});
writeFileSync(new URL("vectors.json", import.meta.url), JSON.stringify(out, null, 2) + "\n");
