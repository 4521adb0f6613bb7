// Command fetch brings into the user's cache what the local run and the tests need beside
// Go and the machine lacks: PostgreSQL's server, Node and the local chain's modules.
// Nothing is installed. It prints what it downloads, and nothing where all is there.
// With the argument node, it prints only the path of Node's program.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/node"
	"github.com/memory-ledger/ledger/infra/npm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := fetch
	if len(os.Args) == 2 && os.Args[1] == "node" {
		do = printNode
	}
	if err := do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func printNode(ctx context.Context) error {
	program, err := node.Program(ctx, npm.CacheFolder(), func(line string) { fmt.Fprintln(os.Stderr, line) })
	if err == nil {
		fmt.Println(program)
	}
	return err
}

func fetch(ctx context.Context) error {
	say := func(line string) { fmt.Println(line) }
	if _, err := localpostgres.Find(); err != nil {
		if _, err := localpostgres.Fetch(ctx, say); err != nil {
			return err
		}
	}
	return localchain.Fetch(ctx, localchain.Config{OnFetch: say})
}
