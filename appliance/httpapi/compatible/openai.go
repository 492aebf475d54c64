package compatible

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/api/openai"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Events are the answers to a request as server-sent events.
type Events struct {
	Size func(resp *edgewise.Response) int64 // how many bytes the events of a response take, rather too many than too few
	// Append appends the events of a response. last tells whether it is the last one, which may be Empty.
	Append func(to []byte, resp *edgewise.Response, last bool) ([]byte, error)
	// Fail appends the event of an error behind the first event. It ends the stream, unless more follows.
	Fail func(to []byte, err error, more bool) []byte
	Free func() // frees the memory of the request; called once, also when Stream fails
}

// openaiRoutes are those of OpenAI's interface for models that ask for it. The model is in the body, so that its handler
// decides whether a key that is bound to models may use it.
func (h *Handlers) openaiRoutes() []httpapi.Route {
	all := []httpapi.Route{
		h.runs("POST", "/v1/chat/completions", h.completions(true)), h.runs("POST", "/v1/completions", h.completions(false)),
	}
	for i := range all {
		all[i].AboutServer, all[i].Refused = true, h.refusedText
		all[i].Fault = func(status int, body kserve.ErrorBody) any { return openai.NewFailure(status, body) }
	}
	return all
}

// refusedText counts a request that ended with err before the engine received it. Its model is in the body: the handler
// has noted it as what the request is about.
func (h *Handlers) refusedText(ctx context.Context, r *httpapi.Request, took time.Duration, err error) {
	h.Engine.Refuse(ctx, edgewise.ModelID{Name: r.Target}, took, err)
}

// completions answers POST /v1/chat/completions and POST /v1/completions.
func (h *Handlers) completions(chat bool) httpapi.Handler {
	return func(r *httpapi.Request) error {
		req, err := h.readText(r, chat)
		if err != nil {
			return err
		}
		id, v, err := h.textModel(r, req.Model)
		if err != nil {
			return err
		}
		var free func()
		asked, err := req.Infer(h.decoder, id, v.Model, func(size int) ([]byte, error) {
			b := h.Memory().Take(int64(size))
			if b == nil {
				return nil, h.NoMemory()
			}
			free = b.Free
			return b.Bytes, nil
		})
		if err != nil {
			if free != nil {
				free()
			}
			return err
		}
		release := func() {
			asked.Release()
			free()
		}
		answer := req.Answer(rand.Text(), time.Now().Unix())
		if req.Stream {
			return h.Inference.Stream(r, &asked.Request, Events{
				Size: answer.Size, Append: answer.Append, Free: release,
				Fail: func(to []byte, err error, _ bool) []byte {
					status, body := httpapi.Describe(err)
					return openai.AppendFailure(to, status, body)
				},
			})
		}
		defer release()
		return h.whole(r, &asked.Request, answer)
	}
}

// readText reads the body of a request for a text.
func (h *Handlers) readText(r *httpapi.Request, chat bool) (*openai.Request, error) {
	body, release, err := h.Inference.Receive(r)
	if err != nil {
		return nil, err
	}
	defer release()
	if limit := h.Config().MaxJSONBytes; int64(len(body)) > limit {
		return nil, edgewise.Errorf("compatible.readText", edgewise.TooLarge, "the body has %d bytes: at most %d are allowed "+
			"(http.max_json_bytes)", len(body), limit).WithLimit(limit)
	}
	return openai.Decode(body, chat)
}

// textModel returns the version that a body names, as NAME, NAME:VERSION or NAME:LABEL. Errors: NotFound for one that
// does not complete texts, too; Denied, Unavailable, Unsupported.
func (h *Handlers) textModel(r *httpapi.Request, model string) (id edgewise.ModelID, v *edgewise.Version, err error) {
	const op = "compatible.textModel"
	name, version, _ := strings.Cut(model, ":")
	if edgewise.CheckName(name) == nil {
		r.Target = name
	}
	if !r.Caller.MayName(name) {
		return id, nil, edgewise.Errorf(op, edgewise.Denied, "%s is bound to the models %s", r.Caller.Actor(),
			strings.Join(r.Caller.Models, ", ")).WithReason("right_missing")
	}
	if id, err = h.Inference.Named(name, version); err == nil {
		v, _, err = h.Engine.Version(id)
	}
	switch {
	case err != nil && edgewise.KindOf(err) == edgewise.NotFound:
		return id, nil, edgewise.Errorf(op, edgewise.NotFound, "The model '%.200s' does not exist", model).WithField("model")
	case err != nil:
		return id, nil, err
	}
	asked, err := openai.Served(v.Model)
	if err == nil && !asked {
		err = edgewise.Errorf(op, edgewise.NotFound, "The model '%.200s' is not served here: its configuration has no parameter "+
			"\"openai\" that is \"true\"", model).WithField("model")
	}
	return id, v, err
}

// whole answers with the whole text.
func (h *Handlers) whole(r *httpapi.Request, req *edgewise.Request, answer *openai.Answer) error {
	req.Each = func(resp *edgewise.Response) error {
		defer resp.Release()
		if resp.Fault != nil {
			return resp.Fault
		}
		return answer.Add(resp)
	}
	return h.Inference.Ask(r, req, func(last *edgewise.Response) error {
		if err := answer.Add(last); err != nil {
			return err
		}
		text, err := json.Marshal(answer.Body(last))
		if err != nil {
			return edgewise.Errorf("compatible.whole", edgewise.Internal, "encoding the answer: %w", err)
		}
		return h.write(r, int64(len(text)), func(dst []byte) ([]byte, string, error) {
			return append(dst, text...), fiber.MIMEApplicationJSON, nil
		})
	})
}

// texts lists the models that complete texts, of those that the caller may use.
func (h *Handlers) texts(all []edgewise.Status, r *httpapi.Request) []openai.Model {
	list := []openai.Model{}
	for _, s := range all {
		if s.State != edgewise.StateReady || !r.Caller.MayName(s.ID.Name) || len(list) > 0 && list[len(list)-1].ID == s.ID.Name {
			continue
		}
		if m := h.text(s.ID.Name); m.ID != "" {
			list = append(list, m)
		}
	}
	return list
}

// text describes a model that completes texts; the zero value for any other.
func (h *Handlers) text(name string) openai.Model {
	v, _, err := h.Engine.Version(edgewise.ModelID{Name: name})
	if err != nil {
		return openai.Model{}
	}
	if asked, err := openai.Served(v.Model); err != nil || !asked {
		return openai.Model{}
	}
	return openai.NewModel(v)
}
