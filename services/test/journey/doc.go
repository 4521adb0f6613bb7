// Package journey makes docs/journey: one memory on its whole way, from the
// request to the receipt, as files that share ids, for people who write
// verifiers in other languages. The command side, the keystore, the codec, the
// tree and the commitment's bytes are the product's own; time, ids, keys and
// the chain are made up, so that the files are the same every time.
package journey

//go:generate go run ./write ../../../docs/journey
