package appliance

import (
	"io"
	"log/slog"

	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/observe"
)

// LogHandler writes log lines to w in the form that the configuration chooses.
func LogHandler(c config.Log, w io.Writer) slog.Handler {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // validated with the configuration
	options := &slog.HandlerOptions{Level: level}
	switch c.Format {
	case config.LogJSON:
		return slog.NewJSONHandler(w, options)
	case config.LogTriton, config.LogTritonISO8601:
		return observe.NewTritonHandler(w, c.Format == config.LogTritonISO8601)
	}
	return slog.NewTextHandler(w, options)
}

// logLevels are the levels in force at the start.
func logLevels(c config.Log) *observe.LogLevels {
	var least slog.Level
	_ = least.UnmarshalText([]byte(c.Level))
	levels := observe.NewLogLevels(least)
	info, warning, failure, verbose := levels.Levels()
	levels.SetLevels(info && c.Info, warning && c.Warning, failure && c.Error, max(verbose, uint32(c.Verbose)))
	return levels
}
