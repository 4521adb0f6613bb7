package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"
)

// request fills in the n-th request of a load.
type request func(n int, r *fasthttp.Request)

// result of one round. A round that does one thing has only a p50.
type result struct {
	perSecond float64
	p50, p99  time.Duration
}

// load returns a contender that sends requests over a number of connections for a round,
// and checks that each is answered with the given status.
func (w *world) load(connections, status int, fill request) contender {
	return func(ctx context.Context) (result, error) { return w.drive(ctx, connections, status, fill) }
}

func (w *world) drive(ctx context.Context, connections, status int, fill request) (result, error) {
	client := &fasthttp.Client{MaxConnsPerHost: connections, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	var counter atomic.Int64
	latencies := make([][]time.Duration, connections)
	group, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	for i := range connections {
		group.Go(func() error {
			req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			defer fasthttp.ReleaseRequest(req)
			defer fasthttp.ReleaseResponse(res)
			for ctx.Err() == nil && time.Since(start) < w.duration {
				req.Reset()
				fill(int(counter.Add(1)), req)
				begin := time.Now()
				if err := client.Do(req, res); err != nil {
					return err
				}
				latencies[i] = append(latencies[i], time.Since(begin))
				if res.StatusCode() != status {
					return fmt.Errorf("status %d: %.200s", res.StatusCode(), res.Body())
				}
			}
			return ctx.Err()
		})
	}
	err := group.Wait()
	return newResult(slices.Concat(latencies...), time.Since(start)), err
}

func newResult(latencies []time.Duration, elapsed time.Duration) result {
	slices.Sort(latencies)
	n := len(latencies)
	if n == 0 {
		return result{}
	}
	return result{float64(n) / elapsed.Seconds(), latencies[n/2], latencies[n*99/100]}
}

// series holds the results of a contender, one for each round, and their medians, member
// by member.
type series struct {
	result
	rounds []result
}

func newSeries(rounds []result) series {
	pick := func(of func(result) float64) time.Duration { return time.Duration(medianBy(rounds, of)) }
	return series{result{medianBy(rounds, throughput), pick(middle), pick(tail)}, rounds}
}

func throughput(r result) float64 { return r.perSecond }
func middle(r result) float64     { return float64(r.p50) }
func tail(r result) float64       { return float64(r.p99) }

// ratio returns the median of the rounds' ratios. Two loads of one round run within
// seconds of each other, so a change of the machine from one minute to the next affects
// both.
func ratio(ours, beside series, of func(result) float64) float64 {
	ratios := make([]float64, len(ours.rounds))
	for i := range ratios {
		ratios[i] = of(ours.rounds[i]) / of(beside.rounds[i])
	}
	return medianBy(ratios, func(r float64) float64 { return r })
}

func medianBy[T any](all []T, of func(T) float64) float64 {
	values := make([]float64, len(all))
	for i, one := range all {
		values[i] = of(one)
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// contender is one side of a comparison.
type contender func(ctx context.Context) (result, error)

// compare runs the contenders in turn, round after round, and returns each contender's
// series. One extra round first warms up all contenders and does not count. Each round
// has its own order, so that no contender always runs after the same other contender,
// whose dirty pages are still being written.
func compare(ctx context.Context, rounds int, contenders ...contender) ([]series, error) {
	collected := make([][]result, len(contenders))
	for round := range rounds + 1 {
		for _, i := range rand.Perm(len(contenders)) {
			r, err := contenders[i](ctx)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				collected[i] = append(collected[i], r)
			}
		}
	}
	all := make([]series, len(contenders))
	for i, rounds := range collected {
		all[i] = newSeries(rounds)
	}
	return all, nil
}

// add prints a line of the table.
func add(work string, ours, beside any, ratio float64) {
	fmt.Printf("| %s | %v | %v | %.2f |\n", work, ours, beside, ratio)
}

// addRate compares throughputs.
func addRate(work string, ours, beside series) {
	rate := func(s series) string {
		return fmt.Sprintf("%.0f/s (p50 %v, p99 %v)", s.perSecond, short(s.p50), short(s.p99))
	}
	add(work, rate(ours), rate(beside), ratio(ours, beside, throughput))
}

// addTime compares durations.
func addTime(work string, ours, beside series, of func(result) float64) {
	add(work, short(time.Duration(of(ours.result))), short(time.Duration(of(beside.result))), ratio(ours, beside, of))
}

// short rounds to some three digits.
func short(d time.Duration) time.Duration {
	return d.Round(max(d/500, time.Microsecond)).Round(time.Microsecond)
}
