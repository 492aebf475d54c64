package ensemble

import (
	"math"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// stoppedAt is the parameter of a response that names the model of the step at which outputs were left out.
const stoppedAt = "stopped_at"

// response is the answer of a run that has ended well. The tensors in it alias the responses of steps, which it
// releases.
func (r *run) response() *edgewise.Response {
	resp := &edgewise.Response{ID: r.req.ID, Model: r.e.version.ID, Timing: r.timing, Parameters: sequenceParameters(r.req.Sequence)}
	resp.Timing.Batch = r.batch()
	shared := false
	for _, t := range r.wanted {
		v := r.values[t]
		if v.absent {
			continue
		}
		if v.borrowed { // handed through by a default: the caller may use the bytes again
			v.Data = slices.Clone(v.Data)
		}
		made := &r.e.graph.tensors[t]
		v.Name, v.Shape = made.name, made.reshape.Apply(made.adaption.of(v.Shape))
		shared = shared || v.lease != nil
		resp.Outputs = append(resp.Outputs, v.Tensor)
	}
	if r.stopped != nobody {
		resp.Parameters[stoppedAt] = r.e.graph.steps[r.stopped].id.Name
	}
	if shared {
		resp.Free = r.releaseAll
	}
	return resp
}

func (r *run) batch() int {
	if r.e.graph.model.MaxBatchSize > 0 && len(r.req.Inputs) > 0 && len(r.req.Inputs[0].Shape) > 0 {
		return int(r.req.Inputs[0].Shape[0])
	}
	return 1
}

// sequenceParameters are what Triton puts into every answer of an ensemble.
func sequenceParameters(s edgewise.Sequence) map[string]any {
	p := map[string]any{"sequence_id": int64(min(s.ID, math.MaxInt64)), "sequence_start": s.Start, "sequence_end": s.End}
	if s.Name != "" {
		p["sequence_id"] = s.Name
	}
	return p
}
