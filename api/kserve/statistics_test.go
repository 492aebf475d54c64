package kserve

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
)

func TestStepsStandInTheStatisticsOfEnsemblesOnly(t *testing.T) {
	text := func(s edgewise.Statistics) string {
		data, err := json.Marshal(NewModelStatistics(edgewise.ModelID{Name: "e", Version: 2}, s))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if got := text(edgewise.Statistics{}); strings.Contains(got, "ensemble_steps") {
		t.Errorf("a model that is no ensemble: %s", got)
	}
	step := edgewise.StepStatistics{
		Model: edgewise.ModelID{Name: "cat", Version: 3}, Success: edgewise.Duration{Count: 1, Total: 2 * time.Nanosecond},
		Fail: edgewise.Duration{Count: 3, Total: 4},
		Wait: edgewise.Duration{Count: 5, Total: 6}, Rows: 7, Skipped: 8, Stopped: 9,
	}
	want := `"ensemble_steps":[{"model_name":"cat","model_version":"3","success":{"count":1,"ns":2},"fail":{"count":3,` +
		`"ns":4},"wait":{"count":5,"ns":6},"rows":7,"skipped":8,"stopped":9}]`
	if got := text(edgewise.Statistics{Steps: []edgewise.StepStatistics{step}}); !strings.Contains(got, want) {
		t.Errorf("got %s", got)
	}
}

func TestTheMemoryOfAProcessIsTold(t *testing.T) {
	got := NewModelStatistics(edgewise.ModelID{Name: "m", Version: 1},
		edgewise.Statistics{Process: &edgewise.Process{PID: 1, Resident: 4096}}).MemoryUsage
	if len(got) != 1 || got[0] != (MemoryUsage{Type: "CPU", ByteSize: 4096}) {
		t.Errorf("got %v", got)
	}
}

func TestResponsesOfADecoupledModelAreCountedByPlace(t *testing.T) {
	var s edgewise.Statistics
	success := func(r *edgewise.ResponseStatistics) *edgewise.Duration { return &r.Success }
	s.Responded(0, 2, 1, success)
	s.Responded(1, 4, 0, func(r *edgewise.ResponseStatistics) *edgewise.Duration { return &r.Empty })
	for place := range 1000 {
		s.Responded(2+place, 0, 0, success)
	}
	s.Add(s)
	got := NewModelStatistics(edgewise.ModelID{Name: "m", Version: 1}, s).ResponseStats
	count := func(n, ns uint64) StatisticsCount { return StatisticsCount{Count: n, NS: ns} }
	if len(got) != 128 ||
		got["0"] != (ResponseStatistics{ComputeInfer: count(2, 4), ComputeOutput: count(2, 2), Success: count(2, 6)}) ||
		got["1"] != (ResponseStatistics{ComputeInfer: count(2, 8), ComputeOutput: count(2, 0), EmptyResponse: count(2, 8)}) ||
		got["127"].Success.Count != 2*(1002-127) {
		t.Errorf("%d places: %+v", len(got), got)
	}
}
