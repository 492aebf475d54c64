package external

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
	"github.com/edgewise-ai/edgewise/appliance/child"
)

// worker keeps one process of an instance running.
type worker struct {
	instance *Instance
	group    string          // of the configuration
	on       edgewise.Device // on which it runs
	about    backend.StartInstance

	mu      sync.Mutex // guards what follows
	process *process   // nil while there is none
	crashes child.Crashes
}

// current returns the process, nil while there is none that lives.
func (w *worker) current() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process == nil {
		return nil
	}
	select {
	case <-w.process.client.Ended():
		return nil
	default:
		return w.process
	}
}

// start starts a process and waits until it has loaded.
func (w *worker) start(ctx context.Context) error {
	p, err := w.instance.spawn(w.about, w.on)
	if err != nil {
		return err
	}
	if _, err := p.load(ctx); err != nil {
		p.task.folder.remove()
		return err
	}
	go p.watch()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.process = p
	return nil
}

// drop ends the process and removes its folder.
func (w *worker) drop() {
	w.mu.Lock()
	p := w.process
	w.process = nil
	w.mu.Unlock()
	if p != nil {
		p.end()
		p.task.folder.remove()
	}
}

// supervise starts another process whenever the present one has died, until that was too often.
func (w *worker) supervise() {
	i := w.instance
	for {
		select {
		case <-i.closing:
			w.drop()
			return
		case <-w.process.gone:
		}
		cause := w.process.Cause()
		w.drop()
		if !w.again(cause) {
			return
		}
		i.release(w)
		i.prepare()
	}
}

// again waits for the back-off and starts a process until one has loaded. It returns false when the instance is closed,
// or when the process has died too often.
func (w *worker) again(cause string) bool {
	i := w.instance
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-i.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		if w.died(cause) {
			return false
		}
		select {
		case <-i.closing:
			return false
		case <-time.After(i.backend.BackOff(len(w.crashes))):
		}
		err := w.start(ctx)
		switch {
		case ctx.Err() != nil:
			w.drop()
			return false
		case err == nil:
			i.backend.Logger.Info("the process of a model was started again",
				append(title(i.version.ID), "pid", w.current().PID)...)
			return true
		}
		cause = err.Error()
	}
}

// died records that the process has died, and tells whether it is not started again.
func (w *worker) died(cause string) (last bool) {
	i := w.instance
	last = w.crashes.Add(time.Now(), i.backend.Restarts)
	i.mu.Lock()
	if i.crashes++; !i.closed {
		i.reason = fmt.Sprintf("its process died (%s) and is being started again", cause)
		if last {
			i.reason = fmt.Sprintf("its process died %d times within %v, the last time with: %s; it is not started again "+
				"before the model is loaded again", len(w.crashes), i.backend.CrashWindow, cause)
		}
	}
	if last {
		i.alive--
	}
	over := last && i.alive == 0
	i.mu.Unlock()
	i.backend.Logger.Error("the process of a model died", append(title(i.version.ID), "cause", cause, "crashes",
		len(w.crashes))...)
	i.wake()
	if over {
		close(i.ended)
	}
	return last
}
