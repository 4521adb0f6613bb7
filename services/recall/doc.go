// Package recall finds the memories of an owner that answer a question in words,
// best first.
//
// A text becomes terms: UAX 29 words in NFKC, case folded, without diacritics,
// stemmed in the language that its function words tell; scripts without spaces
// become pairs of characters. A query's words are looked up among the terms, and
// the memories that have some of them are ranked by BM25 (Robertson and Zaragoza,
// "The Probabilistic Relevance Framework", 2009). Two bounded parts are added, see
// [Engine.Rank]: memories written beside one that matches, and newer ones, rank a
// little higher.
//
// Texts are sealed, so the index of an owner is made in memory, of the texts that a
// search opens anyway, and nothing of it is ever written. The plain path makes the
// index of each run of leaves, asks it and drops it. Blocks stands before it and
// keeps what was made.
//
// Where the operator has an endpoint for embeddings, [Vectors] compares meanings, too:
// [Ranking.Fused] fuses both orders. VectorTable stores vectors, sealed, and
// VectorCache keeps opened ones.
package recall
