package conformance

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
)

// checks are the rules, in the order in which they are checked.
var checks = []check{
	{"start.ready", "START is answered with READY, and STOP with the end of the process", fresh, startReady},
	{"start.version", "a START of a version that the backend does not speak is refused", fresh, startVersion},
	{"start.describe", "after READY to a START with describe the process ends", fresh, startDescribe},
	{"end.socket", "the process ends when the socket is closed", fresh, endSocket},
	{"run.echo", "numbers come back as they were sent", plain, echo(edgewise.Shape{1, 3})},
	{"run.empty", "a tensor without elements has no bytes and no block", plain, echo(edgewise.Shape{1, 0})},
	{"run.large", "a tensor of 8 MiB comes back as it was sent", plain, echo(edgewise.Shape{1, 2 << 20})},
	{"run.strings", "strings of any bytes come back as they were sent", plain, runStrings},
	{"run.batch", "each request of a batch of eight gets its own answer", plain, runBatch},
	{"run.wanted", "outputs that are not wanted are left out", plain, runWanted},
	{"run.parameters", "parameters keep their types, and the head of a request arrives", plain, runParameters},
	{"run.error", "an error answers one request of a batch, with its code and message", plain, runError},
	{"run.memory", "input and output memory are used again", plain, runMemory},
	{"run.full", "outputs that do not fit into the output memory are an error of their request", plain, runFull},
	{"run.cancel", "a request that is cancelled while it runs ends soon", plain, runCancel},
	{"ping.busy", "PING is answered while a request runs", plain, pingBusy},
	{"exec.one", "a request to another model gets its answer", plain, execOne},
	{"exec.error", "an error of another model reaches the one who asked", plain, execError},
	{"exec.call", "a request to another model names the call that it is made for", plain, execCall},
	{"log", "a line of the log arrives with its text", plain, logLine},
	{"metric", "a metric of the model arrives with its value", plain, metric},
	{"stream.none", "a request may have no response but the final one", decoupled, streamNone},
	{"stream.order", "ten thousand responses arrive in order", decoupled, streamOrder},
	{"stream.pressure", "sixty-four responses are sent at most before one is taken", decoupled, streamPressure},
	{"stream.open", "another batch runs while a request is open", decoupled, streamOpen},
	{"stream.cancel", "a stream whose client reads nothing ends when it is cancelled", decoupled, streamCancel},
	{"stream.exec", "many responses of another model arrive in order", decoupled, streamExec},
}

func startReady(k *Kit, _ *session, ctx context.Context) error {
	s, err := k.ready(ctx, false)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.client.Stop(); err != nil {
		return err
	}
	return s.ends(grace)
}

// grace is how long a process may take to end; the server waits as long.
const grace = 2 * time.Second

func startVersion(k *Kit, _ *session, ctx context.Context) error {
	s, err := k.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	if _, err = s.client.StartVersion(ctx, k.start(false), backend.Version+1000); err == nil {
		return errors.New("READY came")
	}
	return ctx.Err()
}

func startDescribe(k *Kit, _ *session, ctx context.Context) error {
	s, err := k.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	start := k.start(false)
	start.Describe = true
	if _, err := s.client.Start(ctx, start); err != nil {
		return err
	}
	return s.ends(grace)
}

func endSocket(k *Kit, _ *session, ctx context.Context) error {
	s, err := k.ready(ctx, false)
	if err != nil {
		return err
	}
	defer s.close()
	s.client.Close()
	select {
	case <-s.process.Done():
		return nil
	case <-time.After(grace):
		return fmt.Errorf("the process goes on after %v", grace)
	}
}

func floats(name string, shape edgewise.Shape) edgewise.Tensor {
	n, _ := shape.Elements()
	data := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(i)+0.5))
	}
	return edgewise.Tensor{Name: name, Type: edgewise.FP32, Shape: shape, Data: data}
}

func number(v float32) edgewise.Tensor {
	data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))
	return edgewise.Tensor{Name: "X", Type: edgewise.FP32, Shape: edgewise.Shape{1, 1}, Data: data}
}

// same tells whether an output is there with the content of an input.
func same(outputs map[string]edgewise.Tensor, name string, want edgewise.Tensor) error {
	got, ok := outputs[name]
	switch {
	case !ok:
		return fmt.Errorf("output %q is missing", name)
	case got.Type != want.Type || !got.Shape.Equal(want.Shape):
		return fmt.Errorf("output %q is %v%v, want %v%v", name, got.Type, got.Shape, want.Type, want.Shape)
	case !bytes.Equal(got.Data, want.Data):
		return fmt.Errorf("output %q has another content than the input", name)
	}
	return nil
}

