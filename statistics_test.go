package edgewise

import (
	"reflect"
	"testing"
	"time"
)

func TestTheStatisticsOfTwoQueuesAddUp(t *testing.T) {
	two := func(n uint64) Duration { return Duration{n, time.Duration(n) * time.Second} }
	s := Statistics{
		LastInference: time.Unix(1, 0), InferenceCount: 1, ExecutionCount: 2, Pending: 3, Success: two(4), Fail: two(5),
		Queue: two(6), Failures: [kinds]uint64{Busy: 1, Invalid: 2}, Closed: map[string]uint64{"full": 1},
		Batches: []BatchStatistics{{Size: 1, ComputeInfer: two(1)}, {Size: 4, ComputeInfer: two(2)}}, Pictures: 9,
	}
	kept := s.Batches
	s.Add(Statistics{
		LastInference: time.Unix(2, 0), InferenceCount: 10, ExecutionCount: 20, Pending: 30, Success: two(40), Fail: two(50),
		Queue: two(60), Failures: [kinds]uint64{Deadline: 1, Invalid: 1},
		Closed:  map[string]uint64{"full": 2, "idle": 3},
		Batches: []BatchStatistics{{Size: 2, ComputeInfer: two(3)}, {Size: 4, ComputeInfer: two(5)}},
	})
	want := Statistics{
		LastInference: time.Unix(2, 0), InferenceCount: 11, ExecutionCount: 22, Pending: 33, Success: two(44), Fail: two(55),
		Queue: two(66), Failures: [kinds]uint64{Busy: 1, Deadline: 1, Invalid: 3}, Closed: map[string]uint64{"full": 3, "idle": 3},
		Batches: []BatchStatistics{
			{Size: 1, ComputeInfer: two(1)},
			{Size: 2, ComputeInfer: two(3)},
			{Size: 4, ComputeInfer: two(7)},
		}, Pictures: 9,
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("%+v\nwant %+v", s, want)
	}
	if kept[1].ComputeInfer != two(2) {
		t.Error("somebody else's list was changed")
	}
}
