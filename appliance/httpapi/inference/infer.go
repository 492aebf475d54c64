package inference

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// What the JSON part of an answer is expected to take: beside its tensors, and for each of them.
const (
	answerOverhead = 1 << 10
	outputOverhead = 128
)

// maxDigits is how many digits a length has at most.
const maxDigits = 20

// infer answers one inference: POST /v2/models/{name}[/versions/{version}]/infer. Binary tensors are read where the
// socket put them; those of the answer are copied once, into the memory that the socket is written from.
func (h *Handlers) infer(r *httpapi.Request) error {
	in, err := h.receive(r)
	if err != nil {
		return err
	}
	defer in.release()
	req, err := h.decode(r, &in)
	if err != nil {
		return err
	}
	defer req.Release()
	sh, err := h.Share(h.Memory(), &req.Inference)
	if errors.Is(err, blocks.ErrFull) {
		return h.NoMemory()
	}
	if err != nil {
		return err
	}
	defer sh.Close()
	return h.Ask(r, &req.Request, func(resp *edgewise.Response) error {
		if err := sh.Deliver(resp); err != nil {
			return err
		}
		req.Classes = h.Classes(&req.Inference, resp.Model)
		return h.writeInfer(r, req, resp)
	})
}

// Ask has the engine answer req, within the time that inferences have, for as long as the client is there, and traced
// where that is wanted. The response is write's until it returns.
func (h *Handlers) Ask(r *httpapi.Request, req *edgewise.Request, write func(*edgewise.Response) error) (err error) {
	if err := h.forward(r, req); err != nil {
		return err
	}
	req.Arrived = time.Now()
	ctx := r.Begin(req.Arrived)
	defer r.End()
	trace := h.trace(r, req)
	if trace != nil {
		ctx = trace.Context(ctx)
		defer func() { trace.End(err) }()
		untraced := write
		write = func(resp *edgewise.Response) error {
			trace.Sending()
			return untraced(resp)
		}
	}
	r.Counted = true
	resp, err := h.Engine.Answer(ctx, req, edgewise.Exchange{Lookup: h.lookup(r), Deliver: write})
	if err != nil {
		return h.refusal(req, err)
	}
	resp.Release()
	return nil
}

// refusal is the error of a request, in Triton's words where it is that its model may have several responses to it.
func (h *Handlers) refusal(req *edgewise.Request, err error) error {
	if edgewise.KindOf(err) != edgewise.Unsupported || req.Each != nil {
		return err
	}
	if v, _, missing := h.Engine.Version(req.Model); missing != nil || !v.Model.Decoupled() {
		return err
	}
	return edgewise.Errorf("inference.infer", edgewise.Unsupported, "HTTP end point doesn't support models with decoupled "+
		"transaction policy")
}

// lookup returns what finds the version again that the path names, which may be a label; nil when it names none.
func (h *Handlers) lookup(r *httpapi.Request) func() (edgewise.ModelID, error) {
	version := r.Param("version")
	if version == "" {
		return nil
	}
	name := r.Param("model")
	return func() (edgewise.ModelID, error) { return h.Named(name, version) }
}

// forward makes parameters of the request's headers whose names match, in the client's spelling. Errors: Invalid.
func (h *Handlers) forward(r *httpapi.Request, req *edgewise.Request) error {
	if h.forwarded == nil {
		return nil
	}
	for line := range bytes.Lines(r.Request().Header.RawHeaders()) {
		name, value, ok := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte{':'})
		if !ok || !h.forwarded.Match(name) {
			continue
		}
		if err := kserve.ForwardHeader(req, string(name), string(bytes.Trim(value, " \t"))); err != nil {
			return err
		}
	}
	return nil
}

