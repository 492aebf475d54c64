package grpcapi

import (
	"context"
	"log/slog"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/api/inference/wire"
)

// TraceSetting tells that tracing is off, which it always is. Asking for off, or clearing a setting, is granted.
func (s *service) TraceSetting(_ context.Context, req *inference.TraceSettingRequest) (*inference.TraceSettingResponse, error) {
	const op = "grpcapi.TraceSetting"
	if name := req.GetModelName(); name != "" {
		id, err := wire.ParseModel(name, "")
		if err == nil {
			_, _, err = s.deps.Engine.Version(id)
		}
		if err != nil {
			return nil, err
		}
	}
	const level, off = "trace_level", "OFF"
	for key, value := range req.GetSettings() {
		list := value.GetValue()
		switch {
		case !slices.Contains([]string{level, "trace_rate", "trace_count", "log_frequency", "trace_file", "trace_mode"}, key):
			return nil, edgewise.Errorf(op, edgewise.Invalid, "unknown trace setting '%.100s'", key)
		case len(list) == 0 || key == level && len(list) == 1 && list[0] == off:
		case key == level && slices.Contains(list, off):
			return nil, edgewise.Errorf(op, edgewise.Invalid, "trace level OFF excludes every other level")
		default:
			return nil, edgewise.Errorf(op, edgewise.Unsupported, "trace setting '%s' can not be set: this server does not trace requests, their times are in its statistics and metrics", key)
		}
	}
	return &inference.TraceSettingResponse{Settings: map[string]*inference.TraceSettingResponse_SettingValue{level: {Value: []string{off}}}}, nil
}

// LogSettings tells what is logged. A setting that is given its present value is granted; others can only be changed in the
// configuration.
func (s *service) LogSettings(ctx context.Context, req *inference.LogSettingsRequest) (*inference.LogSettingsResponse, error) {
	const op = "grpcapi.LogSettings"
	settings := s.logSettings(ctx)
	for key, value := range req.GetSettings() {
		present, ok := settings[key]
		switch {
		case key == "log_file" || key == "log_format":
			return nil, edgewise.Errorf(op, edgewise.Unsupported, "log setting '%s' does not exist here: the server logs to standard error, in the form of log.format", key)
		case !ok:
			return nil, edgewise.Errorf(op, edgewise.Invalid, "unknown log setting '%.100s'", key)
		}
		want, ok := chosen(present.ProtoReflect())
		got, given := chosen(value.ProtoReflect())
		switch {
		case !ok || !given || want.name != got.name:
			return nil, edgewise.Errorf(op, edgewise.Invalid, "invalid value type for log setting '%s', expected %s", key, want.name)
		case want.value != got.value:
			return nil, edgewise.Errorf(op, edgewise.Unsupported, "log setting '%s' can not be changed while the server runs: set log.level in its configuration", key)
		}
	}
	return &inference.LogSettingsResponse{Settings: settings}, nil
}

// logSettings describes the least severe lines that are logged in the protocol's words.
func (s *service) logSettings(ctx context.Context) map[string]*inference.LogSettingsResponse_SettingValue {
	flag := func(level slog.Level) *inference.LogSettingsResponse_SettingValue {
		return &inference.LogSettingsResponse_SettingValue{ParameterChoice: &inference.LogSettingsResponse_SettingValue_BoolParam{BoolParam: s.deps.Log.Enabled(ctx, level)}}
	}
	verbose := &inference.LogSettingsResponse_SettingValue_Uint32Param{}
	if s.deps.Log.Enabled(ctx, slog.LevelDebug) {
		verbose.Uint32Param = 1
	}
	return map[string]*inference.LogSettingsResponse_SettingValue{
		"log_error": flag(slog.LevelError), "log_warning": flag(slog.LevelWarn), "log_info": flag(slog.LevelInfo), "log_verbose_level": {ParameterChoice: verbose},
	}
}

// choice is the value of a setting and the field that holds it.
type choice struct {
	name  protoreflect.Name
	value any
}

// chosen returns the one field that is set in a message of a single oneof. ok is false when none is.
func chosen(m protoreflect.Message) (c choice, ok bool) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		c, ok = choice{field.Name(), value.Interface()}, true
		return false
	})
	return c, ok
}
