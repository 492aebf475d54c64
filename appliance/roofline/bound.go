package roofline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// What decides.
const (
	fewRequests  = 20       // below that nothing is said
	nearRoof     = 0.4      // of a roof: from there on the roof bounds the run
	assumedCache = 32 << 20 // bytes, where the system does not tell
)

// Snapshot is what is known of a version.
type Snapshot struct {
	Statistics edgewise.Statistics
	Work       *admin.RunWork // of a run of one row; nil: not known
	Weights    float64        // bytes of Work that do not grow with the rows
	Roofline   *admin.Roofline
	Threads    int    // of a run
	Solo       int    // of a run that has the machine to itself; 0: no more than others
	Elsewhere  string // the device that it runs on, "" for the CPU
}

// Decide says what bounds a version.
func Decide(s Snapshot) *admin.Bound {
	st := s.Statistics
	b := &admin.Bound{
		Requests: st.Success.Count, Executions: st.ExecutionCount, Total: mean(st.Success), Queue: mean(st.Queue),
		Input: mean(st.ComputeInput), Infer: mean(st.ComputeInfer), Output: mean(st.ComputeOutput), Unsaid: []string{},
	}
	if len(st.Steps) > 0 {
		return ofSteps(b, st.Steps)
	}
	var runs edgewise.Duration
	for _, size := range st.Batches {
		runs.Count += size.ComputeInfer.Count
		runs.Total += size.ComputeInfer.Total
	}
	if b.Execution = mean(runs); st.ExecutionCount > 0 {
		b.Batch = float64(st.InferenceCount) / float64(st.ExecutionCount)
	}
	if b.Requests < fewRequests || b.Executions == 0 || b.Total == 0 {
		b.Kind = admin.BoundFew
		b.Sentence = fmt.Sprintf("%d requests since it was loaded are too few to say: %d are needed", b.Requests, fewRequests)
		return b
	}
	ofRun(b, s)
	copies := b.Input + b.Output
	rest := b.Total - b.Queue - copies - b.Infer
	switch {
	case b.Infer >= max(b.Queue, copies, rest):
	case rest > max(b.Queue, copies):
		b.Kind = admin.BoundBox
		b.Sentence = fmt.Sprintf("%s of %s are outside of queue, copies and run: hand-offs between threads and processes, and waits for "+
			"a core: box", ms(rest), ms(b.Total))
	case b.Queue >= copies:
		b.Kind = admin.BoundQueue
		b.Sentence = fmt.Sprintf("requests wait %s of %s in the queue, a run takes %s: queue", ms(b.Queue), ms(b.Total), ms(b.Execution))
	default:
		b.Kind = admin.BoundCopies
		b.Sentence = fmt.Sprintf("tensors are prepared and read for %s of %s, the run takes %s: copies", ms(copies), ms(b.Total), ms(b.Infer))
	}
	return b
}

// ofSteps says which step an ensemble spends its time in.
func ofSteps(b *admin.Bound, steps []edgewise.StepStatistics) *admin.Bound {
	most, at := time.Duration(0), -1
	for i, s := range steps {
		if total := s.Success.Total + s.Wait.Total; s.Success.Count > 0 && total >= most {
			most, at = total, i
		}
	}
	if b.Requests < fewRequests || at < 0 {
		b.Kind = admin.BoundFew
		b.Sentence = fmt.Sprintf("%d requests since it was loaded are too few to say: %d are needed", b.Requests, fewRequests)
		return b
	}
	id := steps[at].Model
	b.Kind, b.Step = admin.BoundStep, &admin.ModelID{Model: id.Name, Version: id.Version}
	b.Sentence = fmt.Sprintf("its step %s takes %s for each request of %s: step", id.Name,
		ms(float64(most)/float64(b.Requests)/float64(time.Millisecond)), ms(b.Total))
	return b
}

