// Writes src/schema/*.ts, the types of both OpenAPI documents. The routes are left
// out: the client names them by hand, and only the schemas' types are used.
import { readFileSync, renameSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createClient } from "@hey-api/openapi-ts";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
for (const api of ["core", "extension"]) {
  const { parameters, responses, headers, ...components } = JSON.parse(readFileSync(here(`../../${api}/openapi.json`), "utf8")).components;
  await createClient({
    input: { openapi: "3.1.1", info: { title: api, version: "1" }, paths: {}, components: { schemas: components.schemas } },
    output: { path: here("build"), clean: true },
    plugins: ["@hey-api/typescript"],
    logs: { level: "silent" },
  });
  renameSync(here("build/types.gen.ts"), here(`src/schema/${api}.ts`));
}
rmSync(here("build"), { recursive: true });