func echo(shape edgewise.Shape) func(*Kit, *session, context.Context) error {
	return func(_ *Kit, s *session, _ context.Context) error {
		x := floats("X", shape)
		a := ask(nil, x)
		if err := s.run(a); err != nil {
			return err
		}
		outputs, _, err := s.only(a)
		if err != nil {
			return err
		}
		return same(outputs, "Y", x)
	}
}

func runStrings(_ *Kit, s *session, _ context.Context) error {
	var data []byte
	for _, element := range []string{"", "text", "a\x00b\xff", string(make([]byte, 70000))} {
		data = edgewise.AppendElement(data, element)
	}
	x := edgewise.Tensor{Name: "S", Type: edgewise.Bytes, Shape: edgewise.Shape{1, 4}, Data: data}
	a := ask(nil, x)
	if err := s.run(a); err != nil {
		return err
	}
	outputs, _, err := s.only(a)
	if err != nil {
		return err
	}
	return same(outputs, "T", x)
}

func runBatch(_ *Kit, s *session, _ context.Context) error {
	var calls []*asked
	for i := range 8 {
		x := floats("X", edgewise.Shape{1, 16})
		x.Data[0] = byte(i)
		calls = append(calls, ask(nil, x))
	}
	if err := s.run(calls...); err != nil {
		return err
	}
	for _, a := range calls {
		outputs, _, err := s.only(a)
		if err != nil {
			return err
		}
		if err := same(outputs, "Y", a.Tensors[0]); err != nil {
			return err
		}
	}
	return nil
}

func runWanted(_ *Kit, s *session, _ context.Context) error {
	text := edgewise.Tensor{
		Name: "S", Type: edgewise.Bytes, Shape: edgewise.Shape{1, 1},
		Data: edgewise.AppendElement(nil, "text"),
	}
	a := ask(nil, floats("X", edgewise.Shape{1, 2}), text)
	a.Wanted = []string{"T"}
	if err := s.run(a); err != nil {
		return err
	}
	outputs, _, err := s.only(a)
	if err != nil {
		return err
	}
	if len(outputs) != 1 {
		return fmt.Errorf("got %d outputs, want T alone", len(outputs))
	}
	return same(outputs, "T", text)
}

func runParameters(_ *Kit, s *session, _ context.Context) error {
	sent := map[string]any{"do": "parameters", "b": true, "i": int64(-1 << 60), "f": 0.25, "s": "text"}
	a := ask(sent, number(1))
	a.ID, a.Correlation, a.Flags = "request 1", 7, backend.SequenceStart|backend.SequenceEnd
	a.Priority, a.Timeout = 3, 5*time.Second
	if err := s.run(a); err != nil {
		return err
	}
	_, got, err := s.only(a)
	if err != nil {
		return err
	}
	want := maps.Clone(sent)
	want["id"], want["correlation"], want["flags"], want["timeout"] = "request 1", int64(7), int64(3), int64(5000000)
	for name, value := range want {
		if !reflect.DeepEqual(got[name], value) {
			return fmt.Errorf("parameter %q came back as %T %v, want %T %v", name, got[name], got[name], value, value)
		}
	}
	return nil
}

func runError(_ *Kit, s *session, _ context.Context) error {
	good, bad := ask(nil, number(1)), ask(map[string]any{"do": "error", "message": "no such thing"}, number(2))
	if err := s.run(bad, good); err != nil {
		return err
	}
	_, _, err := s.only(bad)
	var told *backend.Error
	if !errors.As(err, &told) || told.Code != backend.InvalidArg || told.Message != "no such thing" {
		return fmt.Errorf("got the error %v, want code %d with the message that was asked for", err, backend.InvalidArg)
	}
	outputs, _, err := s.only(good)
	if err != nil {
		return err
	}
	return same(outputs, "Y", good.Tensors[0])
}

func runMemory(k *Kit, s *session, ctx context.Context) error {
	for range 50 {
		if err := echo(edgewise.Shape{1, 1 << 18})(k, s, ctx); err != nil {
			return err
		}
	}
	return nil
}

func runFull(k *Kit, s *session, ctx context.Context) error {
	a := ask(map[string]any{"do": "zeros", "count": int64(outputBytes)}, number(1))
	if err := s.run(a); err != nil {
		return err
	}
	if _, _, err := s.only(a); err == nil {
		return errors.New("the request was answered without an error")
	} else if backend.Gone(err) {
		return err
	}
	return echo(edgewise.Shape{1, 3})(k, s, ctx)
}

