// Package recall finds the memories of an owner that answer a question in words, best
// first.
//
// A text becomes terms: UAX 29 words in NFKC, case folded, without diacritics, stemmed in
// the language that its function words indicate. Scripts without spaces become pairs of
// characters. A query's words are looked up among the terms. Memories that have some of
// them, or in English some related words, are ranked by BM25 (Robertson and Zaragoza, "The
// Probabilistic Relevance Framework", 2009). Two bounded parts are added, see [Query.Rank]:
// memories written beside a match, and newer memories, rank a little higher.
//
// Related words come from a table that is part of the program: related_en.bin has vectors
// of words, related_en.txt the words that answer everyday questions. No text, word or query
// leaves the process.
//
// Texts are sealed, so the index of an owner's words is made in memory, from opened texts,
// and no part of it is ever written. Each [Words] indexes a run of leaves.
package recall
