package monitor

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// timingParameter is the parameter of a request that asks where its time goes. Only true does; it is not passed on.
const timingParameter = "timing"

// timedSteps bounds the steps of an ensemble that are timed.
const timedSteps = 32

// Timed answers as Inner does, and reports in the parameters of a response what the request took, where it asks for that.
type Timed struct {
	Inner   edgewise.Inferer
	Explain func(id edgewise.ModelID, err error) error // adds what repositories know of the model; nil: nothing
}

// Infer answers a request.
func (t Timed) Infer(ctx context.Context, req *edgewise.Request) (resp *edgewise.Response, err error) {
	if wanted, _ := req.Parameters[timingParameter].(bool); wanted {
		resp, err = t.measure(ctx, req)
	} else {
		resp, err = t.Inner.Infer(ctx, req)
	}
	if err != nil && t.Explain != nil {
		err = t.Explain(req.Model, err)
	}
	return resp, err
}

// measure answers a request that asks what it takes.
func (t Timed) measure(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	plain := *req
	plain.Parameters = maps.Clone(req.Parameters) // a request with parameters shares no batch
	delete(plain.Parameters, timingParameter)
	steps := &stepTimings{outer: edgewise.RecorderOf(ctx)}
	began := time.Now()
	resp, err := t.Inner.Infer(edgewise.WithRecorder(ctx, steps), &plain)
	if err != nil {
		return nil, err
	}
	parameters := maps.Clone(resp.Parameters)
	if parameters == nil {
		parameters = map[string]any{}
	}
	parameters["timing_total_ns"] = time.Since(began).Nanoseconds()
	addTiming(parameters, "timing_", resp.Timing)
	steps.addTo(parameters)
	resp.Parameters = parameters
	return resp, nil
}

// addTiming puts a timing into parameters whose names begin with prefix.
func addTiming(parameters map[string]any, prefix string, t edgewise.Timing) {
	parameters[prefix+"queue_ns"] = t.Queue.Nanoseconds()
	parameters[prefix+"input_ns"] = t.Input.Nanoseconds()
	parameters[prefix+"compute_ns"] = t.Infer.Nanoseconds()
	parameters[prefix+"output_ns"] = t.Output.Nanoseconds()
	parameters[prefix+"batch"] = int64(t.Batch)
	if t.Wake > 0 {
		parameters[prefix+"wake_ns"] = t.Wake.Nanoseconds()
	}
	if t.Guest == (edgewise.Usage{}) {
		return
	}
	parameters[prefix+"guest_ns"] = t.Guest.Time.Nanoseconds()
	parameters[prefix+"host_ns"] = t.Guest.Host.Nanoseconds()
	parameters[prefix+"fuel"] = int64(t.Guest.Fuel)
	parameters[prefix+"memory_bytes"] = t.Guest.Memory
}

// stepTimings follows the steps of an ensemble, and hands on what it hears.
type stepTimings struct {
	outer edgewise.Recorder // nil: nobody else listens

	mu    sync.Mutex // guards steps
	steps [timedSteps]stepTiming
}

// stepTiming is what one step took, all its requests together.
type stepTiming struct {
	model    edgewise.ModelID
	requests int64
	timing   edgewise.Timing
}

// Ask notes that a step's model is asked. The steps of an ensemble within it are not timed.
func (s *stepTimings) Ask(ctx context.Context, step int, req *edgewise.Request) (context.Context, func(*edgewise.Response, error)) {
	outer := func(*edgewise.Response, error) {}
	if s.outer == nil {
		ctx = edgewise.WithRecorder(ctx, nil)
	} else {
		ctx, outer = s.outer.Ask(edgewise.WithRecorder(ctx, s.outer), step, req)
	}
	return ctx, func(resp *edgewise.Response, err error) {
		outer(resp, err)
		if resp != nil && step < timedSteps {
			s.add(step, resp)
		}
	}
}

func (s *stepTimings) add(step int, resp *edgewise.Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, t := &s.steps[step], resp.Timing
	one.model = resp.Model
	one.requests++
	one.timing.Queue += t.Queue
	one.timing.Input += t.Input
	one.timing.Infer += t.Infer
	one.timing.Wake += t.Wake
	one.timing.Output += t.Output
	one.timing.Batch = max(one.timing.Batch, t.Batch)
	one.timing.Guest = one.timing.Guest.Add(t.Guest)
}

// addTo puts the steps that ran into parameters.
func (s *stepTimings) addTo(parameters map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.steps {
		one := &s.steps[i]
		if one.requests == 0 {
			continue
		}
		prefix := fmt.Sprintf("timing_step_%d_", i)
		parameters[prefix+"model"] = one.model.Name
		parameters[prefix+"version"] = int64(one.model.Version)
		parameters[prefix+"requests"] = one.requests
		addTiming(parameters, prefix, one.timing)
	}
}
