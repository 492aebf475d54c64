package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
)

func TestBodyLeftKnowsTheEndOfAnAnswer(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: x\r\nContent-Length: 3\r\n\r\n"
	for _, tc := range []struct {
		name, answer string
		left         int
		whole, fails bool
	}{
		{"nothing", "", 0, false, false},
		{"half a head", head[:20], 0, false, false},
		{"a head", head, 3, true, false},
		{"half a body", head + "ab", 1, true, false},
		{"all", head + "abc", 0, true, false},
		{"small letters", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 0, true, false},
		{"refused", "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", 0, false, true},
		{"no length", "HTTP/1.1 200 OK\r\n\r\n", 0, false, true},
		{"no end", head[:len(head)-2] + strings.Repeat("x", headBytes), 0, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			left, whole, err := bodyLeft([]byte(tc.answer))
			if left != tc.left || whole != tc.whole || (err != nil) != tc.fails {
				t.Errorf("%d left, whole %v, error %v", left, whole, err)
			}
		})
	}
}

// TestALoopReadsAnswersOfAnySize sends the requests of a loop to a server of the standard library.
func TestALoopReadsAnswersOfAnySize(t *testing.T) {
	for _, size := range []int{0, 1, 100, readBuffer - 20, 4 * readBuffer} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || len(body) != size {
					w.WriteHeader(http.StatusBadRequest)
				}
				w.Header().Set("Content-Length", strconv.Itoa(size))
				_, _ = w.Write(body)
			}))
			defer server.Close()
			c := &callers{address: server.Listener.Addr().String(), path: "/", body: make([]byte, size), core: anywhere}
			s, err := c.loop(3, 50*time.Millisecond)
			if err != nil || s.rate == 0 || s.p50 == 0 {
				t.Errorf("the sample is %+v, %v", s, err)
			}
		})
	}
}

func TestARunEndsWhatItStartedAndSaysWhy(t *testing.T) {
	t.Chdir(t.TempDir()) // where scenarios have their folders
	var ends []string
	_, err := measure(scenario{steps: func(r *run) {
		r.later(func() { ends = append(ends, "first") })
		r.later(func() { ends = append(ends, "second") })
		r.check(errors.New("no luck"))
		t.Error("the run went on")
	}}, options{})
	if err == nil || err.Error() != "no luck" || !slices.Equal(ends, []string{"second", "first"}) {
		t.Errorf("ended %q with %v", ends, err)
	}
}

func TestRatiosAreTakenRoundByRound(t *testing.T) {
	slow := series{{rate: 10, p50: 3}, {rate: 100, p50: 30}, {rate: 30, p50: 5}}
	fast := series{{rate: 20, p50: 1}, {rate: 200, p50: 10}, {rate: 90, p50: 4}}
	if got := slow.over(fast); got != 0.5 {
		t.Errorf("the ratio is %v, want 0.5", got)
	}
	if got := slow.added(fast); got != 2 {
		t.Errorf("%v s were added, want 2", got)
	}
	var h perf.Histogram
	for range 10 {
		h.Record(time.Millisecond)
	}
	if s := newSample(&h, 2*time.Second); s.rate != 5 {
		t.Errorf("10 answers in 2 s are %v a second", s.rate)
	}
}

func TestRecordReplacesOneScenario(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine")
	lines := func(value float64) result { return result{Figures: []figure{atLeast("line", value, 2, "x", "")}} }
	for _, step := range []struct {
		name  string
		value float64
	}{{"tiny/16", 1}, {"large/2", 3}, {"tiny/16", 4}} {
		if err := record(path, scenario{table: "engine", name: step.name}, lines(step.value)); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path + ".md")
	if err != nil {
		t.Fatal(err)
	}
	first, second := strings.Index(string(data), "| line | 3 x | >= 2 | yes |"), strings.Index(string(data), "| line | 4 x | >= 2 | yes |")
	if first < 0 || second < first || strings.Contains(string(data), "| line | 1 x") {
		t.Errorf("the table is\n%s", data)
	}
}

func TestTheOthersGoOnWhenAScenarioFails(t *testing.T) {
	out := t.TempDir()
	t.Chdir(t.TempDir()) // where scenarios have their folders
	good := func(r *run) { r.report(known("a line", 1, "x", "")) }
	bad := func(r *run) { r.check(errors.New("no luck")) }
	err := runAll([]scenario{{"wasm", "step/1", bad}, {"wasm", "step/16", good}}, options{out: out})
	if err == nil || err.Error() != "step/1: no luck" {
		t.Errorf("the error is %v", err)
	}
	if page, err := os.ReadFile(filepath.Join(out, "wasm.md")); err != nil || !strings.Contains(string(page), "| a line | 1 x |") {
		t.Errorf("the table is %q, %v", page, err)
	}
}
