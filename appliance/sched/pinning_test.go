package sched

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
)

// placed notes on which cores runs are at the same time.
type placed struct {
	doubler
	takes   time.Duration
	mu      sync.Mutex
	present map[int]int
	calls   []edgewise.RunOptions
}

func (p *placed) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	p.mu.Lock()
	p.calls = append(p.calls, options)
	p.present[options.Core]++
	if options.Core > 0 && p.present[options.Core] > 1 {
		p.calls = append(p.calls, edgewise.RunOptions{Core: -options.Core})
	}
	p.mu.Unlock()
	time.Sleep(p.takes)
	result, err := p.doubler.Run(ctx, in, want, options)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.present[options.Core]--
	return result, err
}

func TestLongRunsHaveACoreEach(t *testing.T) {
	for _, test := range []struct {
		name    string
		cores   *cores.Budget
		threads int
		takes   time.Duration
		clients int
		want    []int // the cores of runs, once they are known to be long
		queued  bool  // whether runs are told that others wait
	}{
		{"one for each instance loop", cores.New(2, 3, 0), 1, 5 * time.Millisecond, 6, []int{1, 4}, true},
		{"none waits", cores.New(2, 3, 0), 1, 5 * time.Millisecond, 1, []int{4}, false},
		{"short runs", cores.New(2, 3, 0), 1, 50 * time.Microsecond, 6, []int{0}, false},
		{"runs of several threads", cores.New(2, 3, 0), 2, 5 * time.Millisecond, 6, []int{0}, true},
		{"the numbers are not known", cores.New(2), 1, 5 * time.Millisecond, 6, []int{0}, true},
		{"fewer numbers than cores", cores.New(2, 3), 1, 5 * time.Millisecond, 6, []int{0}, true},
		{"a single core", cores.New(1, 3), 1, 5 * time.Millisecond, 6, []int{0}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &placed{takes: test.takes, present: map[int]int{}}
				s := schedulerOf(
					e, model(), Config{Instances: 2, Cores: test.cores, Threads: test.threads, MaxQueue: 100},
				)
				defer s.Close()
				var group sync.WaitGroup
				for range test.clients {
					group.Go(func() {
						for range 20 {
							r, err := s.Infer(t.Context(), row(1))
							if err != nil {
								t.Error(err)
								return
							}
							r.Release()
						}
					})
				}
				group.Wait()
				var cores []int
				queued := false
				for _, c := range e.calls[4:] {
					cores, queued = append(cores, c.Core), queued || c.Queued
				}
				slices.Sort(cores)
				if cores = slices.Compact(cores); !slices.Equal(cores, test.want) || queued != test.queued {
					t.Errorf("runs were on %v, want %v; told that others wait: %v", cores, test.want, queued)
				}
			})
		})
	}
}
