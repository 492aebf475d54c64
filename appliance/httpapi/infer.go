package httpapi

import (
	"slices"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
)

// What the JSON part of an answer is expected to take: beside its tensors, and for each of them.
const (
	answerOverhead = 1 << 10
	outputOverhead = 128
)

// infer answers one inference: POST /v2/models/{name}[/versions/{version}]/infer. Binary tensors are read where the
// socket put them; those of the answer are copied once, into the memory that the socket is written from.
func (s *Server) infer(c *fiber.Ctx) error {
	in, err := s.receive(c)
	if err != nil {
		return err
	}
	defer in.release()
	id, err := s.inferenceID(c)
	if err != nil {
		return err
	}
	expanded, err := s.expand(c)
	if err != nil {
		return err
	}
	defer expanded.Free()
	req, err := s.decodeIncoming(id, formOf(&c.Request().Header), c.Request().Body(), &in)
	if err != nil {
		return err
	}
	defer req.Release()
	sh, err := s.share(req)
	if err != nil {
		return err
	}
	defer sh.close()
	return s.ask(c, &req.Request, func(resp *edgewise.Response) error {
		if err := sh.deliver(req, resp); err != nil {
			return err
		}
		s.setClasses(req, resp.Model)
		return s.writeInfer(c, req, resp)
	})
}

// ask has the engine answer req, within the time that inferences have, for as long as the client is there, and traced
// where that is wanted. The response is write's until it returns.
func (s *Server) ask(c *fiber.Ctx, req *edgewise.Request, write func(*edgewise.Response) error) (err error) {
	if err := s.forward(c, req); err != nil {
		return err
	}
	client := connOf(c.Context())
	req.Arrived = time.Now()
	ctx := asked(client.watch(s.span.begin(req.Arrived)), client.state.caller)
	defer client.unwatch()
	trace := s.trace(c, req)
	if trace != nil {
		ctx = trace.Context(ctx)
		defer func() { trace.End(err) }()
	}
	client.state.counted = true
	resp, err := s.deps.Engine.Answer(ctx, req, edgewise.Exchange{
		Lookup: func() (edgewise.ModelID, error) { return s.inferenceID(c) },
		Deliver: func(resp *edgewise.Response) error {
			if trace != nil {
				trace.Sending()
			}
			return write(resp)
		},
	})
	if err != nil {
		return err
	}
	resp.Release()
	return nil
}

// setClasses tells the encoder what it needs to know of the model where the client wants classes.
func (s *Server) setClasses(req *kserve.InferRequest, id edgewise.ModelID) {
	if !slices.ContainsFunc(req.Answers, func(a kserve.Answer) bool { return a.Classification > 0 }) {
		return
	}
	req.Classes = kserve.Classes{}
	if v, _, err := s.deps.Engine.Version(id); err == nil {
		req.Classes.Batched = v.Model.MaxBatchSize > 0
	}
	if s.deps.Labels != nil {
		req.Classes.Labels = func(output string) []string { return s.deps.Labels(id, output) }
	}
}

// form is what the headers of an inference request say of its body.
type form struct {
	jsonSize    []byte // kserve.HeaderLength; empty: there is no such header
	contentType []byte
}

func formOf(header *fasthttp.RequestHeader) form {
	return form{jsonSize: header.Peek(kserve.HeaderLength), contentType: header.ContentType()}
}

// decode reads the body of an inference request to a model.
func (s *Server) decode(id edgewise.ModelID, f form, body []byte) (*kserve.InferRequest, error) {
	if len(f.jsonSize) == 0 {
		if f.isMedia(body) {
			return s.decodeMedia(id, body)
		}
		req, err := s.decoder.Infer(id, body, -1)
		if err != nil && hasPrefixFold(f.contentType, fiber.MIMEMultipartForm) {
			return nil, errForm
		}
		return req, err
	}
	size, err := kserve.ParseHeaderLength(string(f.jsonSize), len(body))
	if err != nil {
		return nil, err
	}
	if size > 0 {
		return s.decoder.Infer(id, body, size)
	}
	v, _, err := s.deps.Engine.Version(id)
	if err != nil {
		return nil, err
	}
	return s.decoder.Raw(id, v.Model, body)
}

// writeInfer writes an answer into memory that the connection holds.
func (s *Server) writeInfer(c *fiber.Ctx, req *kserve.InferRequest, resp *edgewise.Response) error {
	a, err := s.compose(req, resp)
	if err != nil {
		return err
	}
	if a.binary {
		c.Set(kserve.HeaderLength, strconv.Itoa(a.jsonSize))
	}
	c.Set(fiber.HeaderContentType, a.contentType())
	connOf(c.Context()).keep(a.block)
	c.Response().SetBodyRaw(a.body)
	s.encode(c)
	return nil
}

// composed is the body of an answer.
type composed struct {
	block    *blocks.Block // where it stands; the receiver's
	body     []byte
	jsonSize int
	binary   bool // it has a binary part behind its JSON part
}

func (a *composed) contentType() string {
	if a.binary {
		return fiber.MIMEOctetStream
	}
	return fiber.MIMEApplicationJSON
}

// compose makes the body of an answer. Errors: Busy, and those of kserve.AppendInferResponse.
func (s *Server) compose(req *kserve.InferRequest, resp *edgewise.Response) (a composed, err error) {
	b := s.memory.Take(answerSize(req, resp))
	if b == nil {
		return a, s.noMemory()
	}
	body, jsonSize, err := kserve.AppendInferResponse(b.Bytes[:0], req, resp)
	if err != nil {
		b.Free()
		return a, err
	}
	if cap(body) != cap(b.Bytes) { // it outgrew the estimate
		b.Free()
		if b = s.memory.Adopt(body); b == nil {
			return a, s.noMemory()
		}
	}
	return composed{block: b, body: body, jsonSize: jsonSize, binary: req.Binary(resp)}, nil
}

// answerSize estimates the bytes of an answer, rather too many than too few: an estimate that holds saves a copy.
func answerSize(req *kserve.InferRequest, resp *edgewise.Response) int64 {
	size := int64(answerOverhead)
	for i := range resp.Outputs {
		out := &resp.Outputs[i]
		size += outputOverhead + int64(len(out.Name)+8*len(out.Shape)) + int64(len(out.Data))*growth(req, out)
	}
	return size
}

// growth returns how many bytes of an answer a byte of an output becomes at most: as text, numbers take several.
func growth(req *kserve.InferRequest, out *edgewise.Tensor) int64 {
	if binary := slices.ContainsFunc(req.Answers, func(a kserve.Answer) bool {
		return a.Name == out.Name &&
			a.Binary
	}); binary {
		return 1
	}
	switch {
	case len(req.Answers) == 0 && req.BinaryOutput:
		return 1
	case out.Type == edgewise.Bytes:
		return 2
	case out.Type.Size() == 1:
		return 6
	}
	return 4
}
