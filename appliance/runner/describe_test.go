package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/child"
	"github.com/edgewise-ai/edgewise/test/journal"
)

// describedOutputs is what the fake backend says of a model.
var describedOutputs = []edgewise.TensorInfo{
	{Name: "y", Type: edgewise.FP32, Datatype: "FP32", Shape: edgewise.Shape{-1, 4}},
	{Name: "s", Datatype: "a sequence, a map or an optional"},
}

// Describe does what the options say. Each child says something first, so that its process is named in the log.
func (f fake) Describe(context.Context, string, *edgewise.Model) ([]edgewise.TensorInfo, error) {
	fmt.Fprintln(os.Stderr, "it begins")
	switch f.options.Describe {
	case "crash":
		crash()
	case "hang":
		select {}
	case "burn":
		burn(time.Hour)
	case "end":
		unix.Exit(0)
	case "refuse":
		return nil, edgewise.Errorf("fake.Describe", edgewise.Invalid, "no model at all")
	case "refuse at length":
		return nil, edgewise.Errorf("fake.Describe", edgewise.Invalid, "%s", strings.Repeat("n", 2*maxFrame))
	case "too much":
		return []edgewise.TensorInfo{{Name: strings.Repeat("n", maxFrame), Datatype: "FP32"}}, nil
	case "too many":
		return make([]edgewise.TensorInfo, maxTensors+1), nil
	case "chatter":
		for n := range 5 * maxLogLines {
			fmt.Fprintln(os.Stderr, n, strings.Repeat("x", 2*child.MaxLine))
		}
	}
	return describedOutputs, nil
}

// lieAboutModel is a child that answers a description with the frame that the case names, and goes on.
func lieAboutModel(name string) {
	fmt.Fprintln(os.Stderr, "it begins")
	_ = send(controlFD, descriptionLies()[name], nil, 0)
	if name == "it closes its socket" {
		_ = unix.Close(controlFD)
	}
	select {}
}

// descriptionLies are frames that describe no model.
func descriptionLies() map[string][]byte {
	text := func(k kind, content string) []byte { return append([]byte{byte(k)}, content...) }
	deep := strings.Repeat(`[`, maxFrame-1)
	return map[string][]byte{
		"a model that is loaded":       {byte(kindReady)},
		"an unknown kind":              {99},
		"a kind alone":                 {byte(kindDescribed)},
		"a frame of the parent's":      {byte(kindTerminate)},
		"a failure alone":              {byte(kindFailed)},
		"a failure of another model":   failure{1, edgewise.Invalid, "x"}.append(nil),
		"a failure of an unknown kind": failure{0, 200, "x"}.append(nil),
		"a frame too long":             text(kindDescribed, strings.Repeat(" ", maxFrame)),
		"no JSON":                      text(kindDescribed, "\x00\xff"),
		"JSON cut short":               text(kindDescribed, `[{"name":"y"`),
		"JSON of another form":         text(kindDescribed, `{"name":"y"}`),
		"JSON that nests deeply":       text(kindDescribed, deep),
		"a dimension that cannot be":   text(kindDescribed, `[{"name":"y","datatype":"FP32","shape":[-2]}]`),
		"a dimension without end":      text(kindDescribed, `[{"name":"y","datatype":"FP32","shape":[1e30]}]`),
		"too many dimensions":          text(kindDescribed, `[{"shape":[`+strings.Repeat("1,", edgewise.MaxRank)+`1]}]`),
		"a datatype of too many words": text(kindDescribed, `[{"datatype":"`+strings.Repeat("x", maxDatatype+1)+`"}]`),
		"more tensors than may be":     text(kindDescribed, `[`+strings.Repeat("{},", maxTensors)+`{}]`),
		"nothing":                      {},
		"it closes its socket":         {},
	}
}

// describeIn asks a child for a description, and returns what the child wrote into the log.
func describeIn(t *testing.T, c Config) (outputs []edgewise.TensorInfo, log string, err error) {
	t.Helper()
	j := &journal.Journal{}
	c.Logger = slog.New(slog.NewTextHandler(j, nil))
	outputs, err = New(c).Describe(t.Context(), t.TempDir(), version().Model)
	log = j.String()
	pid := regexp.MustCompile(`pid=(\d+)`).FindStringSubmatch(log)
	if pid == nil {
		t.Fatalf("%v, and no child in the log %q", err, log)
	}
	n, atoi := strconv.Atoi(pid[1])
	if killing := syscall.Kill(n, 0); atoi != nil || !errors.Is(killing, syscall.ESRCH) {
		t.Errorf("process %s is still there: %v", pid[1], killing)
	}
	return outputs, log, err
}

func TestDescribe(t *testing.T) {
	for _, does := range []string{"", "chatter"} {
		got, log, err := describeIn(t, setUp(fakeOptions{Describe: does}))
		if diff := cmp.Diff(describedOutputs, got); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		if n := strings.Count(log, "\n"); n > maxLogLines+1 || len(log) > (maxLogLines+1)*(child.MaxLine+200) {
			t.Errorf("%q: the child wrote %d lines and %d bytes into the log", does, n, len(log))
		}
	}
}

func TestDescriptionsThatFailSayWhy(t *testing.T) {
	tests := []struct {
		does, want string
		kind       edgewise.Kind
	}{
		{"refuse", "no model at all", edgewise.Invalid},
		{"refuse at length", strings.Repeat("n", maxText), edgewise.Invalid},
		{"crash", `model "x": its process died (signal: segmentation fault) while loading`, edgewise.Internal},
		{"end", `model "x": its process died (exit status 0) while loading`, edgewise.Internal},
		{"burn", `model "x": its process died (signal: CPU time limit exceeded) while loading`, edgewise.Internal},
		{"hang", `model "x": its load was ended: context deadline exceeded`, edgewise.Deadline},
		{
			"too much", fmt.Sprintf(`model "x": what the runtime says of its outputs takes %d bytes, at most %d are allowed`,
				maxFrame+len(`[{"name":"","datatype":"FP32","shape":null}]`), maxFrame-1), edgewise.TooLarge,
		},
		{
			"too many",
			`model "x": the description that its process sent cannot be used: 1025 outputs, at most 1024 are allowed`,
			edgewise.Internal,
		},
	}
	for _, test := range tests {
		t.Run(test.does, func(t *testing.T) {
			c := setUp(fakeOptions{Describe: test.does})
			switch test.does {
			case "hang":
				c.LoadTimeout = 2 * time.Second // in which it begins, so that its process is named in the log
			case "burn":
				c.LoadTime = time.Second
			}
			got, _, err := describeIn(t, c)
			if err == nil || err.Error() != test.want || edgewise.KindOf(err) != test.kind || got != nil {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestABackendThatDescribesNoModels(t *testing.T) {
	_, err := New(setUp(fakeOptions{Describe: "cannot"})).Describe(t.Context(), t.TempDir(), version().Model)
	want := `model "x": the backend of platform "fake" describes no models`
	if err == nil || err.Error() != want || edgewise.KindOf(err) != edgewise.Unsupported {
		t.Errorf("got %v", err)
	}
}

func TestAChildThatLiesAboutAModelIsEnded(t *testing.T) {
	for name := range descriptionLies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setUp(fakeOptions{})
			c.Arguments = []string{describingLiarVerb, name}
			got, _, err := describeIn(t, c)
			if err == nil || edgewise.KindOf(err) != edgewise.Internal || !strings.Contains(err.Error(), `model "x": `) ||
				got != nil {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
