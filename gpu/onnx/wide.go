package onnx

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
	"github.com/edgewise-ai/edgewise/host"
)

const (
	// wideNice is how nice the threads of that session are: when others want the cores after all, it is they who wait.
	wideNice = 5
	// wideAgain is within how much time a version is asked for a wide run twice before the session is made.
	wideAgain = 10 * time.Second
	// wideIdle is for how long the session is kept without use.
	wideIdle = time.Minute
)

// wide is a version on the CPU that makes itself a second session with several threads for runs that have the box to
// themselves. It is made when such runs follow each other, beside the requests, and closed when they have stopped. Its
// first run is held against one of the plain session: where a single byte of the answers differs, it is not used.
type wide struct {
	*ort.Session // one thread a run
	model        edgewise.ModelID
	open         func() (*ort.Session, error) // makes the other one
	logger       *slog.Logger

	mu      sync.Mutex // guards what follows
	state   wideState
	second  *ort.Session // while state is opened or checked
	users   int          // runs and results of it
	asked   time.Time    // last
	idle    *time.Timer
	closed  bool
	opening sync.WaitGroup
}

// wideState is how far the second session is.
type wideState int

const (
	wideAbsent  wideState = iota // there is none
	wideOpening                  // it is being made
	wideOpened                   // it is there, and has run nothing yet
	wideChecked                  // it answers what the plain one does
	wideRefused                  // it is of no use
)

func newWide(plain *ort.Session, v edgewise.ModelID, open func() (*ort.Session, error), logger *slog.Logger) *wide {
	return &wide{Session: plain, model: v, open: open, logger: logger}
}

// Run is Session.Run; a solo run is on several threads where that can be had.
func (w *wide) Run(
	ctx context.Context, in []edgewise.Tensor, want []string, options edgewise.RunOptions,
) (*edgewise.Result, error) {
	run := func(s *ort.Session) (*edgewise.Result, error) { return s.Run(ctx, in, want, options) }
	if !options.Solo {
		defer keep(options.Core)()
		return run(w.Session)
	}
	second, checked := w.acquire()
	if second == nil {
		return run(w.Session)
	}
	if !checked {
		defer w.release()
		result, err := run(w.Session)
		if err == nil {
			w.check(ctx, second, in, want, result.Outputs)
		}
		return result, err
	}
	result, err := run(second)
	if err != nil {
		return w.again(ctx, err, run)
	}
	result.Wide = true
	free := result.Free
	result.Free = func() {
		free()
		w.release()
	}
	return result, nil
}

// again runs on one thread what has failed on several. Input that both refuse says nothing against the second session.
func (w *wide) again(ctx context.Context, failed error, run func(*ort.Session) (*edgewise.Result,
	error),
) (*edgewise.Result, error) {
	if ctx.Err() != nil {
		w.release()
		return nil, failed
	}
	result, err := run(w.Session)
	if err != nil && edgewise.KindOf(err) == edgewise.Invalid {
		w.release()
		return nil, err
	}
	w.refuse(failed)
	return result, err
}

// acquire returns the second session, if there is one, and whether its answers are known to be right. Otherwise it may
// begin to open the session.
func (w *wide) acquire() (second *ort.Session, checked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	again := now.Sub(w.asked) < wideAgain
	w.asked = now
	switch {
	case w.closed:
	case w.state == wideAbsent && again:
		w.state = wideOpening
		w.opening.Go(w.make)
	case w.state == wideOpened || w.state == wideChecked:
		w.users++
		return w.second, w.state == wideChecked
	}
	return nil, false
}

// release ends a use.
func (w *wide) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users--
	if w.state == wideChecked {
		w.idle.Reset(wideIdle)
	}
	w.drop()
}

// make opens the second session.
func (w *wide) make() {
	second, err := w.open()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.logger.Info("no session with several threads", "model", w.model.String(), "error", err)
		w.state = wideRefused
		return
	}
	w.second, w.state = second, wideOpened
	w.idle = time.AfterFunc(wideIdle, w.rest)
}

// check runs the second session for the first time and compares its answers with those of the plain one.
func (w *wide) check(ctx context.Context, second *ort.Session, in []edgewise.Tensor, want []string,
	outputs []edgewise.Tensor,
) {
	result, err := second.Run(ctx, in, want, edgewise.RunOptions{})
	if ctx.Err() != nil {
		return
	}
	same := err == nil
	for i := 0; same && i < len(outputs); i++ {
		same = bytes.Equal(outputs[i].Data, result.Outputs[i].Data)
	}
	if err == nil {
		result.Free()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.state != wideOpened: // several runs checked it at a time
	case same:
		w.state = wideChecked
	default:
		w.logger.Info("lone runs keep to one thread: several give other answers", "model", w.model.String(), "error", err)
		w.state = wideRefused
	}
}

// refuse ends a use of the second session, which has failed, and all others.
func (w *wide) refuse(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logger.Info("lone runs keep to one thread: one with several has failed", "model", w.model.String(), "error", err)
	w.state = wideRefused
	w.users--
	w.drop()
}

// rest gives the second session up that nobody has used for a while.
func (w *wide) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users > 0 { // its end sets the timer again
		return
	}
	if w.state == wideOpened || w.state == wideChecked {
		w.state = wideAbsent
	}
	w.drop()
}

// drop closes the second session when it is not wanted and nobody uses it. The caller holds mu.
func (w *wide) drop() {
	wanted := w.state == wideOpened || w.state == wideChecked
	if w.second == nil || w.users > 0 || wanted && !w.closed {
		return
	}
	w.idle.Stop()
	if err := w.second.Close(); err != nil {
		w.logger.Error("closing a session with several threads", "model", w.model.String(), "error", err)
	}
	w.second = nil
}

// Close closes both sessions.
func (w *wide) Close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.opening.Wait()
	w.mu.Lock()
	w.drop()
	w.mu.Unlock()
	return w.Session.Close()
}

const (
	// smallWeights are the bytes of weights of which a second copy is made without asking.
	smallWeights = 128 << 20
	// spareWeights is how many copies of larger ones there must be room for, so that runs and others have memory, too.
	spareWeights = 4
)

// roomFor returns nil where a second copy of a model's weights may be made, of so many bytes. root is where /proc and
// /sys are. Errors: Exhausted.
func roomFor(weights int64, root string) error {
	if weights <= smallWeights {
		return nil
	}
	if available := host.AvailableMemory(root); available < spareWeights*weights {
		return edgewise.Errorf("onnx.roomFor", edgewise.Exhausted,
			"%d bytes of memory are available, want %d times the weights of %d bytes", available, spareWeights, weights)
	}
	return nil
}
