// Package quality measures how often ranked search finds the answer to a question: on plain
// questions in other words than the facts, and on talks in several languages. With the build
// tag bleve it prints bleve's share beside ours. The package contains only tests.
package quality
