package backend

import "fmt"

// Level is the level of a log line.
type Level uint8

// The levels of log lines.
const (
	Verbose Level = 0
	Info    Level = 1
	Warning Level = 2
	Err     Level = 3
)

// levelNames are those of Start.Log.
var levelNames = []string{"verbose", "info", "warning", "error"}

// String returns the level's name.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("level(%d)", uint8(l))
}

// ParseLevel reads a level's name. An unknown one counts as info.
func ParseLevel(name string) Level {
	for i, known := range levelNames {
		if known == name {
			return Level(i)
		}
	}
	return Info
}

func appendLog(b []byte, l Level, line string) ([]byte, error) {
	start := len(b)
	return finish(appendText(append(begin(b, KindLog), byte(l)), line), start)
}

func decodeLog(body []byte) (l Level, line string, err error) {
	c := cursor{b: body}
	l, line = Level(c.u8()), c.text()
	if l > Err {
		c.fail("it has an unknown level")
	}
	return l, line, c.end(KindLog)
}

// Operations of a Metric.
const (
	MetricFamily    = "family" // names a family, once, before its metrics
	MetricNew       = "metric" // names a metric of it, once, with its labels
	MetricIncrement = "increment"
	MetricSet       = "set"
	MetricObserve   = "observe"
)

// Metric makes or changes one of a backend's own metrics. The same metric of several instances is one.
type Metric struct {
	Op          string            `json:"op"`
	Family      string            `json:"family"`                // its name
	Description string            `json:"description,omitempty"` // of MetricFamily
	Kind        string            `json:"kind,omitempty"`        // of MetricFamily: counter, gauge or histogram
	Labels      map[string]string `json:"labels,omitempty"`      // of a metric, beside model and version
	Buckets     []float64         `json:"buckets,omitempty"`     // of MetricNew, of a histogram
	Value       float64           `json:"value,omitempty"`
}
