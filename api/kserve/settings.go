package kserve

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// LogSettings is the answer to GET and POST /v2/logging.
type LogSettings struct {
	File    string `json:"log_file"` // empty: standard error
	Info    bool   `json:"log_info"`
	Warning bool   `json:"log_warning"`
	Error   bool   `json:"log_error"`
	Verbose uint32 `json:"log_verbose_level"` // 0: no details
	Format  string `json:"log_format"`        // "default" or "ISO8601"
}

// LogChange is the body of POST /v2/logging. Settings that are nil do not change.
type LogChange struct {
	File    *string `json:"log_file"`
	Info    *bool   `json:"log_info"`
	Warning *bool   `json:"log_warning"`
	Error   *bool   `json:"log_error"`
	Verbose *uint32 `json:"log_verbose_level"`
	Format  *string `json:"log_format"`
}

// The values of log_format.
var logFormats = [...]string{"default", "ISO8601"}

// On returns s with the change. Errors: Unsupported (the file), Invalid.
func (c LogChange) On(s LogSettings) (LogSettings, error) {
	if c.File != nil {
		return s, edgewise.Errorf("kserve.LogChange", edgewise.Unsupported, "log file location can not be updated through "+
			"network protocol")
	}
	if c.Format != nil && *c.Format != logFormats[0] && *c.Format != logFormats[1] {
		return s, invalid("Invalid argument for log_format: %.40q, want %s", *c.Format, strings.Join(logFormats[:], " or "))
	}
	s.Info, s.Warning, s.Error = either(c.Info, s.Info), either(c.Warning, s.Warning), either(c.Error, s.Error)
	s.Verbose, s.Format = either(c.Verbose, s.Verbose), either(c.Format, s.Format)
	return s, nil
}

func either[T any](wanted *T, present T) T {
	if wanted != nil {
		return *wanted
	}
	return present
}

// The names of the trace settings.
const (
	traceLevel     = "trace_level"
	traceRate      = "trace_rate"
	traceCount     = "trace_count"
	traceFrequency = "log_frequency"
	traceFile      = "trace_file"
	traceMode      = "trace_mode"
)

// openTelemetry is the trace mode that has options of its own.
const openTelemetry = "opentelemetry"

// TraceSettings returns trace settings by their names in the protocol: for trace_level a list of texts, otherwise a
// text.
func TraceSettings(s edgewise.TraceSettings) map[string]any {
	levels := s.Levels
	if len(levels) == 0 {
		levels = []string{"OFF"}
	}
	out := map[string]any{
		traceLevel: levels, traceRate: strconv.FormatInt(s.Rate, 10), traceCount: strconv.FormatInt(s.Count, 10),
		traceMode: s.Mode,
	}
	if s.Mode == openTelemetry {
		for name, value := range s.Options {
			out[name] = value
		}
		return out
	}
	out[traceFrequency], out[traceFile] = strconv.FormatInt(s.LogFrequency, 10), s.File
	return out
}

// ParseTraceChange reads the settings that a client wants to change. A value is a text or a number, for trace_level a
// text or a list of texts; nil clears a setting. Unknown names are ignored. mode is the one in force, which cannot be
// changed. Errors: Invalid, Unsupported.
func ParseTraceChange(members map[string]any, mode string) (edgewise.TraceChange, error) {
	var c edgewise.TraceChange
	for _, name := range []string{traceLevel, traceRate, traceCount, traceFrequency, traceFile, traceMode} {
		value, there := members[name]
		if !there {
			continue
		}
		if value == nil {
			if name != traceFile && name != traceMode {
				c.Clear = append(c.Clear, name)
			}
			continue
		}
		var err error
		switch name {
		case traceLevel:
			c.Levels, err = traceLevels(value)
		case traceRate:
			c.Rate, err = traceNumber(name, value, 0, math.MaxUint32)
		case traceCount:
			c.Count, err = traceNumber(name, value, -1, math.MaxInt32)
		case traceFrequency:
			c.LogFrequency, err = traceNumber(name, value, 0, math.MaxUint32)
		case traceFile:
			err = edgewise.Errorf("kserve.ParseTraceChange", edgewise.Unsupported,
				"trace file location can not be updated through network protocol")
		case traceMode:
			err = traceModeIs(value, mode)
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// traceLevels reads "OFF" alone, or some of the other levels, as a text or as an array.
func traceLevels(value any) ([]string, error) {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	levels := []string{}
	for _, entry := range list {
		level, _ := entry.(string)
		switch level {
		case "MIN", "MAX": // older names
			level = "TIMESTAMPS"
		case "OFF", "TIMESTAMPS", "TENSORS":
		default:
			text, _ := json.Marshal(entry)
			return nil, invalid("%s: %.40s is no trace level: want OFF, or TIMESTAMPS and TENSORS", traceLevel, text)
		}
		if !slices.Contains(levels, level) {
			levels = append(levels, level)
		}
	}
	switch {
	case len(levels) == 0:
		return []string{"OFF"}, nil
	case len(levels) > 1 && slices.Contains(levels, "OFF"):
		return nil, invalid("%s: OFF stands beside other trace levels: want it alone", traceLevel)
	}
	return levels, nil
}

// traceNumber reads a number, which JSON has as a number or as a text.
func traceNumber(name string, value any, lowest, highest int64) (*int64, error) {
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
	if err != nil || n < lowest || n > highest {
		text, _ := json.Marshal(value)
		return nil, invalid("%s is %.40s: want a number from %d to %d", name, text, lowest, highest)
	}
	return &n, nil
}

func traceModeIs(value any, mode string) error {
	text, _ := json.Marshal(value)
	switch {
	case value == mode:
		return nil
	case value == "triton" || value == openTelemetry:
		return edgewise.Errorf("kserve.ParseTraceChange", edgewise.Unsupported,
			"trace mode can not be updated through network protocol: it is %s", mode)
	}
	return invalid("%s is %.40s: want triton or opentelemetry", traceMode, text)
}

// NotTraced is Triton's error about trace settings of a model without a ready version.
func NotTraced(id edgewise.ModelID) error {
	err := edgewise.Errorf("kserve.NotTraced", edgewise.NotFound, "Request for unknown model : %s", id.Name)
	err.Model = id
	return err
}
