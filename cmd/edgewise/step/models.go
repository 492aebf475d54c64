package step

import (
	"context"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// models stands in for the other models of a box, with the answers that the running case gives.
type models struct {
	mu      sync.Mutex // guards answers
	answers map[string]answer
}

func (m *models) set(answers map[string]answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers = answers
}

// Infer answers as the case says.
func (m *models) Infer(_ context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	m.mu.Lock()
	a, ok := m.answers[req.Model.Name]
	m.mu.Unlock()
	switch {
	case !ok:
		return nil, edgewise.Errorf("step.Infer", edgewise.NotFound, "model %q: the case has no such model", req.Model.Name)
	case a.Error != "":
		return nil, edgewise.Errorf("step.Infer", edgewise.Invalid, "%s", a.Error)
	case a.Echo != nil:
		return a.echo(req)
	}
	return kserve.DecodeInferResponse(a.Response, -1, kserve.Limits{})
}

// echo returns the inputs under other names, copied: the response outlives the request.
func (a answer) echo(req *edgewise.Request) (*edgewise.Response, error) {
	response := &edgewise.Response{Model: req.Model}
	for _, t := range req.Inputs {
		name, ok := a.Echo[t.Name]
		if !ok {
			return nil, edgewise.Errorf("step.Infer", edgewise.Invalid, "model %q: unexpected input %q", req.Model.Name, t.Name)
		}
		t.Name, t.Data = name, append([]byte{}, t.Data...)
		response.Outputs = append(response.Outputs, t)
	}
	return response, nil
}
