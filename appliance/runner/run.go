package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// run is one run on its way.
type run struct {
	instance *Instance
	process  *process
	channel  *channel
	want     []string
	waitPlan waitPlan
	out      *block
	used     int64 // of the bytes of out
	attach   []*block
}

// execute carries the run out. It gives the block back on errors; otherwise the result's Free does.
func (r *run) execute(ctx context.Context, in []edgewise.Tensor, solo bool) (*edgewise.Result, error) {
	start := time.Now()
	frame, err := r.place(in)
	if err != nil {
		return nil, err
	}
	number := r.process.runs.Add(1)
	frame.run, frame.core = number, int32(r.waitPlan.core)
	frame.solo, frame.pads = solo, r.instance.pads.Load()
	filled := time.Since(start)
	r.channel.run.Store(number)
	unwatch := r.watch(ctx, number)
	leave := r.waitPlan.pinCaller()
	done, err := r.exchange(frame)
	leave()
	r.channel.run.Store(0)
	unwatch()
	if err != nil {
		r.abandon()
		return nil, err
	}
	result, err := r.result(done)
	if err != nil {
		r.instance.arena.release(r.out, r.used)
		return nil, r.hostile(err)
	}
	result.Input += filled
	return result, nil
}

// abandon gives the block back after an error, and gives it up when the child may not have mapped it as long as it is:
// it may never have room for it, and for a shorter one it has.
func (r *run) abandon() {
	if r.out.seen.Load() == r.process.generation {
		r.instance.arena.release(r.out, r.used)
		return
	}
	r.instance.arena.drop(r.out)
	r.instance.forget([]uint32{r.out.id})
}

// place puts the inputs into shared memory and takes the block of the outputs.
func (r *run) place(in []edgewise.Tensor) (runFrame, error) {
	arena := r.instance.arena
	frame := runFrame{want: r.want, inputs: make([]placed, len(in))}
	owners := make([]*block, len(in))
	need := uint64(0)
	for i := range in {
		var offset uint64
		if owners[i], offset = arena.find(in[i].Data); owners[i] == nil || len(r.attach) == maxAttached-1 {
			owners[i], offset = nil, need
			need = align(need + uint64(len(in[i].Data)))
		} else {
			r.attachOnce(owners[i])
		}
		frame.inputs[i] = placed{in[i].Name, in[i].Type, in[i].Shape, place{0, offset, uint64(len(in[i].Data))}}
	}
	var err error
	if r.out, err = r.instance.block(int64(need)); err != nil {
		return frame, err
	}
	r.attachOnce(r.out)
	for i := range in {
		at := &frame.inputs[i].place
		if owners[i] != nil {
			at.block = owners[i].id
			continue
		}
		at.block = r.out.id
		r.instance.stats.copiedIn.Add(int64(copy(r.out.data[at.offset:], in[i].Data)))
	}
	frame.out, frame.free, r.used = r.out.id, need, int64(need)
	return frame, nil
}

// attachOnce lists a block whose descriptor the child needs.
func (r *run) attachOnce(b *block) {
	if !slices.Contains(r.attach, b) && b.seen.Load() != r.process.generation {
		r.attach = append(r.attach, b)
	}
}

// exchange sends the run and waits for its answer, growing the block as the outputs need it.
func (r *run) exchange(frame runFrame) (doneFrame, error) {
	descriptors := make([]int, len(r.attach))
	for i, b := range r.attach {
		frame.attach = append(frame.attach, attached{b.id, uint64(len(b.data))})
		descriptors[i] = b.fd
	}
	known := uint64(len(r.out.data)) // to the child, which has mapped as much when it runs
	if err := r.channel.send(frame.append(r.channel.buf[:0]), descriptors); err != nil {
		return doneFrame{}, r.lost(err)
	}
	for {
		answer, err := r.channel.receive(r.waitPlan)
		if err != nil {
			return doneFrame{}, r.lost(err)
		}
		switch kind(answer[0]) {
		case kindDone:
			r.attached()
			done, err := decodeDone(answer[1:])
			if err != nil || done.run != frame.run {
				return done, r.hostile(errFrame)
			}
			return done, nil
		case kindFailed:
			f, err := decodeFailure(answer[1:])
			if err != nil || f.run != frame.run {
				return doneFrame{}, r.hostile(errFrame)
			}
			if f.kind != edgewise.Exhausted { // it may have had no room to map them
				r.attached()
			}
			return doneFrame{}, edgewise.Errorf("runner.Run", f.kind, "%s", f.text)
		case kindGrow:
			r.attached()
			f, err := decodePair(answer[1:])
			if err != nil || f.a <= known {
				return doneFrame{}, r.hostile(errFrame)
			}
			if err := r.grow(f.a); err != nil {
				return doneFrame{}, err
			}
		default:
			return doneFrame{}, r.hostile(errFrame)
		}
	}
}