// runs sends a batch of which DONE is not expected yet.
func (s *session) runs(a *asked) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.run(a) }()
	return done
}

// pinged waits for the answer to a PING, before which everything has arrived that the backend had sent.
func (s *session) pinged() error {
	if err := s.client.Ping(); err != nil {
		return err
	}
	select {
	case <-s.pongs:
		return nil
	case <-s.over:
		return fmt.Errorf("the connection ended: %w", s.ended)
	case <-s.patient().Done():
		return errors.New("PONG did not come in time")
	}
}

// cancel cancels a call and waits until it has ended. A call that runs sends may not have been sent when this begins.
func (s *session) cancel(a *asked) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		s.client.Cancel(&a.Call)
		select {
		case r := <-a.answers:
			r.Taken()
			if r.Final {
				return nil
			}
		case <-again.C:
		case <-s.patient().Done():
			return errors.New("a response did not come in time")
		}
	}
}

func runCancel(_ *Kit, s *session, _ context.Context) error {
	a := ask(map[string]any{"do": "wait"}, number(1))
	done := s.runs(a)
	if err := s.pinged(); err != nil {
		return err
	}
	if err := s.cancel(a); err != nil {
		return err
	}
	return <-done
}

func pingBusy(_ *Kit, s *session, _ context.Context) error {
	a := ask(map[string]any{"do": "wait"}, number(1))
	done := s.runs(a)
	for range 3 {
		if err := s.pinged(); err != nil {
			return err
		}
	}
	if err := s.cancel(a); err != nil {
		return err
	}
	return <-done
}

// double answers with twice the input X, as output Y.
func double(s *session, x *backend.Exec, inputs []edgewise.Tensor) {
	out := edgewise.Tensor{Name: "Y", Type: edgewise.FP32, Shape: inputs[0].Shape}
	for i := 0; i+4 <= len(inputs[0].Data); i += 4 {
		v := math.Float32frombits(binary.LittleEndian.Uint32(inputs[0].Data[i:]))
		out.Data = binary.LittleEndian.AppendUint32(out.Data, math.Float32bits(2*v))
	}
	_ = s.client.Reply(s.patient(), &backend.Reply{
		Exec: x.Exec, Model: x.Model, Version: 1, Answer: backend.Answer{Final: true},
	}, []edgewise.Tensor{out})
}

func (s *session) offer(name string, m model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models[name] = m
}

func execOne(_ *Kit, s *session, _ context.Context) error {
	s.offer("double", double)
	for range 3 {
		a := ask(map[string]any{"do": "exec", "model": "double"}, number(21))
		if err := s.run(a); err != nil {
			return err
		}
		outputs, _, err := s.only(a)
		if err != nil {
			return err
		}
		if err := same(outputs, "Y", number(42)); err != nil {
			return err
		}
	}
	return nil
}

func execError(_ *Kit, s *session, _ context.Context) error {
	a := ask(map[string]any{"do": "exec", "model": "missing"}, number(21))
	if err := s.run(a); err != nil {
		return err
	}
	_, _, err := s.only(a)
	if want := `model "missing" is not known`; err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
		return fmt.Errorf("got the error %v, want %s in it", err, want)
	}
	return nil
}

func execCall(_ *Kit, s *session, _ context.Context) error {
	named := make(chan uint64, 1)
	s.offer("who", func(s *session, x *backend.Exec, inputs []edgewise.Tensor) {
		named <- x.Call
		double(s, x, inputs)
	})
	a := ask(map[string]any{"do": "exec", "model": "who"}, number(1))
	if err := s.run(a); err != nil {
		return err
	}
	if _, _, err := s.only(a); err != nil {
		return err
	}
	if got := <-named; got != a.Number() {
		return fmt.Errorf("EXEC names call %d, want %d", got, a.Number())
	}
	return nil
}

