package edgewise

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

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

	Failures [kinds]uint64     // requests that failed, by Kind
	Batches  []BatchStatistics // ascending by Size

	Responses []ResponseStatistics // of a decoupled model, by their place among the responses to a request

	Closed map[string]uint64 // batches, by why they took no more requests; shared, and not changed

	Guest GuestStatistics // of WebAssembly steps

	Pictures uint64 // rows that were made of pictures on a GPU

	Process *Process // nil: it runs in the box's own process

	Steps []StepStatistics // of an ensemble, in the order of its configuration

	Sequences *SequenceStatistics // nil: the version has no sequences

	Batching *Batching // nil: of an ensemble, whose steps say it
}

// Add adds what another queue of the same version has measured: counts and times.
func (s *Statistics) Add(o Statistics) {
	if o.LastInference.After(s.LastInference) {
		s.LastInference = o.LastInference
	}
	s.InferenceCount += o.InferenceCount
	s.ExecutionCount += o.ExecutionCount
	s.Pending += o.Pending
	for _, d := range [][2]*Duration{
		{&s.Success, &o.Success},
		{&s.Fail, &o.Fail},
		{&s.Queue, &o.Queue},
		{&s.ComputeInput, &o.ComputeInput},
		{&s.ComputeInfer, &o.ComputeInfer},
		{&s.ComputeOutput, &o.ComputeOutput},
		{&s.CacheHit, &o.CacheHit},
		{&s.CacheMiss, &o.CacheMiss},
	} {
		d[0].add(*d[1])
	}
	for i := range s.Failures {
		s.Failures[i] += o.Failures[i]
	}
	s.Closed = maps.Clone(s.Closed)
	for reason, n := range o.Closed {
		if s.Closed == nil {
			s.Closed = map[string]uint64{}
		}
		s.Closed[reason] += n
	}
	s.addBatches(o.Batches)
	s.addResponses(o.Responses)
}

func (s *Statistics) addResponses(others []ResponseStatistics) {
	s.Responses = slices.Clone(s.Responses)
	for len(s.Responses) < len(others) {
		s.Responses = append(s.Responses, ResponseStatistics{})
	}
	for i := range others {
		r, o := &s.Responses[i], &others[i]
		r.ComputeInfer.add(o.ComputeInfer)
		r.ComputeOutput.add(o.ComputeOutput)
		r.Success.add(o.Success)
		r.Fail.add(o.Fail)
		r.Empty.add(o.Empty)
		r.Aborted.add(o.Aborted)
	}
}

func (s *Statistics) addBatches(others []BatchStatistics) {
	s.Batches = slices.Clone(s.Batches)
	for _, o := range others {
		b := s.batch(o.Size)
		b.ComputeInput.add(o.ComputeInput)
		b.ComputeInfer.add(o.ComputeInfer)
		b.ComputeOutput.add(o.ComputeOutput)
	}
}

// batch returns the figures of batches of a size. The list stays in ascending order.
func (s *Statistics) batch(size uint64) *BatchStatistics {
	at, found := slices.BinarySearchFunc(s.Batches, size,
		func(b BatchStatistics, size uint64) int { return cmp.Compare(b.Size, size) })
	if !found {
		s.Batches = slices.Insert(s.Batches, at, BatchStatistics{Size: size})
	}
	return &s.Batches[at]
}

// Executed counts one run of a batch, which ended at a time.
func (s *Statistics) Executed(at time.Time, t Timing) {
	s.LastInference = at
	s.ExecutionCount++
	s.InferenceCount += uint64(t.Batch)
	b := s.batch(uint64(t.Batch))
	b.ComputeInput.Add(t.Input)
	b.ComputeInfer.Add(t.Infer)
	b.ComputeOutput.Add(t.Output)
}

// Succeeded counts one request that was answered.
func (s *Statistics) Succeeded(took time.Duration, t Timing) {
	s.Success.Add(took)
	s.Queue.Add(t.Queue)
	s.ComputeInput.Add(t.Input)
	s.ComputeInfer.Add(t.Infer)
	s.ComputeOutput.Add(t.Output)
}

func (d *Duration) add(o Duration) {
	d.Count += o.Count
	d.Total += o.Total
}

// SequenceStatistics is what is known of the sequences of a version.
type SequenceStatistics struct {
	Live       int    // that have a slot
	Backlog    int    // that wait for one
	StateBytes int64  // of their implicit states
	Expired    uint64 // that were forgotten because nothing came for too long
	Restarted  uint64 // that were started again before their end
}

