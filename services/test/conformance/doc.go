// Package conformance holds the Model Context Protocol's route to the protocol's own
// suite, and tries it with official clients that are not Go's: the TypeScript SDK and
// the inspector. They come from npm, pinned in testdata/suite, and need a newer Node
// than the rest of the repository, which comes from npm too.
package conformance
