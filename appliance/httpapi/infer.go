package httpapi

import (
	"slices"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// What the JSON part of an answer is expected to take: beside its tensors, and for each of them.
const (
	answerOverhead = 1 << 10
	outputOverhead = 128
)

// infer answers one inference: POST /v2/models/{name}[/versions/{version}]/infer. Binary tensors are read where the
// socket put them; those of the answer are copied once, into the memory that the socket is written from.
func (s *Server) infer(c *fiber.Ctx) error {
	id, err := s.inferenceID(c)
	if err != nil {
		return err
	}
	expanded, err := s.expand(c)
	if err != nil {
		return err
	}
	defer expanded.free()
	req, err := s.decodeInfer(c, id)
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

// ask has the engine answer req, within the time that inferences have, for as long as the client is there, and traced where that is
// wanted. The response is write's until it returns.
func (s *Server) ask(c *fiber.Ctx, req *edgewise.Request, write func(*edgewise.Response) error) (err error) {
	if err := s.forward(c, req); err != nil {
		return err
	}
	client := connOf(c.Context())
	ctx := asked(client.watch(s.span.begin()), c)
	defer client.unwatch()
	trace := s.trace(c, req)
	if trace != nil {
		ctx = trace.Context(ctx)
		defer func() { trace.End(err) }()
	}
	resp, err := edgewise.InferLabelled(ctx, s.deps.Engine, req, func() (edgewise.ModelID, error) { return s.inferenceID(c) })
	if err != nil {
		return err
	}
	defer resp.Release()
	if trace != nil {
		trace.Sending()
	}
	return write(resp)
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

func (s *Server) decodeInfer(c *fiber.Ctx, id edgewise.ModelID) (*kserve.InferRequest, error) {
	body := c.Request().Body()
	header := c.Request().Header.Peek(kserve.HeaderLength)
	if len(header) == 0 {
		if isMedia(&c.Request().Header, body) {
			return s.decodeMedia(id, body)
		}
		req, err := s.decoder.Infer(id, body, -1)
		if err != nil && hasPrefixFold(c.Request().Header.ContentType(), fiber.MIMEMultipartForm) {
			return nil, errForm
		}
		return req, err
	}
	size, err := kserve.ParseHeaderLength(string(header), len(body))
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

// writeInfer writes an answer into memory that is lent to the connection.
func (s *Server) writeInfer(c *fiber.Ctx, req *kserve.InferRequest, resp *edgewise.Response) error {
	b := s.memory.take(answerSize(req, resp))
	if b == nil {
		return s.noMemory()
	}
	body, jsonSize, err := kserve.AppendInferResponse(b.bytes[:0], req, resp)
	if err != nil {
		b.free()
		return err
	}
	if cap(body) != cap(b.bytes) { // it outgrew the estimate
		b.free()
		if b = s.memory.adopt(body); b == nil {
			return s.noMemory()
		}
	}
	contentType := fiber.MIMEApplicationJSON
	if jsonSize < len(body) {
		contentType = fiber.MIMEOctetStream
		c.Set(kserve.HeaderLength, strconv.Itoa(jsonSize))
	}
	c.Set(fiber.HeaderContentType, contentType)
	connOf(c.Context()).lend(b)
	c.Response().SetBodyRaw(body)
	s.encode(c)
	return nil
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
	if binary := slices.ContainsFunc(req.Answers, func(a kserve.Answer) bool { return a.Name == out.Name && a.Binary }); binary {
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