// ofRun says what bounds the run itself, with the figures of its work.
func ofRun(b *admin.Bound, s Snapshot) {
	head := fmt.Sprintf("infer %s of %s", ms(b.Infer), ms(b.Total))
	b.Kind, b.Sentence = admin.BoundRun, head+": the run, of which nothing more is known"
	switch {
	case s.Elsewhere != "":
		b.Unsaid = append(b.Unsaid, "it runs on "+s.Elsewhere+", whose roofs are not measured")
		return
	case s.Work == nil:
		b.Unsaid = append(b.Unsaid, "what a run computes is counted for ONNX models only")
		return
	case s.Roofline == nil:
		b.Work = batched(s, b.Batch)
		b.Unsaid = append(b.Unsaid, "the processor was not measured yet: that is done in idle time, or by edgewise roofline --measure")
		return
	}
	r, seconds := s.Roofline, max(b.Execution/1000, 1e-9)
	b.Roofline, b.Work = r, batched(s, b.Batch)
	w := b.Work
	b.Reached = w.Operations / seconds
	moved := w.Bytes
	cache := float64(r.Cache)
	if r.Cache == 0 {
		cache = assumedCache
		b.Unsaid = append(b.Unsaid, fmt.Sprintf("the size of the processor's cache is not known: %d MiB are assumed", assumedCache>>20))
	}
	inCache := w.Set <= cache
	if inCache {
		moved = 0
		b.Unsaid = append(b.Unsaid, fmt.Sprintf("the %s that a run touches fit into the cache, so that memory is not a roof of it",
			size(w.Set)))
	}
	b.Threads = threadsOf(s, b.Reached, moved/seconds)
	compute, read := r.On(b.Threads)
	forCompute, forMemory, forOperators := w.Operations/compute, moved/read, float64(w.Nodes)*r.Operator/1e6
	b.Share = max(forCompute, forMemory) / seconds
	did := fmt.Sprintf("%s; %s at %s", head, count(w.Operations, "OP"), count(b.Reached, "OP/s"))
	what := "one core does"
	if b.Threads > 1 {
		what = fmt.Sprintf("%d cores do", b.Threads)
	}
	switch {
	case b.Share >= nearRoof && forCompute >= forMemory:
		b.Kind = admin.BoundCompute
		b.Sentence = fmt.Sprintf("%s, %.0f %% of what %s: compute", did, 100*b.Share, what)
	case b.Share >= nearRoof:
		b.Kind = admin.BoundMemory
		b.Sentence = fmt.Sprintf("%s; %s moved at %s, %.0f %% of what %s: memory bandwidth", head, size(moved), size(moved/seconds)+"/s",
			100*b.Share, what)
	case forOperators/seconds >= nearRoof:
		b.Kind = admin.BoundSmall
		b.Sentence = fmt.Sprintf("%s; %d operators take %.1f us each at least, %.0f %% of it, and %s are %.0f %% of what %s: "+
			"small operators", head, w.Nodes, r.Operator, min(100*forOperators/seconds, 100), count(b.Reached, "OP/s"), 100*b.Share, what)
	default:
		b.Kind = admin.BoundOperators
		b.Sentence = fmt.Sprintf("%s, %.0f %% of what %s: its operators reach neither the roof of compute nor that of memory", did,
			100*b.Share, what)
	}
	leftOut(b)
}

// batched is the work of an execution of a mean number of rows.
func batched(s Snapshot, rows float64) *admin.RunWork {
	w, rows := *s.Work, max(rows, 1)
	w.Operations, w.Integer = w.Operations*rows, w.Integer*rows
	w.Bytes = s.Weights + (w.Bytes-s.Weights)*rows
	w.Set = s.Weights + (w.Set-s.Weights)*rows
	return &w
}

// threadsOf is how many cores a run has had: those of a run that has the machine to itself, where it was faster than the
// others can be.
func threadsOf(s Snapshot, reached, moved float64) int {
	n := max(s.Threads, 1)
	compute, read := s.Roofline.On(n)
	if s.Solo > n && (reached > compute || moved > read) {
		return s.Solo
	}
	return n
}

// leftOut says what the figures do not hold.
func leftOut(b *admin.Bound) {
	if unknown := b.Work.Unknown; len(unknown) > 0 {
		var list []string
		for _, op := range slices.Sorted(maps.Keys(unknown)) {
			list = append(list, fmt.Sprintf("%d %s", unknown[op], op))
		}
		b.Unsaid = append(b.Unsaid, "operators whose work is not known are not counted: "+
			strings.Join(list[:min(len(list), 8)], ", "))
	}
	if b.Work.Integer > 0.1*b.Work.Operations {
		b.Unsaid = append(b.Unsaid, fmt.Sprintf("%.0f %% of the operations are on integers of 8 bits, which may be faster than FP32",
			100*b.Work.Integer/b.Work.Operations))
	}
	if b.Work.Inputs == admin.FromSignature {
		b.Unsaid = append(b.Unsaid, "the shapes are those of a request that was made up: no client's request is known")
	}
	if b.Share > 1.1 {
		b.Unsaid = append(b.Unsaid, "it is faster than the roof: the runtime does less than the graph says, or other requests were "+
			"smaller than the latest one")
	}
}

func mean(d edgewise.Duration) float64 {
	if d.Count == 0 {
		return 0
	}
	return float64(d.Total) / float64(d.Count) / float64(time.Millisecond)
}

// ms is a time for people.
func ms(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f ms", v)
	case v >= 1:
		return fmt.Sprintf("%.1f ms", v)
	}
	return fmt.Sprintf("%.0f us", 1000*v)
}

// count is a number of floating-point operations for people.
func count(v float64, unit string) string {
	unit = strings.Replace(unit, "OP", "FLOP", 1)
	switch {
	case v >= 1e11:
		return fmt.Sprintf("%.0f G%s", v/1e9, unit)
	case v >= 1e9:
		return fmt.Sprintf("%.1f G%s", v/1e9, unit)
	case v >= 1e8:
		return fmt.Sprintf("%.2f G%s", v/1e9, unit)
	case v >= 1e6:
		return fmt.Sprintf("%.1f M%s", v/1e6, unit)
	}
	return fmt.Sprintf("%.1f k%s", v/1e3, unit)
}

// size is bytes for people.
func size(v float64) string {
	switch {
	case v >= 1e9:
		return fmt.Sprintf("%.1f GB", v/1e9)
	case v >= 1e6:
		return fmt.Sprintf("%.1f MB", v/1e6)
	}
	return fmt.Sprintf("%.1f kB", v/1e3)
}
