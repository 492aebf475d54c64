package conformance

import (
	"bytes"
	"context"
	"fmt"

	"github.com/edgewise-ai/edgewise/api/backend"
)

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
