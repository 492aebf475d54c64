package grpcapi

import (
	"context"
	"errors"
	"io"
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

// pending is one request of a stream.
type pending struct {
	done chan struct{} // closed when the fields below are set
	out  *reply        // nil after an error
	id   string
	err  error
}

// stream answers ModelStreamInfer: requests run concurrently, responses are written in the order of the requests.
func (s *Server) stream(stream grpc.ServerStream) error {
	refused := arrivalOf(stream.Context()).refusal()
	ctx, cancel := context.WithCancel(stream.Context())
	if p := edgewise.PrincipalOf(ctx); p != nil && p.Lifetime != nil {
		defer context.AfterFunc(p.Lifetime, cancel)()
	}
	r := &reader{server: s, stream: stream, queue: make(chan *pending, maxPending-1), ended: make(chan error, 1)}
	s.work.Go(func() { r.read(ctx) })
	defer func() {
		// Requests in progress are canceled. The reader ends after this handler.
		cancel()
		s.work.Go(func() {
			for p := range r.queue {
				<-p.done
				p.drop()
			}
		})
	}()
	s.compress(stream.Context())
	strict := asksForStatus(stream.Context())
	for {
		select {
		case p, more := <-r.queue:
			if !more {
				return <-r.ended
			}
			if err := s.answer(stream, p, strict); err != nil {
				return err
			}
		case <-refused:
			return s.noMemory()
		case <-ctx.Done():
			return ctx.Err()
		case <-s.draining:
			return s.finish(stream, r, strict)
		}
	}
}

// finish answers the requests that have been read from a stream when the server stops.
func (s *Server) finish(stream grpc.ServerStream, r *reader, strict bool) error {
	for {
		select {
		case p, more := <-r.queue:
			if !more {
				return <-r.ended
			}
			if err := s.answer(stream, p, strict); err != nil {
				return err
			}
		default:
			return errStopping()
		}
	}
}

func errStopping() error {
	return edgewise.Errorf("grpcapi.errStopping", edgewise.Unavailable, "GRPC server is shutting down and has stopped "+
		"accepting new requests.")
}

// answer waits for the response to p and writes it. An error is a message; if strict, it ends the stream.
func (s *Server) answer(stream grpc.ServerStream, p *pending, strict bool) error {
	<-p.done // soon, also when the client has left: the engine cancels the request
	if p.err == nil {
		return stream.SendMsg(p.out)
	}
	if strict || stream.Context().Err() != nil {
		return p.err
	}
	_ = s.fail(inference.GRPCInferenceService_ModelStreamInfer_FullMethodName, p.err) // for the log
	return stream.SendMsg(&inference.ModelStreamInferResponse{
		ErrorMessage: apistatus.Message(p.err), InferResponse: &inference.ModelInferResponse{Id: p.id},
	})
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
		p.out, p.err = r.server.run(ctx, req, in.at, wire.Form{Stream: true}, place)
	})
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
