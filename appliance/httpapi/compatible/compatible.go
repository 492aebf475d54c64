// Package compatible answers the requests of clients of other servers, so that they need nothing but another address:
// TensorFlow Serving's REST interface with KServe's v1 protocol, TorchServe's predictions, and OpenAI's completions of
// texts for models that ask for that. It turns each into the request that the v2 protocol makes, and the answer back
// (decisions 0084, 0085).
package compatible

import (
	"context"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Inference is what every inference over HTTP has, whatever its body.
type Inference interface {
	// ModelID returns the model and the version that a path names. Error: NotFound.
	ModelID(r *httpapi.Request) (edgewise.ModelID, error)
	// Receive reads the body of a request. release ends its use.
	Receive(r *httpapi.Request) (body []byte, release func(), err error)
	// Ask has the engine answer req. The response is write's until it returns.
	Ask(r *httpapi.Request, req *edgewise.Request, write func(*edgewise.Response) error) error
	// Send makes body the answer. It was appended to the bytes of b.
	Send(r *httpapi.Request, b *blocks.Block, body []byte) error
	// Encode compresses the answer where the client wants that.
	Encode(r *httpapi.Request)
	// Named returns the version of a model that a number or a label names; Version is 0 without one. Error: NotFound.
	Named(name, version string) (edgewise.ModelID, error)
	// Stream has the engine answer req, and answers with events for each response as it comes.
	Stream(r *httpapi.Request, req *edgewise.Request, e Events) error
	// Refused counts an inference that ended with err before the engine received it.
	Refused(ctx context.Context, r *httpapi.Request, took time.Duration, err error)
}

// Deps are the parts that the handlers call.
type Deps struct {
	Engine    frontend.Engine
	Inference Inference
	// Labels returns the labels of an output's elements, by index. Nil, or returning nil: elements have no labels.
	Labels func(id edgewise.ModelID, output string) []string
}

// Handlers answers the routes.
type Handlers struct {
	*httpapi.Server
	Deps
	decoder *kserve.Decoder
}

// Register adds the routes to a server.
func Register(s *httpapi.Server, deps Deps) {
	h := &Handlers{
		Server: s, Deps: deps, decoder: kserve.NewDecoder(kserve.Limits{MaxJSON: s.Config().MaxJSONBytes}),
	}
	s.Handle(slices.Concat(h.tensorflowRoutes(), h.torchserveRoutes(), h.openaiRoutes())...)
}

// use is what looking at a model to run it needs.
const use = edgewise.Read | edgewise.Infer

// runs is a route that runs a model.
func (h *Handlers) runs(method, path string, handler httpapi.Handler) httpapi.Route {
	return httpapi.Route{
		Method: method, Path: path, Handler: handler, Rights: edgewise.Infer, Runs: true, Body: httpapi.TensorBody,
		Stream: true, API: "inference", Refused: h.Inference.Refused,
	}
}

// looks is a route that tells something of a model.
func looks(path, api string, handler httpapi.Handler) httpapi.Route {
	return httpapi.Route{Method: "GET", Path: path, Handler: handler, Rights: use, API: api}
}

// labels returns the labels of a version's outputs.
func (h *Handlers) labels(id edgewise.ModelID) func(output string) []string {
	return func(output string) []string {
		if h.Labels == nil {
			return nil
		}
		return h.Labels(id, output)
	}
}

// write answers with what fill appends to memory of about size bytes. Errors: Busy, and those of fill.
func (h *Handlers) write(
	r *httpapi.Request, size int64, fill func(dst []byte) (body []byte, contentType string, err error),
) error {
	b := h.Memory().Take(size)
	if b == nil {
		return h.NoMemory()
	}
	body, contentType, err := fill(b.Bytes[:0])
	if err != nil {
		b.Free()
		return err
	}
	if err := h.Inference.Send(r, b, body); err != nil {
		return err
	}
	r.Response().Header.SetContentType(contentType)
	h.Inference.Encode(r)
	return nil
}

// body reads the body of a request to a model, whose version number may read in a form of its own. The caller calls
// release unless there is an error.
func (h *Handlers) body(r *httpapi.Request, number func(version string) int64) (
	id edgewise.ModelID, v *edgewise.Version, body []byte, release func(), err error,
) {
	body, release, err = h.Inference.Receive(r)
	if err != nil {
		return id, nil, nil, nil, err
	}
	id, err = h.Inference.ModelID(r)
	if id.Version == 0 && number != nil && id.Name != "" {
		if id.Version = number(r.Param("version")); id.Version != 0 {
			err = nil
		}
	}
	if err == nil {
		v, _, err = h.Engine.Version(id)
	}
	if err != nil {
		release()
		return id, nil, nil, nil, err
	}
	return id, v, body, release, nil
}
