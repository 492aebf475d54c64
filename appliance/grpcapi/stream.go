package grpcapi

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/api/inference/wire"
	"github.com/edgewise-ai/edgewise/appliance/apistatus"
	"github.com/edgewise-ai/edgewise/ordering"
)

// maxPending bounds the requests of one stream that are in progress or answered and not yet written. At the bound the
// stream is not read, and the client's flow-control window fills.
const maxPending = 64

// statusKey is the metadata of clients that want an error to end the stream with its status.
const statusKey = "triton_grpc_error"

// pending is one request of a stream, or one response of a decoupled model.
type pending struct {
	done  chan struct{} // closed when the fields below are set; nil: they are
	out   *reply        // nil after an error
	id    string
	err   error
	apart bool // the request is to a decoupled model: its responses come by themselves
	model edgewise.ModelID
	last  bool // of the responses to a request to a decoupled model
}

// stream answers ModelStreamInfer: requests run concurrently, responses are written in the order of the requests. Those
// of decoupled models are written as they come.
func (s *Server) stream(stream grpc.ServerStream) error {
	refused := arrivalOf(stream.Context()).refusal()
	ctx, cancel := context.WithCancel(stream.Context())
	if p := edgewise.PrincipalOf(ctx); p != nil && p.Lifetime != nil {
		defer context.AfterFunc(p.Lifetime, cancel)()
	}
	r := &reader{
		server: s, stream: stream, queue: make(chan *pending, maxPending-1), ended: make(chan error, 1),
		apart: make(chan *pending), room: make(chan struct{}, maxPending),
	}
	w := &writer{server: s, stream: stream, strict: asksForStatus(stream.Context()), queue: r.queue}
	s.work.Go(func() { r.read(ctx) })
	defer func() {
		// Requests in progress are canceled. The reader ends after this handler.
		cancel()
		s.work.Go(func() {
			if w.head != nil {
				<-w.head.done
				w.head.drop()
			}
			for p := range r.queue {
				<-p.done
				p.drop()
			}
		})
	}()
	s.compress(stream.Context())
	draining := s.draining
	for {
		queue, done := w.queue, (chan struct{})(nil)
		switch idle := w.head == nil && w.open <= 0; {
		case idle && w.queue == nil:
			return <-r.ended
		case idle && draining == nil && len(w.queue) == 0:
			return errStopping()
		case w.head != nil:
			queue, done = nil, w.head.done
		}
		var err error
		select {
		case p, more := <-queue:
			if w.head = p; !more {
				w.queue = nil
			}
		case <-done:
			err = w.request()
		case p := <-r.apart:
			err = w.response(p)
		case <-refused:
			err = s.noMemory()
		case <-ctx.Done():
			err = ctx.Err()
		case <-draining:
			draining = nil // what has been read is answered
		}
		if err != nil {
			return err
		}
	}
}

// writer writes the responses of a stream.
type writer struct {
	server *Server
	stream grpc.ServerStream
	strict bool          // an error ends the stream
	queue  chan *pending // of its reader; nil: it has ended
	head   *pending      // the request that is answered next; nil: not known
	open   int           // requests to decoupled models, as far as they have left the queue, without those that have ended
}

// request answers the request at the head, which is done.
func (w *writer) request() error {
	p := w.head
	w.head = nil
	if p.apart {
		w.open++
		return nil
	}
	return w.server.answer(w.stream, p, w.strict)
}

// response takes a response of a decoupled model.
func (w *writer) response(p *pending) error {
	if p.last {
		w.open--
	}
	if p.err == nil && p.out == nil {
		return nil
	}
	return w.server.answer(w.stream, p, w.strict)
}

func errStopping() error {
	return edgewise.Errorf("grpcapi.errStopping", edgewise.Unavailable, "GRPC server is shutting down and has stopped "+
		"accepting new requests.")
}

// answer writes a response. An error is a message; if strict, it ends the stream.
func (s *Server) answer(stream grpc.ServerStream, p *pending, strict bool) error {
	if p.err == nil {
		return stream.SendMsg(p.out)
	}
	if strict || stream.Context().Err() != nil {
		return p.err
	}
	_ = s.fail(inference.GRPCInferenceService_ModelStreamInfer_FullMethodName, p.err) // for the log
	failed := &inference.ModelInferResponse{Id: p.id}
	if p.apart {
		failed.ModelName, failed.ModelVersion = p.model.Name, strconv.FormatInt(p.model.Version, 10)
		failed.Parameters = map[string]*inference.InferParameter{
			wire.FinalParameter: {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: p.last}},
		}
	}
	return stream.SendMsg(&inference.ModelStreamInferResponse{ErrorMessage: apistatus.Message(p.err), InferResponse: failed})
}

