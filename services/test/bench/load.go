package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// request fills in the n-th request of a load.
type request func(n int, r *fasthttp.Request)

// result of one round.
type result struct {
	perSecond float64
	p50, p99  time.Duration
}

// drive sends requests over a number of connections for a while and checks
// that each is answered with the given status.
func drive(ctx context.Context, connections int, d time.Duration, status int, fill request) (result, error) {
	return driveAnd(ctx, connections, d, status, fill, func(int, *fasthttp.Response) error { return nil })
}

// driveAnd is drive, and passes the answer to the n-th request to take.
func driveAnd(ctx context.Context, connections int, d time.Duration, status int, fill request, take func(n int, r *fasthttp.Response) error) (result, error) {
	client := &fasthttp.Client{MaxConnsPerHost: connections, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	end := time.Now().Add(d)
	var counter atomic.Int64
	latencies := make([][]time.Duration, connections)
	errs := make([]error, connections)
	var group sync.WaitGroup
	start := time.Now()
	for i := range connections {
		group.Go(func() {
			req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			defer fasthttp.ReleaseRequest(req)
			defer fasthttp.ReleaseResponse(res)
			for ctx.Err() == nil && time.Now().Before(end) {
				req.Reset()
				n := int(counter.Add(1))
				fill(n, req)
				begin := time.Now()
				if err := client.Do(req, res); err != nil {
					errs[i] = err
					return
				}
				latencies[i] = append(latencies[i], time.Since(begin))
				if res.StatusCode() != status {
					errs[i] = fmt.Errorf("status %d: %.200s", res.StatusCode(), res.Body())
					return
				}
				if errs[i] = take(n, res); errs[i] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	elapsed := time.Since(start)
	if err := errors.Join(errs...); err != nil {
		return result{}, err
	}
	all := slices.Concat(latencies...)
	if len(all) == 0 {
		return result{}, errors.New("no request was answered")
	}
	slices.Sort(all)
	return result{
		perSecond: float64(len(all)) / elapsed.Seconds(),
		p50:       all[len(all)/2], p99: all[len(all)*99/100],
	}, nil
}

// series holds the results of a contender, one for each round, and their medians, member
// by member.
type series struct {
	result
	rounds []result
}

func newSeries(rounds []result) series {
	pick := func(of func(result) float64) float64 { return medianBy(rounds, of) }
	return series{result{
		perSecond: pick(throughput), p50: time.Duration(pick(middle)), p99: time.Duration(pick(tail)),
	}, rounds}
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
	if n := len(values); n%2 == 0 {
		return (values[n/2-1] + values[n/2]) / 2
	}
	return values[len(values)/2]
}

func medianOf(all []time.Duration) time.Duration {
	return time.Duration(medianBy(all, func(d time.Duration) float64 { return float64(d) }))
}

// contender is one side of a comparison.
type contender struct {
	name string
	run  func(ctx context.Context) (result, error)
}

// compare runs the contenders in turn, round after round, and returns each contender's
// series. One extra round first warms up all contenders and does not count. Each round
// has its own order, so that no contender always runs after the same other contender,
// whose dirty pages are still being written.
func compare(ctx context.Context, rounds int, contenders ...contender) ([]series, error) {
	collected := make([][]result, len(contenders))
	for round := range rounds + 1 {
		for _, i := range rand.Perm(len(contenders)) {
			c := contenders[i]
			r, err := c.run(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
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
