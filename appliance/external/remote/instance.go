package remote

import (
	"context"
	"slices"
	"sync"

	"github.com/edgewise-ai/edgewise"
)

// Instance is a version that a model of a server stands behind. It has as many requests there at a time as the version
// has instances.
type Instance struct {
	server  *Server
	link    *link
	version *edgewise.Version
	outputs map[string]edgewise.Spec // in the backend's shapes
	release func(context.Context)
}

var _ edgewise.Answerer = (*Instance)(nil)

// Open makes an instance of a version. A server that cannot be reached now is asked again: until it answers, requests
// are refused. Errors: Invalid for a signature that contradicts the version's, those of the server.
func (s *Server) Open(ctx context.Context, v *edgewise.Version) (*Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, s.LoadTimeout)
	defer cancel()
	target, err := Target(v.Model)
	if err != nil {
		return nil, err
	}
	i := &Instance{server: s, version: v, outputs: map[string]edgewise.Spec{}, release: s.lease(target.Name)}
	for _, out := range v.Model.Output {
		shape := backendDims(out.Dims, out.Reshape)
		if v.Model.MaxBatchSize > 0 {
			shape = append(edgewise.Shape{-1}, shape...)
		}
		i.outputs[out.Name] = edgewise.Spec{Name: out.Name, Type: out.DataType, Shape: shape}
	}
	if i.link, err = s.open(ctx, v); err != nil {
		i.release(ctx)
		return nil, err
	}
	return i, nil
}

// Close ends the use of the server's model. No call is open.
func (i *Instance) Close() error {
	i.link.close()
	i.release(context.Background())
	return nil
}

// Ready returns nil when requests can be answered. Error: Unavailable, with the reason.
func (i *Instance) Ready(context.Context) error { return i.link.ready() }

// Run is not called: the instance is an Answerer.
func (i *Instance) Run(context.Context, []edgewise.Tensor, []string, edgewise.RunOptions) (*edgewise.Result, error) {
	return nil, edgewise.Errorf("remote.Run", edgewise.Internal, "BUG: model %v answers calls", i.version.ID)
}

// Answer sends calls to the server, as one request where they can be one, and returns when all have been answered.
func (i *Instance) Answer(ctx context.Context, calls []*edgewise.Call) error {
	if err := i.link.ready(); err != nil {
		return err
	}
	if calls = i.sequences(calls); len(calls) == 0 {
		return nil
	}
	if b := i.join(calls); b != nil {
		if i.together(ctx, b) {
			return nil
		}
	}
	var asked sync.WaitGroup
	for _, call := range calls[1:] {
		asked.Go(func() { i.alone(call) })
	}
	i.alone(calls[0])
	asked.Wait()
	return nil
}

var errNoSequence = edgewise.Errorf("remote.Answer", edgewise.Invalid, "the server is sent requests of sequences only")

// sequences ends the calls of rows without a request, which mean nothing to the server: its slots are its own.
func (i *Instance) sequences(calls []*edgewise.Call) []*edgewise.Call {
	if i.version.Model.SequenceBatching == nil {
		return calls
	}
	var asked []*edgewise.Call
	for _, call := range calls {
		if call.Request.Sequence.Active() {
			asked = append(asked, call)
			continue
		}
		_ = call.Answer(nil, true, errNoSequence)
	}
	return asked
}

// alone sends one call.
func (i *Instance) alone(call *edgewise.Call) {
	req := *call.Request
	req.Model, req.Outputs, req.Each = i.link.target, call.Want, nil
	req.Priority, req.Timeout = 0, 0 // those of the box's queue
	if i.version.Model.Decoupled() {
		req.Each = func(resp *edgewise.Response) error {
			if err := i.check(resp.Outputs, nil, -1); err != nil {
				return err
			}
			return call.Answer(i.result(resp), false, nil)
		}
	}
	resp, err := i.infer(call.Context, &req)
	switch {
	case err == nil && resp.Empty:
		_ = call.Answer(nil, true, nil)
		return
	case err == nil && i.version.Model.Decoupled():
		err = i.check(resp.Outputs, nil, -1)
	case err == nil:
		err = i.check(resp.Outputs, call.Want, rows(req.Inputs))
	}
	if err != nil {
		_ = call.Answer(nil, true, err)
		return
	}
	_ = call.Answer(i.result(resp), true, nil)
}

func (i *Instance) result(resp *edgewise.Response) *edgewise.Result {
	return &edgewise.Result{Outputs: resp.Outputs, Parameters: resp.Parameters, Free: resp.Release}
}

// infer asks the server. A failure that may be one of the server's has it looked at.
func (i *Instance) infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	size := int64(0)
	for _, in := range req.Inputs {
		size += int64(len(in.Data))
	}
	if size > i.server.MaxRequest {
		e := edgewise.Errorf("remote.infer", edgewise.TooLarge,
			"model %v: its inputs have %d bytes, at most %d are sent to its server", i.version.ID, size, i.server.MaxRequest)
		e.Limit = i.server.MaxRequest
		return nil, e
	}
	resp, err := i.server.Infer(ctx, req)
	if err == nil {
		return resp, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	switch kind := edgewise.KindOf(err); kind {
	case edgewise.NotFound, edgewise.Unauthenticated, edgewise.Denied: // of the box and its server, not of the client
		i.link.suspect()
		return nil, edgewise.Errorf("remote.infer", edgewise.Unavailable, "model %v: %w", i.version.ID, i.server.reason(err))
	case edgewise.Unavailable, edgewise.Internal, edgewise.Deadline:
		i.link.suspect()
	}
	err = i.server.reason(err)
	return nil, edgewise.Errorf("remote.infer", edgewise.KindOf(err), "model %v: %w", i.version.ID, err)
}

// check holds the outputs of an answer against the version's. want: those that must be there; count: rows of a batch, -1:
// any.
func (i *Instance) check(outputs []edgewise.Tensor, want []string, count int64) error {
	wrong := func(format string, args ...any) error {
		return edgewise.Errorf("remote.check", edgewise.Internal, "model %v: the answer of its server cannot be used: "+format,
			append([]any{i.version.ID}, args...)...)
	}
	seen := make(map[string]bool, len(outputs))
	for _, out := range outputs {
		spec, ok := i.outputs[out.Name]
		if !ok {
			continue // not served by the version
		}
		switch {
		case seen[out.Name]:
			return wrong("output %q is there twice", out.Name)
		case out.Type != spec.Type:
			return wrong("output %q is %v, and was described as %v", out.Name, out.Type, spec.Type)
		case !spec.Shape.Accepts(out.Shape):
			return wrong("output %q has the shape %v, and was described with %v", out.Name, out.Shape, spec.Shape)
		case i.version.Model.MaxBatchSize > 0 && count >= 0 && out.Shape[0] != count:
			return wrong("output %q has %d rows, and the request has %d", out.Name, out.Shape[0], count)
		}
		seen[out.Name] = true
	}
	if at := slices.IndexFunc(want, func(name string) bool { return !seen[name] }); at >= 0 {
		return wrong("output %q is missing", want[at])
	}
	return nil
}

// rows is the batch dimension of inputs; -1 where there are none.
func rows(inputs []edgewise.Tensor) int64 {
	for _, in := range inputs {
		if len(in.Shape) > 0 {
			return in.Shape[0]
		}
	}
	return -1
}
