package tune

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/tune/search"
)

// Parameter is the parameter of a model's configuration that has its objective: JSON, or the word "idle".
const Parameter = "tune"

// Bounds of an objective.
const (
	maxParameter  = 1000        // bytes
	maxP99        = 3600 * 1000 // milliseconds
	minP99        = 0.001
	maxThroughput = 1e6
	maxWeight     = 1e6
)

// own is what a model's configuration says of its tuning.
type own struct {
	admin.TuneObjective
	Idle bool `json:"idle"` // tune it when nobody sends requests
}

// CheckModel reports why the objective in a model's configuration cannot be used. Errors: Invalid.
func CheckModel(m *edgewise.Model) error {
	_, err := ownOf(m)
	return err
}

func ownOf(m *edgewise.Model) (o own, err error) {
	const op = "tune.CheckModel"
	p, there := m.Parameters[Parameter]
	switch {
	case !there:
		return o, nil
	case p.StringValue == "idle":
		return own{Idle: true}, nil
	case len(p.StringValue) > maxParameter:
		return o, edgewise.Errorf(op, edgewise.Invalid, "parameters: %s: it has %d bytes, at most %d are allowed", Parameter,
			len(p.StringValue), maxParameter)
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(p.StringValue)))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&o)
	if _, more := decoder.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("something follows it")
	}
	if err == nil {
		err = check(o.TuneObjective)
	}
	if err != nil {
		return own{}, edgewise.Errorf(op, edgewise.Invalid,
			"parameters: %s: want \"idle\" or an objective as JSON, such as {\"p99_ms\": 40}: %w", Parameter, err)
	}
	return o, nil
}

// check reports the first bound that an objective is outside of. Errors: Invalid with Field.
func check(o admin.TuneObjective) error {
	fail := func(field, format string, args ...any) error {
		return edgewise.Errorf("tune.check", edgewise.Invalid, format, args...).WithField("objective." + field)
	}
	switch {
	case o.P99 != 0 && (o.P99 < minP99 || o.P99 > maxP99):
		return fail("p99_ms", "p99_ms is %g: want %g to %d", o.P99, minP99, maxP99)
	case o.Throughput < 0 || o.Throughput > maxThroughput:
		return fail("throughput", "throughput is %g: want 0 to %g requests per second", o.Throughput, maxThroughput)
	case o.MemoryBytes < 0:
		return fail("memory_bytes", "memory_bytes is %d: want 0 or more", o.MemoryBytes)
	}
	if w := o.Weights; w != nil {
		for _, v := range []float64{w.Latency, w.Throughput, w.Memory, w.Power} {
			if v < 0 || v > maxWeight {
				return fail("weights", "a weight is %g: want 0 to %g", v, maxWeight)
			}
		}
		if o.Power {
			return fail("power", "power and weights exclude each other: give weights a power")
		}
		if w.Latency+w.Throughput+w.Memory+w.Power == 0 {
			return fail("weights", "all weights are 0: want one above it")
		}
	}
	return nil
}

// objective is what the search makes of it.
func objective(o admin.TuneObjective) search.Objective {
	s := search.Objective{
		P99: time.Duration(o.P99 * float64(time.Millisecond)), Throughput: o.Throughput, Memory: o.MemoryBytes,
	}
	if o.Weights != nil {
		s.Weights = search.Weights(*o.Weights)
	}
	if o.Power {
		s.Weights = search.Weights{Power: 1}
	}
	return s
}