// decode reads the body of an inference request.
func (h *Handlers) decode(r *httpapi.Request, in *incoming) (*kserve.InferRequest, error) {
	if in.tensors.Bytes == nil {
		return h.Decode(r, in.id, in.body)
	}
	req, err := h.decoder.InferApart(in.id, in.body, in.tensors.Bytes)
	if err != nil {
		return nil, err
	}
	if in.tensors.CopyFramed(h.Memory(), req.Inputs) != nil {
		req.Release()
		return nil, h.NoMemory()
	}
	return req, nil
}

// Decode reads the body of an inference request to a model, which may be a file as it is, by what the headers say of it.
// The request aliases body. Errors: Invalid, TooLarge, NotFound, Unavailable.
func (h *Handlers) Decode(r *httpapi.Request, id edgewise.ModelID, body []byte) (*kserve.InferRequest, error) {
	header := &r.Request().Header
	jsonSize := httpapi.Field(header, kserve.HeaderLength)
	if len(jsonSize) == 0 {
		if isMedia(header.ContentType(), body) {
			v, _, err := h.Engine.Version(id)
			if err != nil {
				return nil, err
			}
			return h.decoder.Media(id, v.Model, body)
		}
		req, err := h.decoder.Infer(id, body, -1)
		if err != nil && hasPrefixFold(header.ContentType(), fiber.MIMEMultipartForm) {
			return nil, errForm
		}
		return req, err
	}
	size, err := kserve.ParseHeaderLength(string(jsonSize), len(body))
	if err != nil {
		return nil, err
	}
	if size > 0 {
		return h.decoder.Infer(id, body, size)
	}
	v, _, err := h.Engine.Version(id)
	if err != nil {
		return nil, err
	}
	return h.decoder.Raw(id, v.Model, body)
}

// writeInfer writes an answer into memory that the connection holds. Errors: Busy, and those of
// kserve.AppendInferResponse.
func (h *Handlers) writeInfer(r *httpapi.Request, req *kserve.InferRequest, resp *edgewise.Response) error {
	b := h.Memory().Take(answerSize(req, resp))
	if b == nil {
		return h.NoMemory()
	}
	body, jsonSize, err := kserve.AppendInferResponse(b.Bytes[:0], req, resp)
	if err != nil {
		b.Free()
		return err
	}
	if err := h.Send(r, b, body); err != nil {
		return err
	}
	header := &r.Response().Header
	header.SetContentType(fiber.MIMEApplicationJSON)
	if req.Binary(resp) { // it has a binary part behind its JSON part
		var digits [maxDigits]byte
		header.SetBytesV(kserve.HeaderLength, strconv.AppendInt(digits[:0], int64(jsonSize), 10))
		header.SetContentType(fiber.MIMEOctetStream)
	}
	h.Encode(r)
	return nil
}

// Send makes body the answer. It was appended to the bytes of b, whose owner the connection becomes. Error: Busy.
func (h *Handlers) Send(r *httpapi.Request, b *blocks.Block, body []byte) error {
	if cap(body) != cap(b.Bytes) { // it outgrew the estimate
		b.Free()
		if b = h.Memory().Adopt(body); b == nil {
			return h.NoMemory()
		}
	}
	r.Keep(b)
	r.Response().SetBodyRaw(body)
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

// errForm answers a form, in which many programs wrap a file.
var errForm = edgewise.Errorf("inference.Decode", edgewise.Invalid,
	"the body is a form (multipart/form-data): send the file itself as the body, with its own type, as \"curl -H "+
		"'Content-Type: image/jpeg' --data-binary @FILE\" does")

// isMedia tells whether a body without a JSON part is a file as it is, and no request of the protocol: by its type, or
// for application/octet-stream, which programs send with any body, because it does not begin as JSON of a request does.
func isMedia(contentType, body []byte) bool {
	for _, kind := range [...]string{"image/", "audio/", "video/"} {
		if hasPrefixFold(contentType, kind) {
			return true
		}
	}
	return !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte{'{'}) &&
		hasPrefixFold(contentType, fiber.MIMEOctetStream)
}

func hasPrefixFold(text []byte, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(string(text[:len(prefix)]), prefix)
}
