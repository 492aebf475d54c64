package grpcapi

import (
	"context"
	"maps"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// TraceSetting changes trace settings and returns those in force. A setting without a value is cleared; unknown ones
// are ignored.
func (s *service) TraceSetting(_ context.Context, req *inference.TraceSettingRequest) (*inference.TraceSettingResponse,
	error,
) {
	model := req.GetModelName()
	if model != "" {
		id, err := s.model(model, "")
		if err != nil {
			return nil, err
		}
		if s.deps.Engine.VersionReady(id) != nil {
			return nil, kserve.NotTraced(id)
		}
	}
	if len(req.GetSettings()) > 0 {
		change, err := kserve.ParseTraceChange(traceMembers(req), s.deps.Tracing.Settings(model).Mode)
		if err == nil {
			err = s.deps.Tracing.Change(model, change)
		}
		if err != nil {
			return nil, err
		}
	}
	settings := map[string]*inference.TraceSettingResponse_SettingValue{}
	for name, value := range kserve.TraceSettings(s.deps.Tracing.Settings(model)) {
		list, ok := value.([]string)
		if !ok {
			list = []string{value.(string)}
		}
		settings[name] = &inference.TraceSettingResponse_SettingValue{Value: list}
	}
	return &inference.TraceSettingResponse{Settings: settings}, nil
}

// traceMembers converts the settings of a request to the form of the REST body.
func traceMembers(req *inference.TraceSettingRequest) map[string]any {
	members := map[string]any{}
	for name, setting := range req.GetSettings() {
		switch list := setting.GetValue(); len(list) {
		case 0:
			members[name] = nil
		case 1:
			members[name] = list[0]
		default:
			values := make([]any, len(list))
			for i, v := range list {
				values[i] = v
			}
			members[name] = values
		}
	}
	return members
}

// LogSettings changes log settings and returns those in force. Unknown settings are ignored.
func (s *service) LogSettings(_ context.Context, req *inference.LogSettingsRequest) (*inference.LogSettingsResponse,
	error,
) {
	var change kserve.LogChange
	for _, name := range slices.Sorted(maps.Keys(req.GetSettings())) {
		if err := logChange(&change, name, req.GetSettings()[name]); err != nil {
			return nil, err
		}
	}
	l, err := s.deps.Logging.Change(change)
	if err != nil {
		return nil, err
	}
	type value = inference.LogSettingsResponse_SettingValue
	flag := func(on bool) *value {
		return &value{ParameterChoice: &inference.LogSettingsResponse_SettingValue_BoolParam{BoolParam: on}}
	}
	text := func(s string) *value {
		return &value{ParameterChoice: &inference.LogSettingsResponse_SettingValue_StringParam{StringParam: s}}
	}
	return &inference.LogSettingsResponse{Settings: map[string]*value{
		"log_file": text(l.File), "log_info": flag(l.Info), "log_warning": flag(l.Warning), "log_error": flag(l.Error),
		"log_format": text(l.Format),
		"log_verbose_level": {ParameterChoice: &inference.LogSettingsResponse_SettingValue_Uint32Param{
			Uint32Param: l.Verbose,
		}},
	}}, nil
}

// logChange adds one setting to a change.
func logChange(c *kserve.LogChange, name string, value *inference.LogSettingsRequest_SettingValue) error {
	flags := map[string]**bool{"log_info": &c.Info, "log_warning": &c.Warning, "log_error": &c.Error}
	texts := map[string]**string{"log_file": &c.File, "log_format": &c.Format}
	expected := ""
	switch choice := value.GetParameterChoice().(type) {
	case nil:
		return nil
	case *inference.LogSettingsRequest_SettingValue_BoolParam:
		if to := flags[name]; to != nil {
			*to = &choice.BoolParam
			return nil
		}
	case *inference.LogSettingsRequest_SettingValue_StringParam:
		if to := texts[name]; to != nil {
			*to = &choice.StringParam
			return nil
		}
	case *inference.LogSettingsRequest_SettingValue_Uint32Param:
		if name == "log_verbose_level" {
			c.Verbose = &choice.Uint32Param
			return nil
		}
	}
	switch {
	case flags[name] != nil:
		expected = "bool_param"
	case texts[name] != nil:
		expected = "string_param"
	case name == "log_verbose_level":
		expected = "uint32_param"
	default:
		return nil
	}
	return edgewise.Errorf("grpcapi.LogSettings", edgewise.Invalid, "invalid value type for log setting '%s', expected %s",
		name, expected)
}
