package sched

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
)

const (
	trialTime    = 300 * time.Millisecond // a trial starts no new round after this
	trialTimeout = 2 * time.Second        // and is given up after this
	trialRounds  = 20
	trialSize    = 16       // elements of the large batch, at most, and as few as half of trialTime lets through
	trialBytes   = 32 << 20 // of the inputs of the large batch, at most, else there is no trial
	trialGain    = 1.1      // elements a second, large batch over small: below it batches do not pay
)

// try measures whether batches pay, on zeros, and switches them off when they do not. It does nothing for models that
// are not batched, whose configuration asks for batches in so many words, that are told about their batches, or whose inputs
// have variable sizes. A trial
// that fails changes nothing: a model need not accept zeros.
func (s *Scheduler) try(ctx context.Context) {
	if s.queue.single.Load() || s.queue.former.asked || s.ragged != nil {
		return
	}
	one, ok := s.zeros(1)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	took, err := s.clock(ctx, one)
	if err != nil {
		return
	}
	size := max(min(s.queue.former.most, trialSize, trialBytes/max(bytesOf(one), 1), int(trialTime/2/max(took, 1))), 2)
	many, ok := s.zeros(size)
	if !ok {
		return
	}
	alone, together, ok := s.race(ctx, one, many)
	if !ok {
		return
	}
	gain := alone.Seconds() * float64(size) / max(together.Seconds(), 1e-9)
	if gain < trialGain {
		s.apart(fmt.Sprintf("a batch of %d does not pay: it is %.2f times as fast as its rows one by one", size, gain))
	}
	s.logger.Info("tried whether batches pay", "model", s.version.ID.String(), "size", size, "gain", gain, "batching", gain >= trialGain)
}

// race runs both batches in turn and returns the shortest time of each. The first run of each shape is not measured.
func (s *Scheduler) race(ctx context.Context, one, many []edgewise.Tensor) (alone, together time.Duration, ok bool) {
	start := time.Now()
	for round := range trialRounds {
		a, errOne := s.clock(ctx, one)
		b, errMany := s.clock(ctx, many)
		switch {
		case errOne != nil || errMany != nil:
			return 0, 0, false
		case round == 0:
			continue
		case round == 1:
			alone, together = a, b
		}
		alone, together = min(alone, a), min(together, b)
		if time.Since(start) > trialTime {
			break
		}
	}
	return alone, together, true
}

// clock runs inputs once.
func (s *Scheduler) clock(ctx context.Context, inputs []edgewise.Tensor) (took time.Duration, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = edgewise.Errorf("sched.try", edgewise.Internal, "the instance panicked on zeros: %v", cause)
		}
	}()
	seat := s.account.seat()
	if !seat.try() {
		seat.wait()
	}
	defer seat.give()
	if s.guest {
		ctx = seat.with(ctx)
	}
	start := time.Now()
	result, err := s.instance.Run(ctx, inputs, s.checker.names)
	if err != nil {
		return 0, err
	}
	took = time.Since(start)
	result.Free()
	return took, nil
}

// zeros makes the required inputs of a batch, as the backend sees them. ok is false when a size is variable or a tensor
// has more than trialBytes.
func (s *Scheduler) zeros(batch int) (inputs []edgewise.Tensor, ok bool) {
	for _, spec := range s.version.Model.Inputs() {
		if spec.Optional {
			continue
		}
		shape := slices.Clone(spec.Shape)
		shape[0] = int64(batch)
		n, ok := shape.Elements()
		size := spec.Type.Size()
		if spec.Type == edgewise.Bytes {
			size = 4 // the length of an empty string
		}
		if !ok || n > trialBytes/max(size, 1) {
			return nil, false
		}
		inputs = append(inputs, edgewise.Tensor{
			Name: spec.Name, Type: spec.Type, Shape: s.checker.inputs[spec.Name].reshape.apply(shape), Data: alignedBytes(int(n * size))[:n*size],
		})
	}
	return inputs, true
}

func bytesOf(tensors []edgewise.Tensor) int {
	n := 0
	for i := range tensors {
		n += len(tensors[i].Data)
	}
	return n
}
