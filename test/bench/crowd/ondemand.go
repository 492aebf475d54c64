package crowd

import (
	"context"
	"slices"
	"sync"
	"time"
)

// OnDemand is a client's book of what is loaded, for a server that loads and unloads what clients tell it to, as Triton
// does with --model-control-mode=explicit: before a request its model is loaded, and for that those are unloaded that were
// asked for longest ago. It is safe for concurrent use.
type OnDemand struct {
	crowd *Crowd

	mu     sync.Mutex // guards what follows; it is held while models are loaded and unloaded
	idle   *sync.Cond // a request has ended
	loaded []int      // the one asked for longest ago first
	users  [Models]int
	used   int64
	Loads  int
}

// NewOnDemand unloads all models of the box.
func NewOnDemand(c *Crowd) (*OnDemand, error) {
	for i := range c.sizes {
		if err := c.Client.Unload(context.Background(), ModelName(i)); err != nil {
			return nil, err
		}
	}
	d := &OnDemand{crowd: c}
	d.idle = sync.NewCond(&d.mu)
	return d, nil
}

// Ask sends a request, after its model was loaded.
func (d *OnDemand) Ask(model int) Asking {
	begin := time.Now()
	loads, err := d.enter(model)
	if err != nil {
		return Asking{model: model, begin: begin, end: time.Now(), err: err}
	}
	a := d.crowd.Ask(model)
	if a.begin = begin; loads {
		a.wake = a.end.Sub(begin)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users[model]--
	d.idle.Broadcast()
	return a
}

func (d *OnDemand) enter(model int) (loads bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for !slices.Contains(d.loaded, model) {
		loads = true
		if d.used+d.crowd.taken[model] <= d.crowd.room {
			if err := d.crowd.Client.Load(context.Background(), ModelName(model)); err != nil {
				return true, err
			}
			d.Loads++
			d.used += d.crowd.taken[model]
			d.loaded = append(d.loaded, model)
			break
		}
		victim := slices.IndexFunc(d.loaded, func(m int) bool { return d.users[m] == 0 })
		if victim < 0 {
			d.idle.Wait()
			continue
		}
		m := d.loaded[victim]
		if err := d.crowd.Client.Unload(context.Background(), ModelName(m)); err != nil {
			return true, err
		}
		d.loaded = slices.Delete(d.loaded, victim, victim+1)
		d.used -= d.crowd.taken[m]
	}
	d.loaded = append(slices.DeleteFunc(d.loaded, func(m int) bool { return m == model }), model)
	d.users[model]++
	return loads, nil
}
