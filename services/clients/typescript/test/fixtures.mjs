// The test files that every verifier of this repository must agree with: their texts, by path.
import { readdirSync, readFileSync } from "node:fs";

const root = new URL("../../../../", import.meta.url);
const folders = ["events/verify/leaf/testdata/", "docs/journey/", "events/verify/testdata/receipt/", "events/verify/testdata/export/", "anchoring/staking/testdata/"];

export function fixtures() {
  const files = {};
  for (const folder of folders) {
    for (const name of readdirSync(new URL(folder, root), { recursive: true })) {
      const path = folder + name.replaceAll("\\", "/");
      if (/\.(nd)?json$/.test(path)) files[path] = readFileSync(new URL(path, root), "utf8");
    }
  }
  return files;
}
