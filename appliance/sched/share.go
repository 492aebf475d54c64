package sched

import (
	"sync"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
)

// share is the memory of one result, lent to the responses of a batch. The last one that is released gives it back.
type share struct {
	result *edgewise.Result
	lent   *sync.WaitGroup
	users  atomic.Int32
}

// newShare returns the function that each of the users calls once.
func newShare(r *edgewise.Result, users int, lent *sync.WaitGroup) (free func()) {
	s := &share{result: r, lent: lent}
	s.users.Store(int32(users))
	lent.Add(1)
	return s.release
}

func (s *share) release() {
	if s.users.Add(-1) > 0 {
		return
	}
	s.result.Free()
	s.lent.Done()
}
