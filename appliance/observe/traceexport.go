package observe

import (
	"context"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/edgewise-ai/edgewise"
)

// Export says where traces go over OTLP, and how.
type Export struct {
	URL       string            // of a collector that takes OTLP over HTTP
	Resource  map[string]string // attributes of this box beside service.name
	QueueSize int               // spans that wait; beyond it they are dropped
	Delay     time.Duration     // how long a span waits for others
	Batch     int               // most spans in one export
}

// options are the settings in the words of Triton's trace extension.
func (e Export) options() map[string]string {
	return map[string]string{
		"url": e.URL, "bsp_max_queue_size": strconv.Itoa(e.QueueSize),
		"bsp_schedule_delay":        strconv.FormatInt(e.Delay.Milliseconds(), 10),
		"bsp_max_export_batch_size": strconv.Itoa(e.Batch),
	}
}

// spans exports traces.
type spans struct {
	provider *sdktrace.TracerProvider
	tracer   oteltrace.Tracer
}

// exportTimeout bounds one export.
const exportTimeout = 10 * time.Second

func newSpans(e Export) (*spans, error) {
	const op = "observe.NewTracer"
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(e.URL),
		otlptracehttp.WithTimeout(exportTimeout))
	if err != nil {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "trace.url: %w", err)
	}
	attributes := []attribute.KeyValue{attribute.String("service.name", "edgewise")}
	for name, value := range e.Resource {
		if name == "service.name" {
			attributes = attributes[1:]
		}
		attributes = append(attributes, attribute.String(name, value))
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(resource.NewSchemaless(attributes...)),
		sdktrace.WithSampler(sdktrace.AlwaysSample()), // the Tracer has chosen
		sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(e.QueueSize), sdktrace.WithBatchTimeout(e.Delay),
			sdktrace.WithMaxExportBatchSize(e.Batch)),
	)
	return &spans{provider, provider.Tracer("github.com/edgewise-ai/edgewise")}, nil
}

// begin starts the span of a request, below the one that came with it.
func (s *spans) begin(r *tracedRequest) {
	carrier := propagation.MapCarrier{"traceparent": r.start.Parent, "tracestate": r.start.State}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier)
	at := r.start.Received
	if at.IsZero() {
		at = r.begun
	}
	r.spanContext, r.span = s.tracer.Start(ctx, "InferRequest", oteltrace.WithTimestamp(at),
		oteltrace.WithSpanKind(oteltrace.SpanKindServer))
}

// end makes the spans below a request's, and ends that.
func (s *spans) end(r *tracedRequest, now time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, after := r.frontendMoments(now)
	for _, m := range append(before, after...) {
		r.span.AddEvent(m.name, oteltrace.WithTimestamp(m.at))
	}
	r.span.SetAttributes(attribute.String("triton.request_id", r.start.ID))
	s.part(r.spanContext, r.root, r.start.ID)
	failed(r.span, err)
	r.span.End(oteltrace.WithTimestamp(now))
}

// part makes the spans of one model, and of what that ran.
func (s *spans) part(ctx context.Context, n *traced, id string) {
	if n.start.IsZero() {
		return
	}
	ctx, span := s.tracer.Start(ctx, n.model.Name, oteltrace.WithTimestamp(n.start), oteltrace.WithAttributes(
		attribute.String("triton.model_name", n.model.Name), attribute.Int64("triton.model_version", n.model.Version),
		attribute.String("triton.request_id", id), attribute.Int64("triton.trace_id", int64(n.id)),
	))
	if n.parent != nil {
		span.SetAttributes(attribute.Int64("triton.trace_parent_id", int64(n.parent.id)))
	}
	for _, m := range n.moments() {
		span.AddEvent(m.name, oteltrace.WithTimestamp(m.at))
	}
	for _, t := range n.tensors {
		span.AddEvent(t.activity, oteltrace.WithTimestamp(n.end), oteltrace.WithAttributes(
			attribute.String("tensor.name", t.Name), attribute.String("tensor.dtype", t.Type),
			attribute.String("tensor.shape", t.Shape), attribute.String("tensor.data", t.Data)))
	}
	if t := n.timing; t.Infer > 0 && len(n.children) == 0 {
		queued := n.start.Add(t.Queue)
		s.step(ctx, "queue", n.start, queued, attribute.StringSlice("edgewise.waits", waits(t)))
		s.step(ctx, "compute", queued, queued.Add(t.Input+t.Infer+t.Output))
	}
	for _, child := range n.children {
		s.part(ctx, child, id)
	}
	failed(span, n.err)
	span.End(oteltrace.WithTimestamp(n.end))
}

// waits says what a request waited for in the queue, a text for each cause.
func waits(t edgewise.Timing) []string {
	var list []string
	for _, w := range t.Explain() {
		list = append(list, w.String())
	}
	return list
}

func (s *spans) step(ctx context.Context, name string, from, to time.Time, attributes ...attribute.KeyValue) {
	_, span := s.tracer.Start(ctx, name, oteltrace.WithTimestamp(from), oteltrace.WithAttributes(attributes...))
	span.End(oteltrace.WithTimestamp(to))
}

func failed(span oteltrace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, strings.ToValidUTF8(err.Error(), "?"))
	}
}

// traceparent is the W3C header of the span in ctx.
func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}
