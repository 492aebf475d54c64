package inference

import (
	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

const (
	eventStream = "text/event-stream; charset=utf-8"
	eventStart  = "data: "
	eventEnd    = "\n\n"
)

// generate answers POST /v2/models/{name}[/versions/{version}]/generate: tensors by their names in one flat JSON
// object.
func (h *Handlers) generate(r *httpapi.Request) error {
	return h.runGenerate(r, func(resp *edgewise.Response) error {
		r.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
		return h.writeGenerated(r, resp, "", "")
	})
}

// generateStream answers POST /v2/models/{name}[/versions/{version}]/generate_stream with server-sent events: one,
// since every model of this box has one answer to a request. What fails before the answer is a plain error.
func (h *Handlers) generateStream(r *httpapi.Request) error {
	return h.runGenerate(r, func(resp *edgewise.Response) error {
		r.Set(fiber.HeaderContentType, eventStream)
		return h.writeGenerated(r, resp, eventStart, eventEnd)
	})
}

func (h *Handlers) runGenerate(r *httpapi.Request, write func(*edgewise.Response) error) error {
	id, err := h.ModelID(r)
	if err != nil {
		return err
	}
	if err := r.CheckIdentity(); err != nil { // the extension takes none, in any protocol version
		return edgewise.Errorf("inference.generate", edgewise.Invalid, "%w", err)
	}
	v, _, err := h.Engine.Version(id)
	if err != nil {
		return err
	}
	req, err := h.decoder.Generate(id, v.Model, r.Request().Body())
	if err != nil {
		return err
	}
	defer req.Release()
	return h.Ask(r, &req.Request, write)
}

// writeGenerated writes an answer between two texts, into memory that the connection holds.
func (h *Handlers) writeGenerated(r *httpapi.Request, resp *edgewise.Response, before, after string) error {
	size := int64(answerOverhead)
	for i := range resp.Outputs {
		size += int64(outputOverhead + len(resp.Outputs[i].Name) + 4*len(resp.Outputs[i].Data))
	}
	b := h.Memory().Take(size)
	if b == nil {
		return h.NoMemory()
	}
	body, err := kserve.AppendGenerateResponse(append(b.Bytes[:0], before...), resp)
	if err != nil {
		b.Free()
		r.Response().Header.Del(fiber.HeaderContentType)
		return err
	}
	return h.Send(r, b, append(body, after...))
}
