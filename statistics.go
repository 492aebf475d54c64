package edgewise

import "time"

// Statistics is what a servable has measured since it was loaded, in the meaning of the inference protocol's
// statistics extension. Reading it is cheap and consistent enough for display; it is not a snapshot.
type Statistics struct {
	LastInference  time.Time // zero: none yet
	InferenceCount uint64    // elements of executed batches
	ExecutionCount uint64    // executions
	Pending        int64     // requests received and not yet executing

	Success, Fail, Queue                      Duration
	ComputeInput, ComputeInfer, ComputeOutput Duration
	CacheHit, CacheMiss                       Duration

	Failures [4]uint64         // by FailureReason
	Batches  []BatchStatistics // ascending by Size
}

// Duration is a count of events and their time together.
type Duration struct {
	Count uint64
	Total time.Duration
}

// BatchStatistics is what was measured for executions of one batch size.
type BatchStatistics struct {
	Size                                      uint64
	ComputeInput, ComputeInfer, ComputeOutput Duration
}

// FailureReason says why a request failed, in the classes of the inference protocol's failure counter.
type FailureReason uint8

// The failure reasons.
const (
	FailureRejected FailureReason = iota // queue full or queue time over
	FailureCanceled
	FailureBackend
	FailureOther
)

// String returns the label value of the failure counter.
func (r FailureReason) String() string {
	return [...]string{"REJECTED", "CANCELED", "BACKEND", "OTHER"}[r]
}