// attached notes what the child has mapped, and not before it has answered: a run on another channel may overtake this
// one.
func (r *run) attached() {
	for _, b := range r.attach {
		b.seen.Store(r.process.generation)
	}
	r.attach = nil
}

// grow makes the block larger, or refuses; a refused child answers with a failure of kind Exhausted. A block that is
// long enough already, because the child could not map it when it grew, is handed over once more.
func (r *run) grow(need uint64) error {
	size, descriptors := uint64(0), []int(nil)
	if need <= uint64(r.instance.backend.config.MaxArena) && r.lengthen(int64(need)) == nil {
		size, descriptors = uint64(len(r.out.data)), []int{r.out.fd}
		r.out.seen.Store(0) // as it is now; the next run brings it again
	}
	if err := send(r.channel.fd, pair{a: size}.append(nil, kindGrown), descriptors, 0); err != nil {
		return r.lost(err)
	}
	return nil
}

// lengthen makes the block at least need bytes long.
func (r *run) lengthen(need int64) error {
	if need <= int64(len(r.out.data)) {
		return nil
	}
	dropped, err := r.instance.arena.grow(r.out, need)
	r.instance.forget(dropped)
	return err
}

// result checks the child's answer to the last number and makes a result of it.
func (r *run) result(done doneFrame) (*edgewise.Result, error) {
	if len(done.outputs) != len(r.want) {
		return nil, fmt.Errorf("%d outputs for %d wanted", len(done.outputs), len(r.want))
	}
	if done.input < 0 || done.infer < 0 || done.output < 0 {
		return nil, errors.New("a negative time")
	}
	outputs := make([]edgewise.Tensor, len(done.outputs))
	for i, from := range done.outputs {
		data, err := from.place.within(r.out.data)
		if err != nil {
			return nil, err
		}
		if from.place.block != r.out.id {
			return nil, fmt.Errorf("output %q in block %d instead of %d", r.want[i], from.place.block, r.out.id)
		}
		r.used = max(r.used, int64(from.place.offset+from.place.size))
		if from.kind == edgewise.Bytes { // framed: what has been checked must not change under its reader
			data = slices.Clone(data)
			r.instance.stats.copiedOut.Add(int64(len(data)))
		}
		outputs[i] = edgewise.Tensor{Name: r.want[i], Type: from.kind, Shape: from.shape, Data: data}
		if err := outputs[i].Check(); err != nil {
			return nil, err
		}
	}
	r.instance.stats.childOut.Add(int64(done.copied))
	var freed atomic.Bool
	arena, block, used := r.instance.arena, r.out, r.used
	return &edgewise.Result{
		Outputs: outputs, Input: time.Duration(done.input), Infer: time.Duration(done.infer), Output: time.Duration(done.output), Wide: done.wide,
		Free: func() {
			if !freed.Swap(true) {
				arena.release(block, used)
			}
		},
	}, nil
}

// backgroundGrace is how many times longer the grace of a run in the background is: while others keep all cores busy, its
// thread has some thousandths of one.
const backgroundGrace = 30

// watch ends the run when ctx does: the child is told, and killed when that takes longer than the grace.
func (r *run) watch(ctx context.Context, number uint64) (end func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	var timer *time.Timer
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(told)
		r.process.tell(pair{r.channel.id, number}.append(nil, kindTerminate))
		grace := r.instance.backend.config.Grace
		if r.channel.background {
			grace *= backgroundGrace
		}
		timer = time.AfterFunc(grace, func() {
			if r.channel.run.Load() == number {
				r.process.Kill(fmt.Sprintf("killed: a run went on for %v after it was told to end", grace))
			}
		})
	})
	return func() {
		if stop() {
			return
		}
		<-told
		timer.Stop()
	}
}

// lost is the error of a run whose child is gone. It waits for the cause, which is known as soon as the process is.
func (r *run) lost(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		return r.hostile(err)
	}
	r.process.Await(farewell, "killed: its socket was closed and it went on")
	return edgewise.Errorf("runner.Run", edgewise.Unavailable, "model %v: %s died (%s) while running", r.instance.id,
		r.process.group.noun(), r.process.Cause())
}

// hostile kills a child that broke the protocol, which makes nothing else it says worth reading.
func (r *run) hostile(err error) error {
	r.process.Kill("killed: it answered with what no sound process would: " + err.Error())
	<-r.process.Dead()
	return edgewise.Errorf("runner.Run", edgewise.Internal, "model %v: %s was %s", r.instance.id, r.process.group.noun(),
		r.process.Cause())
}
