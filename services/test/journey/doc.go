// Package journey generates docs/journey: files with shared ids that show one memory on
// its whole way, from the request to the receipt. The files are for people who write
// verifiers in other languages. The command side, the keystore, the codec, the tree and
// the commitment's bytes are the product's own. Time, ids, keys and the chain are
// invented, so that the files are the same every time.
package journey

//go:generate go run ./write ../../../docs/journey
