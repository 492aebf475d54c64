package kserve

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

// TraceSettings is the answer to GET and POST of trace settings, of the server and of a model. Numbers are text.
type TraceSettings struct {
	Level     []string `json:"trace_level"` // OFF, or of TIMESTAMPS and TENSORS
	Rate      string   `json:"trace_rate"`  // one of so many requests is traced
	Count     string   `json:"trace_count"` // so many more requests are traced; -1: any number
	Frequency string   `json:"log_frequency"`
	File      string   `json:"trace_file"`
	Mode      string   `json:"trace_mode"`
}

// TracingOff are the settings of a server that traces nothing.
func TracingOff() TraceSettings {
	return TraceSettings{Level: []string{"OFF"}, Rate: "1000", Count: "-1", Frequency: "0", Mode: "triton"}
}
