// The Go contenders of `make bench`: contender WHO KEYS HOST:PORT. benches/README.md has the protocol.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/zeromicro/go-zero/core/limit"
	"github.com/zeromicro/go-zero/core/logx"
	gozero "github.com/zeromicro/go-zero/core/stores/redis"
)

const (
	goroutines = 256
	burst      = 1_000_000_000
)

// Decides on the key of that number; says whether it was admitted.
type decide func(key int) (bool, error)

type ask struct {
	Warm, Seconds float64
}

type tally struct {
	latencies []time.Duration
	seconds   float64
	odd       int
	err       error
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: contender redis_rate|redis_rate-autopipeline|go-zero KEYS HOST:PORT")
	}
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	keys := make([]string, count)
	for key := range keys {
		keys[key] = fmt.Sprintf("user:%05d", key)
	}
	decide, err := contender(args[0], args[2], keys)
	if err != nil {
		return err
	}
	if err := touchAll(decide, count); err != nil {
		return err
	}
	return serve(decide, count)
}

func contender(who, address string, keys []string) (decide, error) {
	ctx := context.Background()
	switch who {
	case "redis_rate", "redis_rate-autopipeline":
		client := redis.NewClient(&redis.Options{Addr: address})
		limiter := redis_rate.NewLimiter(client)
		if who == "redis_rate-autopipeline" {
			pipelined, err := client.AutoPipeline()
			if err != nil {
				return nil, err
			}
			limiter = redis_rate.NewLimiter(pipelined)
		}
		spec := redis_rate.Limit{Rate: 1, Burst: burst, Period: time.Second}
		return func(key int) (bool, error) {
			result, err := limiter.Allow(ctx, keys[key], spec)
			return err == nil && result.Allowed == 1, err
		}, nil
	case "go-zero":
		logx.Disable()
		store, err := gozero.NewRedis(gozero.RedisConf{Host: address, Type: gozero.NodeType})
		if err != nil {
			return nil, err
		}
		limiters := make([]*limit.TokenLimiter, len(keys))
		for key := range limiters {
			limiters[key] = limit.NewTokenLimiter(1, burst, store, keys[key])
		}
		return func(key int) (bool, error) { return limiters[key].AllowCtx(ctx), nil }, nil
	}
	return nil, fmt.Errorf("no contender %s", who)
}

func touchAll(decide decide, count int) error {
	var group sync.WaitGroup
	failed := make(chan error, goroutines)
	for first := range goroutines {
		group.Go(func() {
			for key := first; key < count; key += goroutines {
				if _, err := decide(key); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failed)
	return <-failed
}

func serve(decide decide, count int) error {
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(map[string]bool{"ready": true}); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var ask ask
		if err := json.Unmarshal(lines.Bytes(), &ask); err != nil {
			return err
		}
		warm := callAll(decide, count, ask.Warm)
		measured := callAll(decide, count, ask.Seconds)
		if err := errors.Join(warm.err, measured.err); err != nil {
			return err
		}
		slices.Sort(measured.latencies)
		err := out.Encode(map[string]any{
			"decisions": len(measured.latencies),
			"seconds":   measured.seconds,
			"total":     len(warm.latencies) + len(measured.latencies),
			"odd":       warm.odd + measured.odd,
			"p50_us":    quantile(measured.latencies, 0.50),
			"p99_us":    quantile(measured.latencies, 0.99),
		})
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

func callAll(decide decide, count int, seconds float64) tally {
	tallies := make([]tally, goroutines)
	started := time.Now()
	end := started.Add(time.Duration(seconds * float64(time.Second)))
	var group sync.WaitGroup
	for i := range tallies {
		group.Go(func() { tallies[i] = callUntil(decide, count, end) })
	}
	group.Wait()
	sum := tally{seconds: time.Since(started).Seconds()}
	for _, one := range tallies {
		sum.latencies = append(sum.latencies, one.latencies...)
		sum.odd += one.odd
		sum.err = errors.Join(sum.err, one.err)
	}
	return sum
}

func callUntil(decide decide, count int, end time.Time) (tally tally) {
	last := time.Now()
	for last.Before(end) {
		admitted, err := decide(rand.IntN(count))
		if err != nil {
			tally.err = err
			return tally
		}
		if !admitted {
			tally.odd++
		}
		now := time.Now()
		tally.latencies = append(tally.latencies, now.Sub(last))
		last = now
	}
	return tally
}

func quantile(sorted []time.Duration, share float64) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	us := float64(sorted[int(float64(len(sorted)-1)*share)].Nanoseconds()) / 1000
	return &us
}
