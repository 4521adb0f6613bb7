// Package browser holds the tests that need a browser: the sign-in page and
// the extension API's answers to other origins, tried in a real Chromium with
// a real extension against the real API, the dashboard and the product's own extension in
// Chromium and Firefox, and the TypeScript client and its example page against the core
// API, in Chromium, Deno and Bun. It has no code of its own. Whatever
// the browser is answered is held to the API's OpenAPI document on its way.
//
// They run with the other tests. They need Node 20, npm, Chromium and Firefox;
// where one is missing they say so and are skipped, except in CI (CI=true), where
// they fail. `make deps` installs the browsers.
//
// LEDGER_SCREENSHOTS names a folder that gets a picture of every state of the
// page; LEDGER_SCENARIOS is a regular expression that picks scenarios.
package browser