// Process is what is known of the process outside the box's own in which a version runs.
type Process struct {
	PID   int    // 0 while there is none
	Group string // the name of the group of versions that share it; empty: it is the version's own
	// bytes of its resident memory, pages that it shares with other processes included; 0 while there is none
	Resident int64
	Crashes  uint64 // since the version was loaded
	Wakes    uint64 // since then: starts by a request, after it had given its memory up for others
	Copied   uint64 // bytes of tensors that were copied on their way to the process and back, since then
	Reason   string // why there is none; empty while there is one
	Note     string // what its program says of the model to people, such as the framework's version
	Resting  bool   // there is none because it gave its memory up for others; the next request starts it
}

// Isolated is an Instance or a Servable that may run in a process of its own.
type Isolated interface {
	// Process returns what is known of the process; ok is false when the version runs in the box's own.
	Process() (p Process, ok bool)
	// Ended is closed when the process is not started again, before Close; nil when it cannot happen. Process says why.
	Ended() <-chan struct{}
}

// StepStatistics is what an ensemble has measured of one of its steps. A step that fans out counts once for a request.
type StepStatistics struct {
	Model         ModelID  // the version that it runs
	Success, Fail Duration // from asking the model to its answer
	Wait          Duration // for room under max_inflight_requests, when there was none at once
	Rows          uint64   // that fan-outs asked about
	Skipped       uint64   // requests for which its condition did not hold
	Stopped       uint64   // requests for which it did not run because an input was not made
}

// Duration is a count of events and their time together.
type Duration struct {
	Count uint64
	Total time.Duration
}

// Add counts one thing that took so long.
func (d *Duration) Add(took time.Duration) {
	d.Count++
	d.Total += took
}

// BatchStatistics is what was measured for executions of one batch size.
type BatchStatistics struct {
	Size                                      uint64
	ComputeInput, ComputeInfer, ComputeOutput Duration
}

// ResponseStatistics is what was measured of the responses at one place among those to a request of a decoupled model.
type ResponseStatistics struct {
	ComputeInfer   Duration // from the response before it, or the start of the execution, until the model had made it
	ComputeOutput  Duration // until the client had it
	Success, Fail  Duration // both times together
	Empty, Aborted Duration // the same: an end without outputs; one that nobody read any more
}

// maxResponsePlaces is how many places of responses are told apart. Later responses are counted with the last of them.
const maxResponsePlaces = 128

// Responded counts a response at a place, from 0, as one of the four ways that it can end. made is the time until the
// model had made it, sent that until the client had it.
func (s *Statistics) Responded(place int, made, sent time.Duration, how func(*ResponseStatistics) *Duration) {
	place = min(place, maxResponsePlaces-1)
	for len(s.Responses) <= place {
		s.Responses = append(s.Responses, ResponseStatistics{})
	}
	r := &s.Responses[place]
	r.ComputeInfer.Add(made)
	r.ComputeOutput.Add(sent)
	how(r).Add(made + sent)
}

// OutcomeCount is how many requests of a caller ended in the same way.
type OutcomeCount struct {
	Caller  string `json:"caller"`  // an Actor; "model": another model of the box; "others": too many to tell apart
	Outcome string `json:"outcome"` // success, or the kind of the error
	Count   uint64 `json:"count"`
}

// GuestStatistics is what was measured of the guests of a WebAssembly step.
type GuestStatistics struct {
	Fuel       uint64        // units, of all runs, also of those that failed
	Memory     int64         // bytes: the most that a guest's memory had
	Time, Host time.Duration // in guests' own code, and in what they called in the box
	Failed     uint64        // runs that the step itself failed
	Trapped    uint64        // runs that ended in a trap, or with outputs that are none
	Stopped    uint64        // runs stopped at their deadline, by cancellation or at the fuel limit
	Bypassed   uint64        // failed runs that were answered with their inputs
	Instances  int           // guests that exist now
	Created    uint64        // guests made since the version was loaded
}

// Health is what the latest requests to a version came to since it was loaded. Refused requests are not among them.
type Health struct {
	Failing   bool       `json:"failing"` // half of the latest requests or more have failed
	Recent    int        `json:"recent"`  // how many of the latest requests are looked at, at most 32
	Failed    int        `json:"failed"`  // how many of them failed
	LastError *LastError `json:"last_error,omitempty"`

	Unverified string `json:"unverified,omitempty"` // why no run at the load has shown that the version works; empty: one has, or an answer
}

// LastError is how the latest failed request failed.
type LastError struct {
	Time    time.Time `json:"time"`
	Code    string    `json:"code"`
	Message string    `json:"message"`
	Request uint64    `json:"request,omitempty"` // its number in the list of requests; 0: it is not kept
}
