package kserve

import (
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

// LogChange is the body of POST /v2/logging. What is nil stays as it is.
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

// On returns the settings after a change of s. Errors: Unsupported (the file), Invalid.
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
