package observe

import (
	"context"
	"sync"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/edgewise-ai/edgewise"
)

// tracedRequest is the trace of one request, from the frontend on.
type tracedRequest struct {
	tracer              *Tracer
	start               edgewise.TraceStart
	begun, sending      time.Time
	frequency           int64
	timestamps, tensors bool
	span                oteltrace.Span // nil without OpenTelemetry
	spanContext         context.Context

	root *traced
	mu   sync.Mutex // guards the tree below root
}

// traced is one model's part of a request: of the model that was asked for, and of what that runs.
type traced struct {
	request  *tracedRequest
	id       uint64
	parent   *traced
	children []*traced
	entered  bool

	model      edgewise.ModelID
	start, end time.Time
	timing     edgewise.Timing
	err        error
	tensors    []tracedTensor
}

type tracedKey struct{}

// Context carries the trace to where the request is answered.
func (r *tracedRequest) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, tracedKey{}, r.root)
}

// Parent is the W3C traceparent of the request's own span; empty when there is none.
func (r *tracedRequest) Parent() string {
	if r.span == nil {
		return ""
	}
	return traceparent(r.spanContext)
}

// Sending notes that the answer is ready to be sent.
func (r *tracedRequest) Sending() { r.sending = time.Now() }

// End ends the trace and hands it on.
func (r *tracedRequest) End(err error) {
	now := time.Now()
	if r.tracer.spans != nil {
		r.tracer.spans.end(r, now, err)
		return
	}
	if r.tracer.file != nil {
		r.tracer.file.write(r, now)
	}
}

// Inferer returns an Inferer that notes what inner does for requests that are traced.
func (t *Tracer) Inferer(inner edgewise.Inferer) edgewise.Inferer { return &tracingInferer{t, inner} }

type tracingInferer struct {
	tracer *Tracer
	inner  edgewise.Inferer
}

// Infer asks inner.
func (i *tracingInferer) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	if !i.tracer.on.Load() {
		return i.inner.Infer(ctx, req)
	}
	above, _ := ctx.Value(tracedKey{}).(*traced)
	if above == nil {
		return i.inner.Infer(ctx, req)
	}
	n := above.enter(req)
	resp, err := i.inner.Infer(context.WithValue(ctx, tracedKey{}, n), req)
	n.leave(req, resp, err)
	return resp, err
}

// enter begins a model's part: the request's own for the first model, and one below above for what that runs.
func (above *traced) enter(req *edgewise.Request) *traced {
	r := above.request
	r.mu.Lock()
	defer r.mu.Unlock()
	n := above
	if above.entered {
		n = &traced{request: r, id: r.tracer.ids.Add(1), parent: above}
		above.children = append(above.children, n)
	}
	n.entered, n.model, n.start = true, req.Model, time.Now()
	return n
}

func (n *traced) leave(req *edgewise.Request, resp *edgewise.Response, err error) {
	now := time.Now()
	n.request.mu.Lock()
	defer n.request.mu.Unlock()
	n.end, n.err = now, err
	if n.request.tensors {
		n.note("TENSOR_QUEUE_INPUT", req.Inputs)
	}
	if err != nil {
		return
	}
	n.model, n.timing = resp.Model, resp.Timing
	if n.request.tensors {
		n.note("TENSOR_BACKEND_OUTPUT", resp.Outputs)
	}
}

// moment is a named time.
type moment struct {
	name string
	at   time.Time
}

// moments are the times of a model's part, in Triton's names. Where the parts of an execution are not known, as of an
// ensemble, they are left out.
func (n *traced) moments() []moment {
	if n.start.IsZero() {
		return nil
	}
	list := []moment{{"REQUEST_START", n.start}, {"QUEUE_START", n.start}}
	if t := n.timing; t.Infer > 0 && len(n.children) == 0 {
		compute := n.start.Add(t.Queue)
		in := compute.Add(t.Input)
		out := in.Add(t.Infer)
		list = append(list, moment{"COMPUTE_START", compute}, moment{"COMPUTE_INPUT_END", in},
			moment{"COMPUTE_OUTPUT_START", out}, moment{"COMPUTE_END", out.Add(t.Output)})
	}
	if n.err == nil {
		list = append(list, moment{"INFER_RESPONSE_COMPLETE", n.end})
	}
	return append(list, moment{"REQUEST_END", n.end})
}

// frontendMoments are the times of the frontend, before and after the models'.
func (r *tracedRequest) frontendMoments(end time.Time) (before, after []moment) {
	receive, send := "HTTP_RECV_", "HTTP_SEND_"
	if r.start.Frontend == "GRPC" {
		receive, send = "GRPC_WAITREAD_", "GRPC_SEND_"
	}
	received := r.start.Received
	if received.IsZero() {
		received = r.begun
	}
	sending := r.sending
	if sending.IsZero() {
		sending = end
	}
	return []moment{{receive + "START", received}, {receive + "END", r.begun}},
		[]moment{{send + "START", sending}, {send + "END", end}}
}
