package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/valyala/fasthttp"
)

// readerToken is the environment variable that has the bearer token of a reader.
const readerToken = "BENCH_TOKEN"

// readAlone repeatedly gets a URL on one connection, and prints a readerReport.
func readAlone(args []string) error {
	flags := flag.NewFlagSet("reader", flag.ContinueOnError)
	url := flags.String("url", "", "what to get")
	duration := flags.Duration("duration", time.Second, "for how long")
	if err := flags.Parse(args); err != nil {
		return err
	}
	authorization := "Bearer " + os.Getenv(readerToken)
	r, err := drive(context.Background(), 1, *duration, fasthttp.StatusOK, func(_ int, r *fasthttp.Request) {
		r.SetRequestURI(*url)
		r.Header.Set("Authorization", authorization)
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(readerReport{r.perSecond, int64(r.p50), int64(r.p99)})
}

// readerReport is a result that one process passes to another. Times are in nanoseconds.
type readerReport struct {
	PerSecond float64
	P50, P99  int64
}

// spawnReader reads in a separate process. In this process the reader would wait for its
// turn among the clients that make the load, a thousand of them on two processors, and
// the wait would count as the service's.
func spawnReader(ctx context.Context, url, token string, d time.Duration) (result, error) {
	self, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	cmd := exec.CommandContext(ctx, self, "reader", "-url", url, "-duration", d.String())
	cmd.Env = append(os.Environ(), readerToken+"="+token)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("reader of %s: %w", url, err)
	}
	var report readerReport
	if err := json.Unmarshal(out, &report); err != nil {
		return result{}, fmt.Errorf("reader of %s: %w", url, err)
	}
	return result{report.PerSecond, time.Duration(report.P50), time.Duration(report.P99)}, nil
}
