// Package browser holds the tests that need a browser. They test the sign-in page and the
// extension API's answers to other origins in a real Chromium, with a real extension,
// against the real API. They test the dashboard and the product's own extension in
// Chromium and Firefox. They test the TypeScript client and its example page against the
// core API, in Chromium, Node, Deno and Bun. The package has no other code. A proxy
// checks the extension API's answers to the browser against the API's OpenAPI document.
//
// `make verify` runs them. They need Node 20, Chromium and Firefox; if one is missing, the
// tests say so and are skipped, except in CI (CI=true), where they fail. `make deps`
// installs them.
//
// LEDGER_SCREENSHOTS names a folder that gets a picture of every state of the
// page; LEDGER_SCENARIOS is a regular expression that picks scenarios.
package browser
