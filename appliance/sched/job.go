package sched

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/waits"
)

// job is one request inside the scheduler. Its fields are written by the goroutine of Infer until push, by one instance
// loop from take until it sends to done, and by Infer's goroutine again after that or after a successful withdraw. Then
// it goes back to the pool, so nothing else may keep it.
type job struct {
	ctx     context.Context
	inputs  []edgewise.Tensor   // in the model's order, in the backend's shapes
	want    []string            // never empty
	batch   int                 // elements on dimension 0, 1 for models that do not batch
	options edgewise.RunOptions // what its request says of the run
	level   uint64              // its priority level
	arrived time.Time
	overdue time.Time // when its time in the queue is over; zero: never
	ends    time.Time // when its client does not wait any more: what the request or its context says; zero: never
	started time.Time
	waiting waits.Stay
	timing  edgewise.Timing
	outputs []edgewise.Tensor
	free    func() // gives outputs back

	request    *edgewise.Request // for an Answerer; nil: the batch is run
	rows       []*job            // of InferRows: the jobs that are run in its place
	parameters map[string]any    // of the response
	empty      bool              // the response is nothing but the end

	err      error
	done     chan struct{}     // one token: the job has its answer
	plain    []edgewise.Tensor // inputs without padding; empty when the model has none
	sizes    []int64           // of the dimensions that are padded
	bucket   []int64           // what they are padded to at least
	target   []int64           // and in the present batch
	ragged   *ragged           // what the model wants to know of its batches; nil: nothing
	group    *group            // the batch that it runs in with others; nil when it runs by itself
	gone     atomic.Bool       // counted by its group as abandoned
	list     *fifo             // where it waits; nil when it does not. Guarded by the queue's mutex, as are the links
	prev     *job
	next     *job
	answered bool // its answer waits for those of earlier jobs. Guarded by the queue's mutex
}

// jobs is a pool.
type jobs struct{ pool sync.Pool }

func newJobs() *jobs {
	return &jobs{sync.Pool{New: func() any { return newJob() }}}
}

func newJob() *job { return &job{done: make(chan struct{}, 1)} }

func (p *jobs) get() *job { return p.pool.Get().(*job) }

// put returns a job to the pool. No reference to it, nor from it to the memory of the request, is left.
func (p *jobs) put(j *job) {
	clear(j.inputs)
	clear(j.plain)
	*j = job{
		inputs: j.inputs[:0], plain: j.plain[:0], sizes: j.sizes[:0], bucket: j.bucket[:0], target: j.target[:0],
		done: j.done, waiting: j.waiting.Again(),
	}
	p.pool.Put(j)
}

// fits tells whether k can run in one batch with j: the same inputs in the same shapes, except dimension 0 and padded
// dimensions; the outputs wanted may differ. Types are the model's, so they are equal. A job with parameters runs by
// itself, unless an Answerer is given each request as it is: then both have the same Instance. So does a job without rows,
// which has no part of a batch's outputs, and one without inputs, whose number of rows is unknown.
func (j *job) fits(k *job) bool {
	if j.batch == 0 || k.batch == 0 || len(j.inputs) == 0 {
		return false
	}
	if len(j.inputs) != len(k.inputs) {
		return false
	}
	if j.request == nil && (len(j.options.Parameters) > 0 || len(k.options.Parameters) > 0) {
		return false
	}
	if j.request != nil && j.request.Instance != k.request.Instance {
		return false
	}
	pads := len(j.sizes) > 0
	if pads && (!slices.Equal(j.bucket, k.bucket) || !near(j.sizes, k.sizes) && len(j.bucket) == 0) {
		return false
	}
	for i := range j.inputs {
		a, b := &j.inputs[i], &k.inputs[i]
		if a.Name != b.Name || !pads && !j.ragged.joins(a.Name) && !j.alike(k, i) {
			return false
		}
	}
	return true
}

// near tells whether sizes are so close that filling up the smaller ones costs little.
func near(a, b []int64) bool {
	for i := range a {
		if max(a[i], b[i]) > paddingSpread*min(a[i], b[i]) {
			return false
		}
	}
	return true
}

// alike tells whether input i of both jobs can be joined on dimension 0.
func (j *job) alike(k *job, i int) bool {
	a, b := j.inputs[i].Shape, k.inputs[i].Shape
	return len(a) > 0 && len(b) > 0 && a[1:].Equal(b[1:])
}

func elements(jobs []*job) int {
	n := 0
	for _, j := range jobs {
		n += j.batch
	}
	return n
}

// tell puts into t what j has waited for.
func (j *job) tell(t *edgewise.Timing) { j.waiting.Tell(t, j.started.Sub(j.arrived)) }

// requestsOf counts the requests of jobs: those of a batch of rows stand in its rows.
func requestsOf(jobs []*job) (n uint64) {
	for _, j := range jobs {
		n += uint64(max(len(j.rows), 1))
	}
	return n
}

// group is what the jobs of one batch have in common: a context that ends when all their clients have left.
type group struct {
	ctx    context.Context
	cancel context.CancelFunc
	gone   atomic.Int32 // jobs whose clients have gone, or that were dropped
	size   atomic.Int32 // jobs of the batch; 0: not known yet
}

func newGroup() *group {
	g := &group{}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// abandon notes that the client of j has left. It counts once, however often it is called.
func (g *group) abandon(j *job) {
	if j.gone.CompareAndSwap(false, true) {
		g.gone.Add(1)
		g.settle()
	}
}

// start sets how many jobs were taken together.
func (g *group) start(jobs int) {
	g.size.Store(int32(jobs))
	g.settle()
}

func (g *group) settle() {
	if n := g.size.Load(); n > 0 && g.gone.Load() >= n {
		g.cancel()
	}
}

// order holds answers back until those of all earlier requests have left. Its owner's mutex guards it. Jobs enter it
// when they are queued, and instance loops take jobs in the same order, so what holds others back is always running.
type order struct {
	waiting []*job // in the order of arrival; answered ones behind one that is not
}

func (o *order) enter(j *job) { o.waiting = append(o.waiting, j) }

// leave removes a job that was withdrawn unanswered from the queue. Those behind it are unanswered too.
func (o *order) leave(j *job) {
	for i, k := range o.waiting {
		if k == j {
			o.waiting = append(o.waiting[:i], o.waiting[i+1:]...)
			return
		}
	}
}

// answered notes the answers of jobs and appends to list those that may leave now.
func (o *order) answered(jobs, list []*job) []*job {
	for _, j := range jobs {
		j.answered = true
	}
	n := 0
	for n < len(o.waiting) && o.waiting[n].answered {
		n++
	}
	list = append(list, o.waiting[:n]...)
	rest := copy(o.waiting, o.waiting[n:])
	clear(o.waiting[rest:])
	o.waiting = o.waiting[:rest]
	return list
}
