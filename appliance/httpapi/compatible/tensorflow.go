package compatible

import (
	"slices"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/api/openai"
	"github.com/edgewise-ai/edgewise/api/tensorflow"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// tensorflowRoutes are those of TensorFlow Serving, and of KServe's v1 protocol. Both names of a version are both for
// its number and for its label.
func (h *Handlers) tensorflowRoutes() []httpapi.Route {
	all := []httpapi.Route{{
		Method: "GET", Path: "/v1/models", Handler: h.list, Rights: use, AboutServer: true, API: "metadata",
	}}
	for _, path := range []string{
		"/v1/models/:model", "/v1/models/:model/versions/:version", "/v1/models/:model/labels/:version",
	} {
		all = append(all,
			looks(path, "health", h.status), looks(path+"/metadata", "metadata", h.metadata),
			h.runs("POST", path+":predict", h.predict), h.runs("POST", path+":classify", h.classify),
			h.runs("POST", path+":regress", h.regress))
	}
	return all
}

// list names the models: GET /v1/models. It is OpenAI's list and that of KServe's v1 protocol in one.
func (h *Handlers) list(r *httpapi.Request) error {
	names, all := []string{}, h.Engine.Index()
	for _, s := range all {
		if r.Caller.MayName(s.ID.Name) {
			names = append(names, s.ID.Name)
		}
	}
	slices.Sort(names)
	return r.WriteJSON(struct {
		openai.List
		tensorflow.Names
	}{openai.NewList(h.texts(all, r)), tensorflow.Names{Models: slices.Compact(names)}})
}

// status tells the states of a model's versions: GET /v1/models/{name}[/versions/{version}]. It is TensorFlow Serving's
// and KServe's answer in one, and OpenAI's where the model completes texts.
func (h *Handlers) status(r *httpapi.Request) error {
	id, err := h.Inference.ModelID(r)
	if err != nil {
		return unknown(r, id, err)
	}
	all := h.Engine.Index()
	status := tensorflow.NewStatus(id, all)
	switch known := slices.ContainsFunc(all, func(s edgewise.Status) bool { return s.ID.Name == id.Name }); {
	case len(status.Versions) == 0 && id.Version != 0:
		return edgewise.Errorf("compatible.status", edgewise.NotFound, "Could not find version %d of model %s",
			id.Version, id.Name)
	case !known:
		return edgewise.Errorf("compatible.status", edgewise.NotFound, "Could not find any versions of model %s",
			id.Name)
	}
	return r.WriteJSON(struct {
		openai.Model
		tensorflow.Status
	}{h.text(id.Name), status})
}

// metadata describes a version: GET /v1/models/{name}[/versions/{version}]/metadata.
func (h *Handlers) metadata(r *httpapi.Request) error {
	id, err := h.Inference.ModelID(r)
	if err != nil {
		return unknown(r, id, err)
	}
	v, _, err := h.Engine.Version(id)
	if err != nil {
		return unknown(r, id, err)
	}
	return r.WriteJSON(tensorflow.NewMetadata(v))
}

// predict answers POST /v1/models/{name}[/versions/{version}]:predict.
func (h *Handlers) predict(r *httpapi.Request) error {
	return h.run(r, tensorflow.Predict, func(req *tensorflow.Request, resp *edgewise.Response) error {
		answer, err := req.Answer(resp)
		if err != nil {
			return err
		}
		return h.writeJSON(r, answer.Size(), func(dst []byte) ([]byte, error) { return answer.Append(dst), nil })
	})
}

// classify answers POST /v1/models/{name}[/versions/{version}]:classify.
func (h *Handlers) classify(r *httpapi.Request) error {
	return h.run(r, tensorflow.Examples, func(req *tensorflow.Request, resp *edgewise.Response) error {
		return h.writeJSON(r, answerSize(resp), func(dst []byte) ([]byte, error) {
			return req.AppendClasses(dst, resp, h.labels(resp.Model))
		})
	})
}

// regress answers POST /v1/models/{name}[/versions/{version}]:regress.
func (h *Handlers) regress(r *httpapi.Request) error {
	return h.run(r, tensorflow.Examples, func(req *tensorflow.Request, resp *edgewise.Response) error {
		return h.writeJSON(r, answerSize(resp), func(dst []byte) ([]byte, error) {
			return req.AppendValues(dst, resp)
		})
	})
}

// answerSize estimates the bytes of an answer of numbers with their names.
func answerSize(resp *edgewise.Response) int64 {
	const overhead, growth = 1 << 10, 8
	size := int64(overhead)
	for i := range resp.Outputs {
		size += growth * int64(len(resp.Outputs[i].Data))
	}
	return size
}

func (h *Handlers) writeJSON(r *httpapi.Request, size int64, fill func(dst []byte) ([]byte, error)) error {
	return h.write(r, size, func(dst []byte) ([]byte, string, error) {
		body, err := fill(dst)
		return body, fiber.MIMEApplicationJSON, err
	})
}

// run answers a request whose body read reads.
func (h *Handlers) run(
	r *httpapi.Request,
	read func(*kserve.Decoder, edgewise.ModelID, *edgewise.Model, []byte) (*tensorflow.Request, error),
	write func(*tensorflow.Request, *edgewise.Response) error,
) error {
	id, v, body, release, err := h.body(r, nil)
	if err != nil {
		return unknown(r, id, err)
	}
	defer release()
	req, err := read(h.decoder, id, v.Model, body)
	if err != nil {
		return err
	}
	defer req.Release()
	err = h.Inference.Ask(r, &req.Request, func(resp *edgewise.Response) error { return write(req, resp) })
	return unknown(r, id, err)
}

// unknown says in TensorFlow Serving's words that there is no such model or version; any other error stays as it is.
func unknown(r *httpapi.Request, id edgewise.ModelID, err error) error {
	if err == nil || edgewise.KindOf(err) != edgewise.NotFound {
		return err
	}
	text := edgewise.Errorf("compatible.unknown", edgewise.NotFound, "Servable not found for request: Latest(%.200s)",
		r.Param("model"))
	if id.Version != 0 {
		text = edgewise.Errorf("compatible.unknown", edgewise.NotFound, "Servable not found for request: Specific(%s, %d)", id.Name,
			id.Version)
	}
	return text
}
