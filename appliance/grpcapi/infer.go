package grpcapi

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/api/inference/wire"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
	"github.com/edgewise-ai/edgewise/ordering"
)

// handleInfer is ModelInfer as the library calls it.
func (s *Server) handleInfer(_ any, ctx context.Context, decode func(any) error,
	interceptor grpc.UnaryServerInterceptor,
) (any, error) {
	arrived := arrivalOf(ctx)
	defer arrived.end()
	in := s.receive(ctx)
	defer in.release() // decode reads the message, and fails when the call does not end behind it
	if err := decode(in); err != nil {
		return nil, err
	}
	info := &grpc.UnaryServerInfo{Server: s, FullMethod: inference.GRPCInferenceService_ModelInfer_FullMethodName}
	return interceptor(ctx, in, info, func(ctx context.Context, _ any) (any, error) {
		req, err := s.parse(ctx, in)
		if err != nil {
			return nil, err
		}
		s.compress(ctx)
		out, err := s.run(ctx, req, in.at, form{}, arrived.place)
		if err != nil {
			return nil, err // not out, which would be an answer that is nil
		}
		return out, nil
	})
}

// receive returns what a request is read into. Its tensors may be in memory of the model if the caller may name that.
func (s *Server) receive(ctx context.Context) *received {
	return &received{at: time.Now(), arrived: arrivalOf(ctx), borrow: func(beginning []byte, b *blocks.Block, n int64) frontend.Borrowed {
		id, label, err := wire.ModelOf(beginning)
		if err == nil {
			err = mayName(ctx, id.Name)
		}
		if err == nil {
			id, err = s.labelled(id, label)
		}
		if err != nil { // the request is refused when it is parsed or run
			return frontend.Borrowed{}
		}
		return s.deps.Borrow(b, id, n)
	}}
}

// parse parses a request, or counts it as failed. The request is never nil.
func (s *Server) parse(ctx context.Context, in *received) (req *wire.Request, err error) {
	req = &wire.Request{}
	if err = s.arrived(in); err == nil {
		req, err = wire.Parse(in.bytes, in.tensors, s.limits)
	}
	if err == nil {
		err = s.orNoMemory(in.borrowed.CopyFramed(s.memory, req.Inputs))
	}
	if err != nil {
		s.refuse(ctx, req, in.at, err)
	}
	return req, err
}

// arrived returns why a message has no bytes. Errors: Busy, Exhausted, Invalid.
func (s *Server) arrived(in *received) error {
	return s.orNoMemory(in.err)
}

// orNoMemory returns the error about the memory for requests in place of blocks.ErrFull.
func (s *Server) orNoMemory(err error) error {
	if errors.Is(err, blocks.ErrFull) {
		return s.noMemory()
	}
	return err
}

// refuse counts a request that does not reach the engine.
func (s *Server) refuse(ctx context.Context, req *wire.Request, received time.Time, err error) {
	id := req.Model
	if named, missing := s.labelled(id, req.Label); missing == nil {
		id = named
	}
	s.deps.Engine.Refuse(ctx, id, time.Since(received), err)
}

// run answers one parsed request. Its tensors are no longer read when run returns.
func (s *Server) run(ctx context.Context, req *wire.Request, received time.Time, form form,
	place *ordering.Place,
) (out *reply, err error) {
	counted := false
	defer func() {
		if err != nil && !counted {
			s.refuse(ctx, req, received, err)
		}
	}()
	if err := s.forward(ctx, &req.Request); err != nil {
		return nil, err
	}
	if trace := s.trace(ctx, &req.Request, received); trace != nil {
		ctx = trace.Context(ctx)
		if parent := trace.Parent(); parent != "" && !form.Stream {
			_ = grpc.SetHeader(ctx, metadata.Pairs(traceParent, parent))
		}
		defer func() {
			trace.Sending()
			trace.End(err)
		}()
	}
	renew := func() {}
	switch {
	case form.each != nil:
		renewed := frontend.NewRenewed(ctx, s.cfg.RequestTimeout)
		defer renewed.End()
		ctx, renew = renewed, renewed.Renew
	case s.cfg.RequestTimeout > 0:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.cfg.RequestTimeout)
		defer cancel()
	}
	sh, err := s.deps.Share(s.memory, &req.Inference)
	if err != nil {
		return nil, s.orNoMemory(err)
	}
	defer sh.Close()
	if err := mayName(ctx, req.Model.Name); err != nil {
		return nil, err
	}
	if form.each != nil {
		req.Each = func(resp *edgewise.Response) error {
			defer renew()
			return s.deliver(ctx, req, resp, &sh, form)
		}
	}
	named := req.Model
	lookup := func() (edgewise.ModelID, error) { return s.labelled(named, req.Label) }
	if ctx, err = inOrder(ctx, place); err != nil {
		return nil, err
	}
	if req.Model, err = lookup(); err != nil {
		return nil, err
	}
	counted = true
	out = &reply{}
	out.resp, err = s.deps.Engine.Answer(ctx, &req.Request, edgewise.Exchange{
		Lookup: lookup,
		Deliver: func(resp *edgewise.Response) (err error) {
			if resp.Empty && !req.FinalResponse {
				return nil
			}
			out.pieces, err = s.encode(req, resp, &sh, form)
			return err
		},
	})
	if err != nil {
		return nil, s.refused(req, form, err)
	}
	return out, nil
}

// refused is the error of a request, in Triton's words where it is that its model may have several responses to it.
func (s *Server) refused(req *wire.Request, form form, err error) error {
	if edgewise.KindOf(err) != edgewise.Unsupported || form.Stream || !s.decoupled(req) {
		return err
	}
	return edgewise.Errorf("grpcapi.infer", edgewise.Unsupported, "ModelInfer RPC doesn't support models with decoupled "+
		"transaction policy")
}

// decoupled tells whether the model of a request may have several responses to it.
func (s *Server) decoupled(req *wire.Request) bool {
	id, err := s.labelled(req.Model, req.Label)
	if err != nil {
		return false
	}
	v, _, err := s.deps.Engine.Version(id)
	return err == nil && v.Model.Decoupled()
}

// form is the form of the responses to a request.
type form struct {
	wire.Form
	// each sends a response of a decoupled model that is not the last, and owns it; nil: the model is not decoupled.
	each func(ctx context.Context, out *reply, fault error) error
}

// deliver encodes and sends a response of a decoupled model that is not the last.
func (s *Server) deliver(
	ctx context.Context, req *wire.Request, resp *edgewise.Response, sh *frontend.Sharing, form form,
) error {
	if resp.Fault != nil {
		return form.each(ctx, nil, resp.Fault)
	}
	out := &reply{resp: resp}
	var err error
	form.More = true
	if out.pieces, err = s.encode(req, resp, sh, form); err != nil {
		resp.Release()
		return err
	}
	return form.each(ctx, out, nil)
}

// encode makes the message of a response and writes the outputs that go into shared memory.
func (s *Server) encode(
	req *wire.Request, resp *edgewise.Response, sh *frontend.Sharing, form form,
) ([]wire.Piece, error) {
	if err := sh.Deliver(resp); err != nil {
		return nil, err
	}
	shown, err := s.deps.Classes(&req.Inference, resp.Model).Apply(&req.Inference, resp)
	if err != nil {
		return nil, err
	}
	form.Final = !form.More && (req.FinalResponse || form.each != nil)
	if sh.Outputs() {
		form.Elsewhere = func(output int) bool { return req.Answer(resp.Outputs[output].Name).Shared.Set() }
	}
	return wire.Encode(shown, form.Form)
}
