package perf

import (
	"context"
	"fmt"
	"time"

	"github.com/edgewise-ai/edgewise/api/kserve"
)

// Bounds of a measurement.
const (
	MinWindow  = 100 * time.Millisecond
	MaxWindow  = 10 * time.Minute
	MaxWarmup  = 10 * time.Minute
	MinTimeout = time.Millisecond
	MaxTimeout = 10 * time.Minute
	MaxWindows = 1000
	reported   = 3 // windows that have to agree, and that are reported
)

// Options say how a step is measured. Every field is required unless it says otherwise.
type Options struct {
	Warmup         time.Duration // sent and not counted, at the beginning of every step; may be 0
	Window         time.Duration // length of a measurement window
	Stability      float64       // percent that the last three windows may differ from their mean
	MaxWindows     int           // at least 3
	Timeout        time.Duration // for one request
	MaxConnections int           // of an open loop; 1 to MaxConcurrency
	Arrivals       Arrivals      // of an open loop
	Seed           uint64        // of Poisson arrivals
	Batch          int           // inferences of one request; 0: 1
	// Statistics returns the server's counters of the model. It may be nil, for a server that has none.
	Statistics func(context.Context) (*kserve.StatisticsBody, error)
}

// Check returns the first reason why nothing can be measured with o, naming the bound.
func (o *Options) Check() error {
	switch {
	case o.Warmup < 0 || o.Warmup > MaxWarmup:
		return fmt.Errorf("warm-up %v: want 0 to %v", o.Warmup, MaxWarmup)
	case o.Window < MinWindow || o.Window > MaxWindow:
		return fmt.Errorf("window %v: want %v to %v", o.Window, MinWindow, MaxWindow)
	case !(o.Stability > 0 && o.Stability <= 100):
		return fmt.Errorf("stability %g: want a percentage above 0, at most 100", o.Stability)
	case o.MaxWindows < reported || o.MaxWindows > MaxWindows:
		return fmt.Errorf("at most %d windows: want %d to %d", o.MaxWindows, reported, MaxWindows)
	case o.Timeout < MinTimeout || o.Timeout > MaxTimeout:
		return fmt.Errorf("timeout %v: want %v to %v", o.Timeout, MinTimeout, MaxTimeout)
	case o.MaxConnections < 1 || o.MaxConnections > MaxConcurrency:
		return fmt.Errorf("%d connections: want 1 to %d", o.MaxConnections, MaxConcurrency)
	case o.Arrivals > Constant:
		return fmt.Errorf("arrivals of kind %d: want poisson or constant", o.Arrivals)
	case o.Batch < 0 || o.Batch > MaxBatch:
		return fmt.Errorf("batch %d: want 0 to %d", o.Batch, MaxBatch)
	}
	return nil
}
