package serving

import (
	"context"
	"errors"
	"sync"

	"github.com/edgewise-ai/edgewise"
)

// spread is a version on several devices: each run goes to the instance with the fewest in progress.
type spread struct {
	instances []edgewise.Instance

	mu   sync.Mutex
	busy []int // runs in progress

	ended chan struct{}
	stop  chan struct{}
	once  sync.Once
	wait  sync.WaitGroup
}

var (
	_ edgewise.Instance = (*spread)(nil)
	_ edgewise.Isolated = (*spread)(nil)
)

func newSpread(list []edgewise.Instance) *spread {
	s := &spread{instances: list, busy: make([]int, len(list)), ended: make(chan struct{}), stop: make(chan struct{})}
	for _, i := range list {
		isolated, ok := i.(edgewise.Isolated)
		if !ok || isolated.Ended() == nil {
			continue
		}
		s.wait.Go(func() {
			select {
			case <-isolated.Ended():
				s.once.Do(func() { close(s.ended) })
			case <-s.stop:
			}
		})
	}
	return s
}

// Run runs on the least busy device. When that one has just failed, another one takes the run over.
func (s *spread) Run(ctx context.Context, in []edgewise.Tensor, want []string) (*edgewise.Result, error) {
	var result *edgewise.Result
	var err error
	tried := make([]bool, len(s.instances))
	for range s.instances {
		i := s.take(tried)
		tried[i] = true
		result, err = s.instances[i].Run(ctx, in, want)
		s.give(i)
		if err == nil || edgewise.KindOf(err) != edgewise.Unavailable {
			break
		}
	}
	return result, err
}

// take picks the least busy instance among those that were not tried.
func (s *spread) take(tried []bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	best := -1
	for i, n := range s.busy {
		if !tried[i] && (best < 0 || n < s.busy[best]) {
			best = i
		}
	}
	s.busy[best]++
	return best
}

func (s *spread) give(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[i]--
}

// Process adds up what is known of the instances' processes; the id is that of the first that there is.
func (s *spread) Process() (edgewise.Process, bool) {
	var sum edgewise.Process
	found := false
	for _, i := range s.instances {
		isolated, ok := i.(edgewise.Isolated)
		if !ok {
			continue
		}
		p, ok := isolated.Process()
		if !ok {
			continue
		}
		if sum.PID == 0 {
			sum.PID = p.PID
		}
		found = true
		sum.Resident += p.Resident
		sum.Crashes += p.Crashes
		sum.Copied += p.Copied
		if sum.Reason == "" {
			sum.Reason = p.Reason
		}
	}
	return sum, found
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
