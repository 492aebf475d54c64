package serving

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/edgewise-ai/edgewise"
)

// isolated is an instance on a GPU, in a process of its own, with which it shares memory. runner.Instance is one.
type isolated interface {
	edgewise.Instance
	edgewise.Isolated
	edgewise.Resident
	AllowPadding()
	Alloc(n int) (data []byte, free func(), err error)
	KeptBytes() int
	AllocBody(n int) (data []byte, free func())
	OwnsBody(data []byte) bool
}

// spread is a version on several devices: each run goes to an instance with the fewest in progress, and among those to
// the one in whose memory its inputs stand.
type spread struct {
	instances []isolated

	mu    sync.Mutex    // guards what follows
	busy  []int         // runs in progress
	alloc map[*byte]int // whose memory of Alloc begins where

	ended chan struct{}
	stop  chan struct{}
	once  sync.Once
	wait  sync.WaitGroup
}

var _ edgewise.Isolated = (*spread)(nil)

func newSpread(list []isolated) *spread {
	s := &spread{
		instances: list, busy: make([]int, len(list)), alloc: map[*byte]int{}, ended: make(chan struct{}),
		stop: make(chan struct{}),
	}
	for _, i := range list {
		if i.Ended() == nil {
			continue
		}
		s.wait.Go(func() {
			select {
			case <-i.Ended():
				s.once.Do(func() { close(s.ended) })
			case <-s.stop:
			}
		})
	}
	return s
}

// Run runs on the least busy device. When that one has just failed, another one takes the run over.
func (s *spread) Run(
	ctx context.Context, in []edgewise.Tensor, want []string, options edgewise.RunOptions,
) (*edgewise.Result, error) {
	var result *edgewise.Result
	var err error
	tried, owner := make([]bool, len(s.instances)), s.owner(in)
	for range s.instances {
		i := s.take(tried, owner)
		tried[i] = true
		result, err = s.instances[i].Run(ctx, in, want, options)
		s.give(i)
		if err == nil || edgewise.KindOf(err) != edgewise.Unavailable {
			break
		}
	}
	return result, err
}

// owner is the instance in whose memory inputs stand, -1 when that is none.
func (s *spread) owner(in []edgewise.Tensor) int {
	for _, t := range in {
		if len(t.Data) == 0 {
			continue
		}
		s.mu.Lock()
		i, ok := s.alloc[&t.Data[0]]
		s.mu.Unlock()
		if ok {
			return i
		}
		if i = slices.IndexFunc(s.instances, func(i isolated) bool { return i.OwnsBody(t.Data) }); i >= 0 {
			return i
		}
	}
	return -1
}

// least is the least busy instance among those that were not tried, if possible the one that is preferred. The caller
// holds mu.
func (s *spread) least(tried []bool, preferred int) int {
	best := -1
	for i, n := range s.busy {
		if !tried[i] && (best < 0 || n < s.busy[best] || n == s.busy[best] && i == preferred) {
			best = i
		}
	}
	return best
}

func (s *spread) take(tried []bool, owner int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.least(tried, owner)
	s.busy[i]++
	return i
}

func (s *spread) give(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[i]--
}

// AllowPadding lets all instances add rows to batches.
func (s *spread) AllowPadding() {
	for _, i := range s.instances {
		i.AllowPadding()
	}
}

// Alloc returns memory of the instance that is least busy now. A run that reads it goes there, unless another instance
// is less busy then.
func (s *spread) Alloc(n int) (data []byte, free func(), err error) {
	s.mu.Lock()
	i := s.least(make([]bool, len(s.instances)), -1)
	s.mu.Unlock()
	data, end, err := s.instances[i].Alloc(n)
	if err != nil || len(data) == 0 {
		return data, end, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alloc[&data[0]] = i
	return data, func() {
		s.mu.Lock()
		delete(s.alloc, &data[0])
		s.mu.Unlock()
		end()
	}, nil
}

// KeptBytes is the least that one of the instances allows.
func (s *spread) KeptBytes() int {
	least := s.instances[0].KeptBytes()
	for _, i := range s.instances {
		least = min(least, i.KeptBytes())
	}
	return least
}

// AllocBody returns memory of the instance that is least busy now, nil when it has none.
func (s *spread) AllocBody(n int) (data []byte, free func()) {
	s.mu.Lock()
	i := s.least(make([]bool, len(s.instances)), -1)
	s.mu.Unlock()
	return s.instances[i].AllocBody(n)
}

// OwnsBody tells whether data is memory of AllocBody.
func (s *spread) OwnsBody(data []byte) bool {
	return slices.ContainsFunc(s.instances, func(i isolated) bool { return i.OwnsBody(data) })
}

// Process adds up what is known of the instances' processes; the id is that of the first that there is.
func (s *spread) Process() (edgewise.Process, bool) {
	var sum edgewise.Process
	for _, i := range s.instances {
		p, _ := i.Process()
		sum.PID, sum.Reason = cmp.Or(sum.PID, p.PID), cmp.Or(sum.Reason, p.Reason)
		sum.Resting = sum.Resting || p.Resting
		sum.Resident += p.Resident
		sum.Crashes += p.Crashes
		sum.Copied += p.Copied
	}
	return sum, true
}

// Ended is closed when the process of one instance is not started again.
func (s *spread) Ended() <-chan struct{} { return s.ended }

// Close closes every instance.
func (s *spread) Close() error {
	close(s.stop)
	s.wait.Wait()
	var errs []error
	for _, i := range s.instances {
		errs = append(errs, i.Close())
	}
	return errors.Join(errs...)
}
