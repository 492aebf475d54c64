package perf

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Times of a generator that is not getting answers.
const (
	reconnectPause = 50 * time.Millisecond // after a connection could not be made or broke
	drainTime      = 2 * time.Second       // for requests on their way when a step ends
)

// generator sends the load of one step from start to stop.
type generator struct {
	request  *Request
	options  *Options
	recorder *recorder
	abort    context.Context // its end aborts the requests on their way
	cancel   context.CancelFunc
	going    context.Context // its end, with that of abort at the latest, means no further requests
	finish   context.CancelFunc
	callers  sync.WaitGroup
	behind   atomic.Int64 // nanoseconds that an open loop's schedule is late; at the last arrival sent
}

// start begins to send; the generator is then stopped once.
func start(ctx context.Context, request *Request, o *Options, load Load) *generator {
	connections := load.Concurrency
	if connections == 0 {
		connections = o.MaxConnections
	}
	g := &generator{request: request, options: o, recorder: newRecorder(connections, o.Timeout)}
	g.abort, g.cancel = context.WithCancel(ctx)
	g.going, g.finish = context.WithCancel(g.abort)
	if load.Concurrency == 0 {
		g.callers.Go(func() { g.open(newSchedule(load.Rate, o.Arrivals, o.Seed)) })
		return g
	}
	for i := range load.Concurrency {
		g.callers.Go(func() { g.closed(i, load.Concurrency) })
	}
	return g
}

// stop ends the load and waits for everything that start began. Requests on their way get drainTime.
func (g *generator) stop() {
	g.finish()
	timer := time.AfterFunc(drainTime, g.cancel)
	g.callers.Wait()
	timer.Stop()
	g.cancel()
}

// closed is one caller of a closed loop.
func (g *generator) closed(caller, callers int) {
	c := newConnection(g.request, g.options.Timeout, callers)
	defer c.close()
	for g.going.Err() == nil {
		begin := time.Now()
		g.one(caller, c, begin, begin)
	}
}

// one sends a request that was due at a time and records it, unless it was aborted.
func (g *generator) one(caller int, c *connection, due, begin time.Time) {
	before := c.reconnects
	err := c.call(g.abort)
	if g.abort.Err() != nil {
		return
	}
	g.recorder.record(caller, measured{
		latency: time.Since(due), delay: begin.Sub(due), reconnects: c.reconnects - before, err: err,
	})
	if err != nil && c.raw == nil {
		wait(g.going, reconnectPause) // a caller whose connection broke does not try without a break
	}
}

// open hands every arrival to an idle caller when it is due. Another caller with a connection of its own joins when all
// are busy. Once there are as many as allowed the arrivals wait here, late, and their wait counts as latency.
func (g *generator) open(s *schedule) {
	runtime.LockOSThread() // never unlocked: the thread's timers are changed, so it ends with this goroutine
	fineTimer()
	arrivals := make(chan time.Time)
	defer close(arrivals)
	callers := 0
	for origin := time.Now(); ; {
		due := origin.Add(s.next())
		if !sleepUntil(g.going, due) {
			return
		}
		select {
		case arrivals <- due:
		default:
			if callers < g.options.MaxConnections {
				g.join(callers, arrivals, due)
				callers++
			} else if !g.handOver(arrivals, due) {
				return
			}
		}
		g.behind.Store(int64(time.Since(due)))
	}
}

func (g *generator) handOver(arrivals chan<- time.Time, due time.Time) bool {
	select {
	case arrivals <- due:
		return true
	case <-g.going.Done():
	}
	g.behind.Store(int64(time.Since(due)))
	return false
}

// join starts a caller of an open loop; due is its first arrival.
func (g *generator) join(caller int, arrivals <-chan time.Time, due time.Time) {
	g.callers.Go(func() {
		c := newConnection(g.request, g.options.Timeout, g.options.MaxConnections)
		defer c.close()
		for ok := true; ok; due, ok = <-arrivals {
			g.one(caller, c, due, time.Now())
		}
	})
}
