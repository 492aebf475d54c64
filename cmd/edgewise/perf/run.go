package perf

import (
	"context"
	"math"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// window is one measurement window.
type window struct {
	*tally
	length    time.Duration
	processor time.Duration // of this process
	server    counters      // what the server counted meanwhile
	known     bool          // server was read
}

// Run measures the loads one after another. done, which may be nil, is called with each step when it is measured. When
// ctx ends Run returns the steps so far, the last one with what was measured of it and marked Interrupted. Errors:
// Invalid for options or a load out of bounds.
func Run(ctx context.Context, request *Request, o Options, loads []Load, done func(Step)) ([]Step, error) {
	if err := o.Check(); err != nil {
		return nil, edgewise.Errorf("perf.Run", edgewise.Invalid, "%w", err)
	}
	if len(loads) > MaxSteps {
		return nil, edgewise.Errorf("perf.Run", edgewise.Invalid, "%d steps, at most %d are allowed", len(loads), MaxSteps)
	}
	for _, l := range loads {
		if err := l.check(); err != nil {
			return nil, edgewise.Errorf("perf.Run", edgewise.Invalid, "%w", err)
		}
	}
	var steps []Step
	for _, l := range loads {
		if ctx.Err() != nil {
			break
		}
		s, ok := measure(ctx, request, &o, l)
		if !ok {
			break
		}
		steps = append(steps, s)
		if done != nil {
			done(s)
		}
	}
	return steps, nil
}

// measure runs one step. ok is false when it was interrupted before anything was measured.
func measure(ctx context.Context, request *Request, o *Options, load Load) (s Step, ok bool) {
	g := start(ctx, request, o, load)
	defer g.stop()
	if !wait(ctx, o.Warmup) {
		return Step{}, false
	}
	m := meter{generator: g, options: o}
	m.begin(ctx)
	var last []window
	var slowest time.Duration
	count, stable := 0, false
	for ctx.Err() == nil && count < o.MaxWindows && !stable && !hopeless(last) {
		wait(ctx, o.Window)
		w := m.take(ctx)
		slowest = max(slowest, w.latency.Max())
		if ctx.Err() != nil && count > 0 && w.length < o.Window/2 {
			break // a fragment says less than the windows before it
		}
		count++
		last = append(last, w)
		last = last[max(0, len(last)-reported):]
		stable = agree(last, o.Stability)
	}
	if len(last) == 0 {
		return Step{}, false
	}
	s = newStep(load, o, last)
	s.Windows, s.Stable, s.Interrupted = count, stable, ctx.Err() != nil
	s.Slowest = micro(slowest)
	s.Behind = time.Duration(g.behind.Load()).Seconds()
	return s, true
}

// wait returns false when ctx ends before d is over.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// agree tells whether the last windows differ from their mean by no more than percent, in throughput and in latency.
func agree(last []window, percent float64) bool {
	if len(last) < reported {
		return false
	}
	var throughput, latency []float64
	for _, w := range last {
		throughput = append(throughput, float64(w.latency.Count())/w.length.Seconds())
		latency = append(latency, float64(w.latency.Mean()))
	}
	return near(throughput, percent) && near(latency, percent)
}

func near(values []float64, percent float64) bool {
	mean := 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		if math.Abs(v-mean) > mean*percent/100 || v == 0 {
			return false
		}
	}
	return true
}

// hopeless tells whether nothing was answered in all of the last windows; more of them would not change that.
func hopeless(last []window) bool {
	for _, w := range last {
		if w.latency.Count() > 0 || w.failed() == 0 {
			return false
		}
	}
	return len(last) == reported
}

// meter cuts the time into windows.
type meter struct {
	generator *generator
	options   *Options
	at        time.Time
	processor time.Duration
	server    counters
	known     bool
}

// begin starts the first window and forgets what was counted before.
func (m *meter) begin(ctx context.Context) {
	m.server, m.known = m.read(ctx)
	m.generator.recorder.take()
	m.at, m.processor = time.Now(), processorTime()
}

// take ends a window and starts the next one.
func (m *meter) take(ctx context.Context) window {
	now, processor := time.Now(), processorTime()
	w := window{tally: m.generator.recorder.take(), length: now.Sub(m.at), processor: processor - m.processor}
	m.at, m.processor = now, processor
	server, known := m.read(ctx)
	if w.known = known && m.known; w.known {
		w.server = server.since(m.server)
	}
	m.server, m.known = server, known
	return w
}

// read reads the server's counters; also after ctx has ended, since what was measured is to be reported.
func (m *meter) read(ctx context.Context) (counters, bool) {
	if m.options.Statistics == nil {
		return nil, false
	}
	patience := statisticsTimeout
	if ctx.Err() != nil {
		patience = interruptedTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	body, err := m.options.Statistics(ctx)
	if err != nil {
		return nil, false
	}
	return countersOf(body), true
}
