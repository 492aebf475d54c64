package conformance

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
)

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