// drop releases a response that is not written.
func (p *pending) drop() {
	if p.out != nil {
		p.out.resp.Release()
	}
}

func asksForStatus(ctx context.Context) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	values := md.Get(statusKey)
	return len(values) > 0 && strings.EqualFold(values[0], "true")
}

// reader starts the requests of a stream, which enter their queues in the order in which they were read.
type reader struct {
	server *Server
	stream grpc.ServerStream
	queue  chan *pending // in the order they were read, each before it starts; closed at the end
	ended  chan error    // why: nil when the client has closed its side
	apart  chan *pending // responses of decoupled models, each when it is written next
	room   chan struct{} // a token for each request to a decoupled model in progress
	order  ordering.Order
}

// read reads until the client ends its side or the call ends.
func (r *reader) read(ctx context.Context) {
	defer close(r.queue)
	for {
		in := r.server.receive(ctx)
		if err := r.stream.RecvMsg(in); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			r.ended <- err
			return
		}
		p := &pending{done: make(chan struct{})}
		select {
		case r.queue <- p: // before the request starts: finish answers the queue, and later requests are refused
			r.start(ctx, in, p)
		case <-ctx.Done():
			in.release()
			r.ended <- ctx.Err()
			return
		}
	}
}

// start starts one request, whose response it puts into p. It owns in.
func (r *reader) start(ctx context.Context, in *received, p *pending) {
	req, ended, err := r.admit(ctx, in)
	if err != nil {
		p.id, p.err = req.ID, err
		in.release()
		close(p.done)
		return
	}
	p.id = req.ID
	if r.server.decoupled(req) {
		defer close(p.done)
		r.startApart(ctx, req, in, p, ended)
		return
	}
	place := r.order.NewPlace()
	place.Take()
	r.server.work.Go(func() {
		defer close(p.done)
		defer ended()
		defer in.release()
		defer place.Leave()
		defer func() {
			if value := recover(); value != nil {
				p.err = r.server.panicked(inference.GRPCInferenceService_ModelStreamInfer_FullMethodName, value)
			}
		}()
		p.out, p.err = r.server.run(ctx, req, in.at, form{Form: wire.Form{Stream: true}}, place)
	})
}

// startApart starts a request to a decoupled model. p says so, and nothing else. It owns in.
func (r *reader) startApart(ctx context.Context, req *wire.Request, in *received, p *pending, ended func()) {
	select {
	case r.room <- struct{}{}:
	case <-ctx.Done():
		in.release()
		ended()
		p.err = ctx.Err()
		return
	}
	p.apart = true
	place := r.order.NewPlace()
	place.Take()
	r.server.work.Go(func() {
		last := &pending{id: p.id, model: req.Model, apart: true, last: true}
		defer func() { <-r.room }()
		defer func() { _ = r.tell(ctx, last) }()
		defer ended()
		defer in.release()
		defer place.Leave()
		defer func() {
			if value := recover(); value != nil {
				last.err = r.server.panicked(inference.GRPCInferenceService_ModelStreamInfer_FullMethodName, value)
			}
		}()
		each := func(ctx context.Context, out *reply, fault error) error {
			return r.tell(ctx, &pending{out: out, id: p.id, err: fault, apart: true, model: req.Model})
		}
		last.out, last.err = r.server.run(ctx, req, in.at, form{Form: wire.Form{Stream: true}, each: each}, place)
		if last.out != nil && last.out.pieces == nil { // nothing but an end that the client does not want to see
			last.drop()
			last.out = nil
		}
	})
}

// tell has a response written. It waits while others are, and drops it when the stream has ended.
func (r *reader) tell(ctx context.Context, p *pending) error {
	select {
	case r.apart <- p:
		return nil
	case <-ctx.Done():
		p.drop()
		return ctx.Err()
	}
}

// admit parses a request and counts it for its caller until ended is called. The request is never nil.
func (r *reader) admit(ctx context.Context, in *received) (req *wire.Request, ended func(), err error) {
	defer func() {
		if value := recover(); value != nil {
			req, err = &wire.Request{}, r.server.panicked(inference.GRPCInferenceService_ModelStreamInfer_FullMethodName, value)
		}
	}()
	if req, err = r.parse(ctx, in); err != nil {
		return req, nil, err
	}
	ended, err = admissionOf(ctx).message()
	return req, ended, err
}

// parse reads one request. The request is never nil.
func (r *reader) parse(ctx context.Context, in *received) (*wire.Request, error) {
	select {
	case <-r.server.draining:
		err := errStopping()
		r.server.refuse(ctx, &wire.Request{}, in.at, err)
		return &wire.Request{}, err
	default:
	}
	return r.server.parse(ctx, in)
}
