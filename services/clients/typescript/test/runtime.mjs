// Runs everywhere.mjs in Node, Deno or Bun: runtime.mjs CLIENT URL, with the path of the client's index.js.
import process from "node:process";
import { pathToFileURL } from "node:url";
import { run } from "./everywhere.mjs";
import { fixtures } from "./fixtures.mjs";

const [client, url] = process.argv.slice(2);
const { count, failures } = await run(await import(pathToFileURL(client)), fixtures(), url);
console.log(`${count - failures.length} of ${count} passed`, ...failures.map((failure) => `\n${failure}`));
process.exit(failures.length === 0 ? 0 : 1);
