// Command bench compares Memory Ledger with the service that a user would write instead:
// fiber, pgx and PostgreSQL. Both run at the same time on one machine, and are measured
// in interleaved rounds. Only the ratios count: machines differ and drift, but both sides
// drift together.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// options of a run.
type options struct {
	rounds      int
	duration    time.Duration // of one round of a load
	connections int
	owners      int
	only        string
	ledger      string // path of bin/ledger
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each measurement")
	flag.DurationVar(&o.duration, "duration", 3*time.Second, "length of a round under load")
	flag.IntVar(&o.connections, "connections", 64, "connections under load")
	flag.IntVar(&o.owners, "owners", 1000, "owners who write, at least 100")
	flag.StringVar(&o.only, "only", "", "run only the parts whose name contains this: write, read, search, import, rebuild, deployed")
	flag.StringVar(&o.ledger, "ledger", "bin/ledger", "the program to measure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := bench
	if flag.Arg(0) == "plain" {
		run = func(context.Context, options) error { return servePlain(flag.Arg(1), flag.Arg(2)) }
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// part is what is measured in a world of its own, which start makes.
type part struct {
	name  string
	start func(*world, context.Context) error
	run   func(*world, context.Context) error
}

var parts = []part{
	{"write", (*world).startLocal, (*world).writes},
	{"read", (*world).startLocal, (*world).reads},
	{"search", (*world).startLocal, (*world).searches},
	{"import", (*world).startLocal, (*world).imports},
	{"rebuild", (*world).startLocal, (*world).rebuilds},
	{"deployed", (*world).startDeployed, (*world).deployed},
}

func bench(ctx context.Context, o options) error {
	fmt.Printf("%d cores; medians of %d interleaved rounds of %v\n\n", runtime.NumCPU(), o.rounds, o.duration)
	fmt.Println("| work | ours | beside | ratio |\n|---|---|---|---|")
	for _, part := range parts {
		if !strings.Contains(part.name, o.only) {
			continue
		}
		w := &world{options: o}
		err := w.start(ctx, part.start)
		if err == nil {
			err = part.run(w, ctx)
		}
		w.close()
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}
