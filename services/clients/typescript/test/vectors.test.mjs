// The golden vectors in Node.
import { test } from "node:test";
import * as ledger from "../dist/index.js";
import { fixtures } from "./fixtures.mjs";
import { vectors } from "./vectors.mjs";

for (const { name, run } of vectors(ledger, fixtures())) test(name, run);
