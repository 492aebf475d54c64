package inference

import (
	"encoding/json"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

const (
	eventStart = "data: "
	eventEnd   = "\n\n"
)

// generate answers POST /v2/models/{name}[/versions/{version}]/generate: tensors by their names in one flat JSON
// object. A decoupled model may have exactly one response to it.
func (h *Handlers) generate(r *httpapi.Request) error {
	v, err := h.generated(r)
	if err != nil {
		return err
	}
	req, err := h.decoder.Generate(v.id, v.model, r.Request().Body())
	if err != nil {
		return err
	}
	defer req.Release()
	var only *edgewise.Response
	defer func() { only.Release() }()
	if v.model.Decoupled() {
		req.Each = func(resp *edgewise.Response) error {
			switch {
			case resp.Fault != nil:
				return resp.Fault
			case only != nil:
				resp.Release()
				return errNotOne
			}
			only = resp
			return nil
		}
	}
	return h.Ask(r, &req.Request, func(resp *edgewise.Response) error {
		switch {
		case !resp.Empty && only == nil:
		case resp.Empty && only != nil:
			resp = only
		default:
			return errNotOne
		}
		r.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
		return h.writeGenerated(r, resp)
	})
}

// errNotOne is Triton's text.
var errNotOne = edgewise.Errorf("inference.generate", edgewise.Invalid, "generate expects model to produce exactly 1 "+
	"response, use generate stream for model that generates various number of responses")

// generateStream answers POST /v2/models/{name}[/versions/{version}]/generate_stream with server-sent events, one for
// each response. What fails before the first is a plain error.
func (h *Handlers) generateStream(r *httpapi.Request) error {
	v, err := h.generated(r)
	if err != nil {
		return err
	}
	body := r.Request().Body()
	b := h.Memory().Take(int64(len(body))) // the request is read for as long as the stream is written
	if b == nil {
		return h.NoMemory()
	}
	req, err := h.decoder.Generate(v.id, v.model, append(b.Bytes[:0], body...))
	if err != nil {
		b.Free()
		return err
	}
	return h.Stream(r, &req.Request, Events{
		Size: func(resp *edgewise.Response) int64 { return generatedSize(resp) },
		Append: func(to []byte, resp *edgewise.Response, _ bool) ([]byte, error) {
			if resp.Empty {
				return nil, nil
			}
			text, err := kserve.AppendGenerateResponse(append(to, eventStart...), resp)
			return append(text, eventEnd...), err
		},
		Fail: func(to []byte, err error, _ bool) []byte { return AppendFailure(to, err) },
		Free: func() {
			req.Release()
			b.Free()
		},
	})
}

// AppendFailure appends the event of an error, with the body that a plain error has.
func AppendFailure(to []byte, err error) []byte {
	text, failed := json.Marshal(httpapi.ErrorBody(err))
	if failed != nil {
		return to // text and numbers always marshal
	}
	return append(append(append(to, eventStart...), text...), eventEnd...)
}

// named is a model that is asked to generate.
type named struct {
	id    edgewise.ModelID
	model *edgewise.Model
}

func (h *Handlers) generated(r *httpapi.Request) (n named, err error) {
	if n.id, err = h.ModelID(r); err != nil {
		return n, err
	}
	if err := r.CheckIdentity(); err != nil { // the extension takes none, in any protocol version
		return n, edgewise.Errorf("inference.generate", edgewise.Invalid, "%w", err)
	}
	v, _, err := h.Engine.Version(n.id)
	if err != nil {
		return n, err
	}
	n.model = v.Model
	return n, nil
}

// writeGenerated writes an answer into memory that the connection holds.
func (h *Handlers) writeGenerated(r *httpapi.Request, resp *edgewise.Response) error {
	b := h.Memory().Take(generatedSize(resp))
	if b == nil {
		return h.NoMemory()
	}
	body, err := kserve.AppendGenerateResponse(b.Bytes[:0], resp)
	if err != nil {
		b.Free()
		r.Response().Header.Del(fiber.HeaderContentType)
		return err
	}
	return h.Send(r, b, body)
}

// generatedSize estimates the bytes of an answer, rather too many than too few.
func generatedSize(resp *edgewise.Response) int64 {
	size := int64(answerOverhead)
	for i := range resp.Outputs {
		size += int64(outputOverhead + len(resp.Outputs[i].Name) + 4*len(resp.Outputs[i].Data))
	}
	return size
}
