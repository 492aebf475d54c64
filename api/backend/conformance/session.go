package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
)

// Sizes of the shared memory of a session, in bytes.
const (
	inputBytes  = 64 << 20
	outputBytes = 32 << 20
)

// session is a backend's process and the connection with it.
type session struct {
	client  *backend.Client
	process Process
	over    chan struct{} // Serve has returned
	ended   error         // why; read after over

	mu      sync.Mutex      // guards what follows
	waiting context.Context // ends when a check has waited too long
	logs    []string
	metrics []*backend.Metric
	pongs   chan struct{}
	dropped chan uint64
	models  map[string]model // that EXEC may ask
}

// model answers the requests of a backend.
type model func(s *session, x *backend.Exec, inputs []edgewise.Tensor)

// open starts the backend and connects.
func (k *Kit) open(ctx context.Context) (*session, error) {
	s := &session{
		waiting: ctx, over: make(chan struct{}), pongs: make(chan struct{}, 16), dropped: make(chan uint64, 16),
		models: map[string]model{},
	}
	client, files, err := backend.Connect(inputBytes, outputBytes, s)
	if err != nil {
		return nil, err
	}
	s.client = client
	s.process, err = k.Start(files)
	for _, f := range files {
		_ = f.Close()
	}
	if err != nil {
		client.End(err)
		return nil, err
	}
	go func() {
		err := s.client.Serve()
		s.ended = err
		s.client.End(fmt.Errorf("the connection ended: %w", err))
		close(s.over)
	}()
	return s, nil
}

// patient returns the context of the present check.
func (s *session) patient() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// close ends the process without asking.
func (s *session) close() {
	s.process.Kill()
	<-s.process.Done()
	<-s.over
}

// configuration is that of the conformance model (docs/backends.md).
func configuration(decoupled bool) json.RawMessage {
	m := edgewise.Model{
		Name: Model, Platform: "conformance", MaxBatchSize: 8,
		Input: []edgewise.ModelInput{
			{Name: "X", DataType: edgewise.FP32, Dims: edgewise.Shape{-1}, Optional: true},
			{Name: "S", DataType: edgewise.Bytes, Dims: edgewise.Shape{-1}, Optional: true},
		},
		Output: []edgewise.ModelOutput{
			{Name: "Y", DataType: edgewise.FP32, Dims: edgewise.Shape{-1}},
			{Name: "T", DataType: edgewise.Bytes, Dims: edgewise.Shape{-1}},
		},
		InstanceGroup: []edgewise.InstanceGroup{{Name: Model + "_0", Kind: edgewise.KindCPU, Count: 1}},
	}
	if decoupled {
		m.ModelTransactionPolicy = &edgewise.ModelTransactionPolicy{Decoupled: true}
	}
	text, err := json.Marshal(&m)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return text
}

// start is the START of the conformance model.
func (k *Kit) start(decoupled bool) *backend.Start {
	return &backend.Start{
		Model: Model, Version: 1, Directory: filepath.Join(k.Model, "1"), ModelDirectory: k.Model,
		Configuration: configuration(decoupled), Threads: 1, Complete: true, Log: "info",
		Instance: backend.StartInstance{Name: Model + "_0_0", Kind: string(edgewise.KindCPU)},
	}
}

// ready starts the backend with the conformance model loaded.
func (k *Kit) ready(ctx context.Context, decoupled bool) (*session, error) {
	s, err := k.open(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := s.client.Start(ctx, k.start(decoupled)); err != nil {
		s.close()
		return nil, fmt.Errorf("START was not answered with READY: %w", err)
	}
	return s, nil
}

func (s *session) Log(_ backend.Level, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs = append(s.logs, line)
}

func (s *session) Metric(m *backend.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metrics = append(s.metrics, m)
}

func (s *session) Pong(uint64) { s.pongs <- struct{}{} }

func (s *session) Drop(exec uint64) { s.dropped <- exec }

func (s *session) Control(id uint64, c *backend.Control) {
	go func() { _ = s.client.Answer(id, &backend.ControlAnswer{Ready: c.Ready != ""}) }()
}

func (s *session) Exec(x *backend.Exec, inputs []edgewise.Tensor, taken func()) {
	s.mu.Lock()
	answer, ok := s.models[x.Model]
	s.mu.Unlock()
	go func() {
		defer taken()
		if ok {
			answer(s, x, inputs)
			return
		}
		missing := &backend.Error{Code: backend.NotFound, Message: fmt.Sprintf("model %q is not known", x.Model)}
		reply := &backend.Reply{Exec: x.Exec, Answer: backend.Answer{Final: true, Error: missing}}
		_ = s.client.Reply(s.patient(), reply, nil)
	}()
}

// asked is a call of which the answers are kept.
type asked struct {
	backend.Call
	answers chan *backend.Response
}

// ask makes a call with parameters, and inputs.
func ask(parameters map[string]any, inputs ...edgewise.Tensor) *asked {
	a := &asked{answers: make(chan *backend.Response, 1<<16)}
	a.Call = backend.Call{
		Request: backend.Request{ID: "id", Parameters: parameters}, Tensors: inputs,
		Answer: func(r *backend.Response) { a.answers <- r },
	}
	return a
}

// run sends calls as one batch and waits until it is done.
func (s *session) run(calls ...*asked) error {
	list := make([]*backend.Call, len(calls))
	for i, a := range calls {
		list[i] = &a.Call
	}
	done := make(chan error, 1)
	go func() { done <- s.client.Run(s.patient(), list) }()
	select {
	case err := <-done:
		return err
	case <-s.patient().Done():
		s.process.Kill()
		<-done
		return errors.New("DONE did not come in time")
	}
}

// next waits for the next response to a call.
func (s *session) next(a *asked) (*backend.Response, error) {
	select {
	case r := <-a.answers:
		return r, nil
	case <-s.patient().Done():
		return nil, errors.New("a response did not come in time")
	}
}

// only waits for the one response to a call, whose outputs are copied. In a stream an empty final one follows it.
func (s *session) only(a *asked) (map[string]edgewise.Tensor, map[string]any, error) {
	r, err := s.next(a)
	if err != nil {
		return nil, nil, err
	}
	if r.Error != nil {
		return nil, nil, r.Error
	}
	outputs := map[string]edgewise.Tensor{}
	for _, t := range r.Outputs {
		t.Data = append([]byte{}, t.Data...)
		outputs[t.Name] = t
	}
	r.Taken()
	if !r.Final {
		last, err := s.next(a)
		switch {
		case err != nil:
			return nil, nil, err
		case last.Error != nil:
			return nil, nil, last.Error
		case !last.Final || len(last.Outputs) > 0:
			return nil, nil, errors.New("a second response came, want a final one without outputs at most")
		}
	}
	return outputs, r.Parameters, nil
}

// ends waits until the process has ended.
func (s *session) ends(within time.Duration) error {
	select {
	case <-s.process.Done():
	case <-time.After(within):
		return fmt.Errorf("the process goes on after %v", within)
	}
	if how := s.process.Exit(); how != "" {
		return fmt.Errorf("the process ended with %s, want exit status 0", how)
	}
	return nil
}
