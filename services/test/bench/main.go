// Command bench compares Memory Ledger with the service that a user would write instead,
// in one run on one machine, in interleaved rounds. Only the ratios count: machines
// differ and drift, but both sides drift together.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
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
	large       int    // leaves of the large log
	grown       int    // owners with history, at most
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "plain":
			exit(servePlain(os.Args[2:]))
		case "reader":
			exit(readAlone(os.Args[2:]))
		}
	}
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each measurement")
	flag.DurationVar(&o.duration, "duration", 3*time.Second, "length of a round under load")
	flag.IntVar(&o.connections, "connections", 64, "connections under load")
	flag.IntVar(&o.owners, "owners", 1000, "owners who write")
	flag.IntVar(&o.large, "large", 1_000_000, "leaves of the largest log")
	flag.IntVar(&o.grown, "grown", 100_000, "owners with history at the end of the case growth")
	flag.StringVar(&o.only, "only", "", "run only the cases whose name contains this")
	flag.StringVar(&o.ledger, "ledger", "bin/ledger", "the program to measure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(bench(ctx, o))
}

func exit(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// suite is a group of cases that share the processes that they start.
type suite struct {
	name string
	run  func(ctx context.Context, w *world) error
}

func bench(ctx context.Context, o options) error {
	w, err := newWorld(ctx, o)
	if err != nil {
		return err
	}
	defer w.close()
	for _, s := range []suite{
		{"write", writes}, {"import", imports}, {"read", reads}, {"search", searches}, {"list", lists}, {"overload", overloads}, {"proof", proofs}, {"deployed", deployed(deployments)}, {"growth", deployed(growths)},
		{"feed", feeds}, // last, because its second replica slows down later reads
	} {
		if o.only != "" && !strings.Contains(s.name, o.only) {
			continue
		}
		if err := s.run(ctx, w); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return w.report.print(os.Stdout, w)
}
