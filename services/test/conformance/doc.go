// Package conformance checks the route of the Model Context Protocol with the protocol's
// own suite, and with official clients that are not written in Go: the TypeScript SDK and
// the inspector. They come from npm, pinned in testdata/suite. They need a newer Node
// than the rest of the repository; this Node comes from npm too.
package conformance
