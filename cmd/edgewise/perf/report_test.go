package perf

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// steps are a closed step with everything, and an open one with everything wrong.
func steps() []Step {
	return []Step{
		{
			Concurrency: 8, Seconds: 9.003, Requests: 12345, Throughput: 1371.21, Inferences: 5484.84, Windows: 3, Stable: true,
			Latency:  Latency{Mean: 5800.5, Min: 900.125, P50: 5500, P90: 7000, P99: 9999.9, P999: 15000, Max: 20000},
			Slowest:  20000,
			Failures: []Failure{},
			Server:   &Server{Queue: 12.5, ComputeInput: 3, ComputeInfer: 4800, ComputeOutput: 2, Batch: 3.5, Requests: 12345},
			Generator: Generator{
				CPUSeconds: 0.3, CPUPerRequest: 24.3, DelayP99: 0,
			},
		},
		{
			Rate: 2500.5, Seconds: 6, Requests: 100, Failed: 903, Throughput: 16.667, Inferences: 16.667, Windows: 10, Interrupted: true,
			Latency:  Latency{Mean: 2e6, Min: 500, P50: 1.5e6, P90: 3e6, P99: 4e6, P999: 4e6, Max: 4.1e6},
			Slowest:  9e6,
			Failures: []Failure{{503, "queue, \"full\"", 900}, {0, "no answer within 1s", 3}},
			Behind:   4.25, Reconnects: 2,
			Generator: Generator{CPUSeconds: 4, CPUPerRequest: 3988.036, DelayP99: 3.5e6},
		},
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s:\n%s", name, diff)
	}
}

func TestCSV(t *testing.T) {
	var out bytes.Buffer
	if err := WriteCSV(&out, steps()); err != nil {
		t.Fatal(err)
	}
	golden(t, "steps.csv", out.Bytes())
}

func TestJSON(t *testing.T) {
	out, err := json.MarshalIndent(steps(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "steps.json", append(out, '\n'))
}

func text() []byte {
	var out bytes.Buffer
	WriteHead(&out)
	for _, s := range steps() {
		WriteLine(&out, s)
	}
	WriteServer(&out, steps())
	WriteChart(&out, steps())
	return out.Bytes()
}

func TestText(t *testing.T) { golden(t, "steps.txt", text()) }

func TestTablesAndChartFitEightyColumns(t *testing.T) {
	for line := range strings.Lines(string(text())) {
		if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > 80 && !strings.HasPrefix(line, "  !") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestChartOfNothingHasNoBars(t *testing.T) {
	var out bytes.Buffer
	WriteChart(&out, []Step{{Concurrency: 1}})
	if strings.Contains(out.String(), "##") {
		t.Errorf("got %s", out.String())
	}
}

type fullDisk struct{}

var errFull = errors.New("disk full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestCSVThatCannotBeWrittenIsAnError(t *testing.T) {
	if err := WriteCSV(fullDisk{}, steps()); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}