func logLine(_ *Kit, s *session, _ context.Context) error {
	if err := s.noted("log"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.logs {
		if bytes.Contains([]byte(line), []byte("conformance")) {
			return nil
		}
	}
	return fmt.Errorf("no line with the text came, got %q", s.logs)
}

func metric(_ *Kit, s *session, _ context.Context) error {
	if err := s.noted("metric"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.metrics {
		if m.Op == backend.MetricIncrement && m.Family == "conformance_total" && m.Value == 2 {
			return nil
		}
	}
	return fmt.Errorf("the metric did not come, got %d others", len(s.metrics))
}

// noted has the model do something that it tells of.
func (s *session) noted(do string) error {
	a := ask(map[string]any{"do": do}, number(1))
	if err := s.run(a); err != nil {
		return err
	}
	if _, _, err := s.only(a); err != nil {
		return err
	}
	return s.pinged()
}

func streamNone(_ *Kit, s *session, _ context.Context) error {
	a := ask(map[string]any{"do": "many", "count": int64(0)}, number(1))
	if err := s.run(a); err != nil {
		return err
	}
	return s.last(a)
}

// last expects the final response without outputs.
func (s *session) last(a *asked) error {
	r, err := s.next(a)
	switch {
	case err != nil:
		return err
	case r.Error != nil:
		return r.Error
	case !r.Final || len(r.Outputs) > 0:
		return errors.New("got one more response, want the final one without outputs")
	}
	return nil
}

// numbered expects the response with number i.
func (s *session) numbered(a *asked, i int) (*backend.Response, error) {
	r, err := s.next(a)
	switch {
	case err != nil:
		return nil, err
	case r.Error != nil:
		return nil, r.Error
	case r.Final:
		return nil, fmt.Errorf("the final response came in place of response %d", i)
	case len(r.Outputs) != 1 || !bytes.Equal(r.Outputs[0].Data, number(float32(i)).Data):
		return nil, fmt.Errorf("response %d has another content", i)
	}
	return r, nil
}

func streamOrder(_ *Kit, s *session, _ context.Context) error {
	const count = 10000
	a := ask(map[string]any{"do": "many", "count": int64(count)}, number(1))
	done := s.runs(a)
	for i := range count {
		r, err := s.numbered(a, i)
		if err != nil {
			return err
		}
		r.Taken()
	}
	if err := s.last(a); err != nil {
		return err
	}
	return <-done
}

func streamPressure(_ *Kit, s *session, _ context.Context) error {
	const count = 200
	a := ask(map[string]any{"do": "many", "count": int64(count)}, number(1))
	done := s.runs(a)
	var held []*backend.Response
	for i := range backend.MaxUntaken {
		r, err := s.numbered(a, i)
		if err != nil {
			return err
		}
		held = append(held, r)
	}
	for range 3 { // a 65th one would break the protocol, which ends the connection
		if err := s.pinged(); err != nil {
			return err
		}
	}
	for _, r := range held {
		r.Taken()
	}
	for i := backend.MaxUntaken; i < count; i++ {
		r, err := s.numbered(a, i)
		if err != nil {
			return err
		}
		r.Taken()
	}
	if err := s.last(a); err != nil {
		return err
	}
	return <-done
}

func streamOpen(_ *Kit, s *session, _ context.Context) error {
	open := ask(map[string]any{"do": "later"}, number(1))
	if err := s.run(open); err != nil { // DONE comes although the request is open
		return err
	}
	a := ask(map[string]any{"do": "many", "count": int64(1)}, number(2))
	if err := s.run(a); err != nil {
		return err
	}
	r, err := s.numbered(a, 0)
	if err != nil {
		return err
	}
	r.Taken()
	if err := s.last(a); err != nil {
		return err
	}
	return s.cancel(open)
}

func streamCancel(_ *Kit, s *session, _ context.Context) error {
	a := ask(map[string]any{"do": "many", "count": int64(1 << 40)}, number(1))
	done := s.runs(a)
	for i := range backend.MaxUntaken {
		if _, err := s.numbered(a, i); err != nil {
			return err
		}
	}
	s.client.Cancel(&a.Call)
	for {
		r, err := s.next(a)
		if err != nil {
			return err
		}
		if r.Final {
			return <-done
		}
	}
}

func streamExec(_ *Kit, s *session, _ context.Context) error {
	const count = 300
	s.offer("counter", func(s *session, x *backend.Exec, _ []edgewise.Tensor) {
		for i := range count {
			t := number(float32(i))
			t.Name = "Y"
			reply := &backend.Reply{Exec: x.Exec, Model: x.Model, Version: 1}
			if s.client.Reply(s.patient(), reply, []edgewise.Tensor{t}) != nil {
				return
			}
		}
		_ = s.client.Reply(s.patient(), &backend.Reply{
			Exec: x.Exec, Model: x.Model, Version: 1, Answer: backend.Answer{Final: true, Empty: true},
		}, nil)
	})
	a := ask(map[string]any{"do": "exec", "model": "counter"}, number(1))
	done := s.runs(a)
	for i := range count {
		r, err := s.numbered(a, i)
		if err != nil {
			return err
		}
		r.Taken()
	}
	if err := s.last(a); err != nil {
		return err
	}
	return <-done
}
