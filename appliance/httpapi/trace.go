package httpapi

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// traceSettings answers GET /v2/trace/setting and GET /v2/models/{name}/trace/setting: this box traces nothing yet.
func (s *Server) traceSettings(c *fiber.Ctx) error {
	if err := s.tracedModel(c); err != nil {
		return err
	}
	return writeJSON(c, kserve.TracingOff())
}

// tracedModel checks the model in the path, if there is one.
func (s *Server) tracedModel(c *fiber.Ctx) error {
	if c.Params("model") == "" {
		return nil
	}
	id, err := inferenceID(c)
	if err != nil {
		return err
	}
	_, _, err = s.deps.Engine.Version(id)
	return err
}

// changeTraceSettings answers POST of the same paths. What leaves tracing off is taken; anything else is refused with the
// reason, after what is wrong in itself.
func (s *Server) changeTraceSettings(c *fiber.Ctx) error {
	if err := s.tracedModel(c); err != nil {
		return err
	}
	var change map[string]any
	if err := readJSON(c, &change); err != nil {
		return err
	}
	for _, member := range [...]struct {
		name  string
		check func(name string, value any) error
	}{
		{"trace_level", checkTraceLevel},
		{"trace_rate", traceNumber(1, math.MaxUint32, "1000")},
		{"trace_count", traceNumber(-1, math.MaxInt32, "-1")},
		{"log_frequency", traceNumber(0, math.MaxUint32, "0")},
		{"trace_file", noTraceFile},
		{"trace_mode", checkTraceMode},
	} {
		if value := change[member.name]; value != nil { // null: back to the default, where it is
			if err := member.check(member.name, value); err != nil {
				return err
			}
		}
	}
	return writeJSON(c, kserve.TracingOff())
}

func traceInvalid(format string, args ...any) error {
	return edgewise.Errorf("httpapi.changeTraceSettings", edgewise.Invalid, format, args...)
}

func noTracing(name string) error {
	return edgewise.Errorf("httpapi.changeTraceSettings", edgewise.Unsupported, "this server does not trace requests: %s can not be changed", name)
}

// checkTraceLevel takes "OFF" alone, as text or in an array.
func checkTraceLevel(name string, value any) error {
	levels, ok := value.([]any)
	if !ok {
		levels = []any{value}
	}
	off := false
	for _, level := range levels {
		switch level {
		case "OFF":
			off = true
		case "TIMESTAMPS", "TENSORS", "MIN", "MAX":
		default:
			text, _ := json.Marshal(level)
			return traceInvalid("%s: %.40s is no trace level: want OFF, or TIMESTAMPS and TENSORS", name, text)
		}
	}
	switch {
	case off && len(levels) > 1:
		return traceInvalid("%s: OFF stands beside other trace levels: want it alone", name)
	case off || len(levels) == 0:
		return nil
	}
	return noTracing(name)
}

// traceNumber returns a check that takes preset alone, written as a number or as text, and tells what is no number from
// lowest to highest from what is one that cannot be set.
func traceNumber(lowest, highest int64, preset string) func(name string, value any) error {
	return func(name string, value any) error {
		var text string
		switch v := value.(type) {
		case string:
			text = v
		case float64:
			if v == math.Trunc(v) {
				text = strconv.FormatFloat(v, 'f', -1, 64)
			}
		}
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil || n < lowest || n > highest:
			text, _ := json.Marshal(value)
			return traceInvalid("%s is %.40s: want a number from %d to %d", name, text, lowest, highest)
		case strconv.FormatInt(n, 10) == preset:
			return nil
		}
		return noTracing(name)
	}
}

func noTraceFile(string, any) error {
	return edgewise.Errorf("httpapi.changeTraceSettings", edgewise.Unsupported, "trace file location can not be updated through network protocol")
}

func checkTraceMode(name string, value any) error {
	switch value {
	case "triton":
		return nil
	case "opentelemetry":
		return noTracing(name)
	}
	text, _ := json.Marshal(value)
	return traceInvalid("%s is %.40s: want triton or opentelemetry", name, text)
}
