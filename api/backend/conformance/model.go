package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
)

// note is what the model says of itself to people.
const note = "the conformance model in Go"

// Load is the conformance model in Go: what backend.Serve needs to be a backend that keeps every rule.
func Load(s *backend.Server, start *backend.Start) (backend.Model, *backend.Ready, error) {
	var config edgewise.Model
	if err := json.Unmarshal(start.Configuration, &config); err != nil {
		return nil, nil, err
	}
	policy := config.ModelTransactionPolicy
	return &reference{server: s, decoupled: policy != nil && policy.Decoupled}, &backend.Ready{Note: note}, nil
}

// reference does what the parameter "do" of a request says.
type reference struct {
	server    *backend.Server
	decoupled bool
}

// Close has nothing to do.
func (m *reference) Close() {}

// Execute answers requests one after the other. Those that go on for long have a goroutine.
func (m *reference) Execute(requests []*backend.Incoming) error {
	for _, r := range requests {
		if m.decoupled {
			go m.stream(r)
			continue
		}
		if err := m.one(r); err != nil {
			_ = r.Fail(err)
		}
	}
	return nil
}

// one answers a request of a model that is not decoupled.
func (m *reference) one(r *backend.Incoming) error {
	switch do, _ := r.Parameters["do"].(string); do {
	case "error":
		message, _ := r.Parameters["message"].(string)
		return &backend.Error{Code: backend.InvalidArg, Message: message}
	case "wait":
		<-r.Context().Done()
		return &backend.Error{Code: backend.Cancelled, Message: "the request was cancelled"}
	case "zeros":
		count, _ := r.Parameters["count"].(int64)
		return send(r, nil, edgewise.Tensor{Name: "Y", Type: edgewise.FP32, Shape: edgewise.Shape{1, count}})
	case "parameters":
		return send(r, parameters(r))
	case "exec":
		return m.exec(r)
	case "log":
		m.server.Log(backend.Info, "conformance")
	case "metric":
		if err := m.count(); err != nil {
			return err
		}
	}
	return send(r, nil, echoed(r)...)
}

// count makes a counter and increments it by 2.
func (m *reference) count() error {
	for _, metric := range []backend.Metric{
		{Op: backend.MetricFamily, Family: "conformance_total", Kind: "counter", Description: "Requests with metric."},
		{Op: backend.MetricNew, Family: "conformance_total"},
		{Op: backend.MetricIncrement, Family: "conformance_total", Value: 2},
	} {
		if err := m.server.Count(&metric); err != nil {
			return err
		}
	}
	return nil
}

// echoed is Y for X and T for S, as far as they are there and wanted.
func echoed(r *backend.Incoming) (outputs []edgewise.Tensor) {
	for input, output := range map[string]string{"X": "Y", "S": "T"} {
		if t := r.Input(input); t != nil && r.Wants(output) {
			outputs = append(outputs, edgewise.Tensor{Name: output, Type: t.Type, Shape: t.Shape, Data: t.Data})
		}
	}
	return outputs
}

// parameters are those of a request, and its head.
func parameters(r *backend.Incoming) map[string]any {
	all := map[string]any{
		"id": r.ID, "correlation": int64(r.Correlation), "flags": int64(r.Flags), "timeout": r.Timeout.Microseconds(),
	}
	for name, value := range r.Parameters {
		all[name] = value
	}
	return all
}

// send sends the only response.
func send(r *backend.Incoming, parameters map[string]any, outputs ...edgewise.Tensor) error {
	o, err := r.Response(outputs...)
	if err != nil {
		return err
	}
	o.Parameters = parameters
	return r.Send(o, true)
}

// exec asks the model that the request names with X and Y for the answer.
func (m *reference) exec(r *backend.Incoming) error {
	replies, err := m.ask(r)
	if err != nil {
		return err
	}
	_, outputs, err := replies.Next(r.Context())
	if err != nil {
		return err
	}
	return send(r, nil, outputs...)
}

func (m *reference) ask(r *backend.Incoming) (*backend.Stream, error) {
	name, _ := r.Parameters["model"].(string)
	return m.server.Exec(r.Context(), &backend.Exec{
		Call: r.Number(), Model: name, Version: backend.Latest, Decoupled: m.decoupled,
	}, []edgewise.Tensor{*r.Input("X")})
}

// stream answers a request of a decoupled model.
func (m *reference) stream(r *backend.Incoming) {
	var err error
	switch do, _ := r.Parameters["do"].(string); do {
	case "later":
		<-r.Context().Done()
	case "many":
		count, _ := r.Parameters["count"].(int64)
		err = many(r, count)
	case "exec":
		err = m.forward(r)
	default:
		err = fmt.Errorf("the model does not know how to %q", do)
	}
	if err != nil {
		_ = r.Fail(err)
		return
	}
	_ = r.End()
}

// many sends numbers from 0.
func many(r *backend.Incoming, count int64) error {
	for i := range count {
		if err := r.Context().Err(); err != nil {
			return err
		}
		t := number(float32(i))
		t.Name = "Y"
		o, err := r.Response(t)
		if err != nil {
			return err
		}
		if err := r.Send(o, false); err != nil {
			return err
		}
	}
	return nil
}

// forward sends on what another model answers.
func (m *reference) forward(r *backend.Incoming) error {
	replies, err := m.ask(r)
	if err != nil {
		return err
	}
	for {
		_, outputs, err := replies.Next(context.Background())
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(outputs) == 0:
			continue
		}
		o, err := r.Response(outputs...)
		if err != nil {
			return err
		}
		if err := r.Send(o, false); err != nil {
			return err
		}
	}
}
