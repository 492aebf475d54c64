package administration

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/example"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Goldens are requests with expected answers, which versions answer before they go live. golden.Goldens describes the
// methods, which are safe for concurrent use.
type Goldens interface {
	List(model string) (admin.Goldens, error)
	Configure(model string, s admin.GoldenSettings) error
	Add(p *edgewise.Principal, name string, e *example.Example) (admin.Golden, error)
	Capture(ctx context.Context, p *edgewise.Principal, name string, req *edgewise.Request) (admin.Golden, error)
	Example(model, id string) ([]byte, error)
	Remove(model, id string) error
	Run(ctx context.Context, id edgewise.ModelID) (admin.GoldenReport, error)
	Report(id edgewise.ModelID) (admin.GoldenReport, error)
}

// goldenRoutes are about the goldens of models.
func (h *handlers) goldenRoutes() []httpapi.Route {
	const (
		read, operate   = edgewise.Read, edgewise.Operate
		goldens, golden = modelPath + "/goldens", modelPath + "/goldens/:golden"
	)
	return []httpapi.Route{
		{Method: "GET", Path: goldens, Handler: showModel(h.goldens), Rights: read},
		act("PUT", goldens, "golden.settings", operate, runModel(h.configureGoldens)),
		{
			Method: "POST", Path: goldens, Handler: showModel(h.addGolden), Rights: operate, Action: "golden.add", Runs: true,
			Body: httpapi.TensorBody,
		},
		{Method: "GET", Path: golden, Handler: h.goldenExample, Rights: operate},
		act("DELETE", golden, "golden.delete", operate, runModel(h.deleteGolden)),
		{Method: "GET", Path: versionPath + "/goldens", Handler: showModel(h.goldenReport), Rights: read},
		{
			Method: "POST", Path: versionPath + "/goldens", Handler: find(h.Goldens.Run), Rights: operate,
			Action: "golden.run", Runs: true,
		},
	}
}

// goldens lists those of a model: GET /api/v1/models/{model}/goldens.
func (h *handlers) goldens(_ *httpapi.Request, id edgewise.ModelID) (admin.Goldens, error) {
	return h.Goldens.List(id.Name)
}

// configureGoldens replaces the policy and the rules: PUT /api/v1/models/{model}/goldens.
func (h *handlers) configureGoldens(r *httpapi.Request, id edgewise.ModelID) error {
	var ask admin.GoldenSettings
	if err := r.ReadStrictJSON(&ask); err != nil {
		return err
	}
	r.Detail = "policy " + ask.Policy + ", " + strconv.Itoa(len(ask.Rules)) + " rules"
	return h.Goldens.Configure(id.Name, ask)
}

// addGolden stores a request with its answer: POST /api/v1/models/{model}/goldens?name=N[&version=V]. The body is an
// example, or an inference request, which a version answers.
func (h *handlers) addGolden(r *httpapi.Request, id edgewise.ModelID) (added admin.Golden, err error) {
	name := strings.Clone(r.Query("name"))
	r.Status(fiber.StatusCreated)
	r.Detail = name
	body := r.Request().Body()
	if bytes.HasPrefix(r.Request().Header.ContentType(), []byte(admin.MediaExample)) {
		e, err := example.Decode(body)
		if err != nil {
			return added, err
		}
		if e.Model.Name != id.Name { // the version of another model says nothing of this one
			e.Model = id
		}
		return h.Goldens.Add(r.Caller, name, e)
	}
	if r.Query("version") != "" {
		if id.Version, err = queryVersion(r, "version"); err != nil {
			return added, err
		}
	}
	req, err := h.Decode(r, id, body)
	if err != nil {
		return added, err
	}
	defer req.Release()
	ctx := r.Begin(time.Now())
	defer r.End()
	return h.Goldens.Capture(ctx, r.Caller, name, &req.Request)
}

// goldenExample answers with a golden as a file: GET /api/v1/models/{model}/goldens/{golden}.
func (h *handlers) goldenExample(r *httpapi.Request) error {
	id, err := modelID(r)
	if err != nil {
		return err
	}
	data, err := h.Goldens.Example(id.Name, r.Param("golden"))
	if err != nil {
		return err
	}
	r.Set(fiber.HeaderContentType, admin.MediaExample)
	setFilename(r, id.Name+"-"+r.Param("golden")+".example")
	return r.Send(data)
}

// deleteGolden deletes a golden: DELETE /api/v1/models/{model}/goldens/{golden}.
func (h *handlers) deleteGolden(r *httpapi.Request, id edgewise.ModelID) error {
	r.Detail = "golden " + r.Param("golden")
	return h.Goldens.Remove(id.Name, r.Param("golden"))
}

// goldenReport shows how a version has answered: GET /api/v1/models/{model}/versions/{version}/goldens.
func (h *handlers) goldenReport(_ *httpapi.Request, id edgewise.ModelID) (admin.GoldenReport, error) {
	return h.Goldens.Report(id)
}
