package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
)

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

// finishes expects the responses from number i to count, each of which is taken at once, the final one, and the end of the run.
func (s *session) finishes(a *asked, done <-chan error, i, count int) error {
	for ; i < count; i++ {
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

func streamOrder(_ *Kit, s *session, _ context.Context) error {
	const count = 10000
	a := ask(map[string]any{"do": "many", "count": int64(count)}, number(1))
	return s.finishes(a, s.runs(a), 0, count)
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
	return s.finishes(a, done, backend.MaxUntaken, count)
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
	return s.finishes(a, s.runs(a), 0, count)
}
