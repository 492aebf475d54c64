package httpapi

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// Logging is what the log settings need of the box. All methods are safe for concurrent use.
type Logging interface {
	// Levels tells what is logged. verbose is 0 when details are not.
	Levels() (info, warning, err bool, verbose uint32)
	// SetLevels changes what is logged, until the box stops.
	SetLevels(info, warning, err bool, verbose uint32)
}

// The values of log_format. The box writes its times as ISO 8601 in either case, and the form of a line is configured.
var logFormats = [...]string{"default", "ISO8601"}

// logSettings answers GET /v2/logging.
func (s *Server) logSettings(c *fiber.Ctx) error {
	info, warning, failure, verbose := s.deps.Logging.Levels()
	return writeJSON(c, kserve.LogSettings{Info: info, Warning: warning, Error: failure, Verbose: verbose, Format: logFormats[s.logFormat.Load()]})
}

// changeLogSettings answers POST /v2/logging with the settings after the change. Members that are null or unknown change
// nothing, and neither does a body with anything wrong.
func (s *Server) changeLogSettings(c *fiber.Ctx) error {
	var change kserve.LogChange
	if err := readJSON(c, &change); err != nil {
		return err
	}
	if change.File != nil {
		return edgewise.Errorf("httpapi.changeLogSettings", edgewise.Unsupported, "log file location can not be updated through network protocol: the log goes to standard error")
	}
	format, err := logFormat(change.Format)
	if err != nil {
		return err
	}
	s.settings.Lock() // so that changes at the same time do not undo each other
	info, warning, failure, verbose := s.deps.Logging.Levels()
	s.deps.Logging.SetLevels(either(change.Info, info), either(change.Warning, warning), either(change.Error, failure), either(change.Verbose, verbose))
	if format >= 0 {
		s.logFormat.Store(int32(format))
	}
	s.settings.Unlock()
	return s.logSettings(c)
}

// logFormat returns the place of a format in logFormats, -1 when none is asked for.
func logFormat(name *string) (int, error) {
	if name == nil {
		return -1, nil
	}
	for i, known := range logFormats {
		if *name == known {
			return i, nil
		}
	}
	return 0, edgewise.Errorf("httpapi.logFormat", edgewise.Invalid, "Invalid argument for log_format: %.40q, want %s", *name, strings.Join(logFormats[:], " or "))
}

func either[T any](wanted *T, present T) T {
	if wanted != nil {
		return *wanted
	}
	return present
}
