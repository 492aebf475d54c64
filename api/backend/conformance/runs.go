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
