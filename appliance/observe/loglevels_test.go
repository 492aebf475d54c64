package observe

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestLogLevelsLetThroughWhatIsSet(t *testing.T) {
	for _, test := range []struct {
		name                 string
		info, warning, error bool
		verbose              uint32
		want                 string
	}{
		{"all", true, true, true, 1, "d i w e"},
		{"no details", true, true, true, 0, "i w e"},
		{"no information", false, true, true, 0, "w e"},
		{"errors alone", false, false, true, 0, "e"},
		{"nothing", false, false, false, 0, ""},
		{"a gap", true, false, true, 0, "i e"},
		{"details alone", false, false, false, 7, "d"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			levels := NewLogLevels(slog.LevelError)
			logger := levels.Logger(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError})).With("a",
				1).WithGroup("g")
			levels.SetLevels(test.info, test.warning, test.error, test.verbose)
			logger.Debug("d")
			logger.Info("i")
			logger.Warn("w")
			logger.Error("e")
			var got []string
			for line := range strings.Lines(out.String()) {
				_, message, _ := strings.Cut(line, "msg=")
				got = append(got, message[:1])
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("logged %q, want %q", got, test.want)
			}
			if i, w, e, v := levels.Levels(); i != test.info || w != test.warning || e != test.error || v != test.verbose {
				t.Errorf("the levels are %v %v %v %d", i, w, e, v)
			}
		})
	}
}

func TestLogLevelsBeginAtOne(t *testing.T) {
	for least, want := range map[slog.Level][3]bool{
		slog.LevelDebug: {true, true, true},
		slog.LevelInfo:  {true, true, true}, slog.LevelWarn: {false, true, true}, slog.LevelError: {false, false, true},
	} {
		i, w, e, v := NewLogLevels(least).Levels()
		if got := [3]bool{i, w, e}; got != want || (v == 1) != (least == slog.LevelDebug) {
			t.Errorf("from %v on: %v, verbosity %d", least, got, v)
		}
	}
}
