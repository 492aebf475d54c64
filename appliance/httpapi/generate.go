package httpapi

import (
	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

const (
	eventStream = "text/event-stream; charset=utf-8"
	eventStart  = "data: "
	eventEnd    = "\n\n"
)

// generate answers POST /v2/models/{name}[/versions/{version}]/generate: tensors by their names in one flat JSON
// object.
func (s *Server) generate(c *fiber.Ctx) error {
	return s.runGenerate(c, func(resp *edgewise.Response) error {
		c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
		return s.writeGenerated(c, resp, "", "")
	})
}

// generateStream answers POST /v2/models/{name}[/versions/{version}]/generate_stream with server-sent events: one,
// since every model of this box has one answer to a request. What fails before the answer is a plain error.
func (s *Server) generateStream(c *fiber.Ctx) error {
	return s.runGenerate(c, func(resp *edgewise.Response) error {
		c.Set(fiber.HeaderContentType, eventStream)
		return s.writeGenerated(c, resp, eventStart, eventEnd)
	})
}

func (s *Server) runGenerate(c *fiber.Ctx, write func(*edgewise.Response) error) error {
	id, err := s.inferenceID(c)
	if err != nil {
		return err
	}
	if err := noEncoding(c); err != nil { // the extension takes none, in any protocol version
		return edgewise.Errorf("httpapi.generate", edgewise.Invalid, "%w", err)
	}
	v, _, err := s.deps.Engine.Version(id)
	if err != nil {
		return err
	}
	req, err := s.decoder.Generate(id, v.Model, c.Request().Body())
	if err != nil {
		return err
	}
	defer req.Release()
	return s.ask(c, &req.Request, write)
}

// writeGenerated writes an answer between two texts, into memory that the connection holds.
func (s *Server) writeGenerated(c *fiber.Ctx, resp *edgewise.Response, before, after string) error {
	size := int64(answerOverhead)
	for i := range resp.Outputs {
		size += int64(outputOverhead + len(resp.Outputs[i].Name) + 4*len(resp.Outputs[i].Data))
	}
	b := s.memory.Take(size)
	if b == nil {
		return s.noMemory()
	}
	body, err := kserve.AppendGenerateResponse(append(b.Bytes[:0], before...), resp)
	if err != nil {
		b.Free()
		c.Response().Header.Del(fiber.HeaderContentType)
		return err
	}
	body = append(body, after...)
	if cap(body) != cap(b.Bytes) { // it outgrew the estimate
		b.Free()
		if b = s.memory.Adopt(body); b == nil {
			return s.noMemory()
		}
	}
	connOf(c.Context()).keep(b)
	c.Response().SetBodyRaw(body)
	return nil
}
