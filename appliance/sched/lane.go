package sched

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// lane runs one request after the other until the queue is closed and empty. It keeps its thread, so that the native
// runtime finds its thread-local memory again and the core's caches stay warm.
func (s *Scheduler) lane() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		j := s.queue.pop()
		if j == nil {
			return
		}
		s.run(j)
		close(j.done)
	}
}

// run executes one request and stores its result or its error in j.
func (s *Scheduler) run(j *job) {
	defer s.recovered(j)
	j.started = time.Now()
	if j.err = j.ctx.Err(); j.err != nil {
		return
	}
	result, err := s.instance.Run(j.ctx, j.inputs, j.want)
	if err != nil {
		j.err = err
		return
	}
	if err := s.checker.finish(result); err != nil {
		result.Free()
		j.err = err
		return
	}
	s.measured.executed(j.batch, result)
	s.lent.Add(1)
	j.result = result
}

// recovered turns a panic of an instance, which is our own bug, into an Internal error of the one request.
func (s *Scheduler) recovered(j *job) {
	cause := recover()
	if cause == nil {
		return
	}
	s.logger.Error("instance panicked", "model", s.version.ID.String(), "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	j.err = edgewise.Errorf("sched.run", edgewise.Internal, "model %v: its instance panicked: %v", s.version.ID, cause)
}
