package external

import (
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
)

// A spare process has been started and waits for START, so that a program that begins slowly is there at once when the
// process of a version has died. A version has at most one, and none where its processes have devices: a sandbox is that
// of one device.

// spawn returns a process on a device that has not been told what to load: the spare one, or a new one.
func (i *Instance) spawn(about backend.StartInstance, on edgewise.Device) (*process, error) {
	p := i.takeSpare()
	if p == nil {
		t, err := i.backend.task(i.manifest, i.version.ID, i.version.Model, i.dir)
		if err != nil {
			return nil, err
		}
		t.on = on
		if p, err = t.spawn(); err != nil {
			t.folder.remove()
			return nil, err
		}
	}
	p.task.start.Instance = about
	return p, nil
}

// takeSpare returns the spare process, nil when there is none that lives.
func (i *Instance) takeSpare() *process {
	i.mu.Lock()
	p := i.spare
	i.spare = nil
	i.mu.Unlock()
	if p == nil {
		return nil
	}
	select {
	case <-p.gone:
		p.task.folder.remove()
		return nil
	default:
		return p
	}
}

// prepare makes a spare process where the backend wants one. Without one the next process begins when it is needed.
func (i *Instance) prepare() {
	if !i.manifest.Spare || slices.ContainsFunc(i.workers, func(w *worker) bool { return w.on.Kind != edgewise.CPU }) {
		return
	}
	p, err := i.spawn(backend.StartInstance{}, edgewise.Device{})
	if err != nil {
		i.backend.Logger.Warn("a spare process of a model cannot be started", append(title(i.version.ID), "error", err)...)
		return
	}
	i.mu.Lock()
	kept := !i.closed && i.spare == nil
	if kept {
		i.spare = p
	}
	i.mu.Unlock()
	if !kept {
		p.dismiss()
	}
}

// dismiss ends a process that was not told what to load.
func (p *process) dismiss() {
	p.client.Close()
	p.Await(farewell, "killed: it did not end when it was not needed")
	<-p.gone
	p.task.folder.remove()
}
