package hostile

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/test/wat"
)

// SetupTimeout is what a box allows the start of a guest, and its description.
const SetupTimeout = 2 * time.Second

// Attack is what is done to a box.
type Attack struct {
	Client     *client.Client
	RunTimeout time.Duration // that the box is configured with: wasm.run_timeout
	Modules    []Module
}

// configuration is that of every module: one input and one output, both called x.
const configuration = `backend: "wasm"
input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
instance_group { kind: KIND_CPU count: %d }
parameters { key: "infer_models" value { string_value: "good,hostile" } }
parameters { key: "max_memory_mebibyte" value { string_value: "4" } }
`

// good returns what it is given.
const good = Prelude + `(func (export "edgewise_process") (param i32) (result i32) local.get 0)`

// Upload sends the whole corpus, and a good step that some of it call. It returns how many were refused and how many
// accepted; an error names the first that was not met as its file says.
func (a *Attack) Upload(ctx context.Context) (refused, accepted int, err error) {
	module, err := wat.Assemble(good)
	if err == nil {
		err = a.push(ctx, "good", module, 6)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("the good step: %w", err)
	}
	for i := range a.Modules {
		m := &a.Modules[i]
		err := a.push(ctx, m.model(), m.Binary, 6)
		switch {
		case !m.Refused() && err != nil:
			return refused, accepted, fmt.Errorf("%s: %w", m.Name, err)
		case !m.Refused():
			accepted++
		case !m.met(err, SetupTimeout, a.RunTimeout):
			return refused, accepted, m.wrong(err)
		default:
			refused++
		}
	}
	return refused, accepted, nil
}

// Remove deletes everything that Upload and Traps stored.
func (a *Attack) Remove(ctx context.Context) error {
	names := []string{"good"}
	for i := range a.Modules {
		if m := &a.Modules[i]; !m.Refused() {
			names = append(names, m.model())
		}
	}
	for i := range mixers {
		names = append(names, mixerName(i))
	}
	for _, name := range names {
		if err := a.Client.DeleteModel(ctx, name); err != nil && edgewise.KindOf(err) != edgewise.NotFound {
			return err
		}
	}
	return nil
}

func (a *Attack) push(ctx context.Context, name string, module []byte, guests int) error {
	config := fmt.Sprintf(configuration, guests)
	files := []struct{ path, content string }{{"model.wasm", string(module)}, {"config.pbtxt", config}}
	next := 0
	up := edgewise.Upload{Model: name, Size: int64(len(module) + len(config)), Next: func() (string, int64, io.Reader, error) {
		if next == len(files) {
			return "", 0, nil, io.EOF
		}
		f := files[next]
		next++
		return f.path, int64(len(f.content)), strings.NewReader(f.content), nil
	}}
	_, err := a.Client.Push(ctx, up, true, nil)
	return err
}

// call asks a step with one float.
func (a *Attack) call(ctx context.Context, model string, value byte) error {
	in := edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{3}, Data: []byte{value, 0, 0, 0, 0, 0, 128, 63, 0, 0, 0, 64}}
	r, err := a.Client.Infer(ctx, &edgewise.Request{Model: edgewise.ModelID{Name: model}, Inputs: []edgewise.Tensor{in}})
	if err == nil {
		r.Release()
	}
	return err
}

// Stop is how much later than its limit a module that was stopped answered, the round trip included.
type Stop struct {
	Module string
	Late   time.Duration
}

// CallAll calls every module that was accepted, once. Each must fail as its file says, or be paused since it has failed
// too often.
func (a *Attack) CallAll(ctx context.Context) (failed, paused int, stops []Stop, err error) {
	for i := range a.Modules {
		m := &a.Modules[i]
		if m.Refused() {
			continue
		}
		late, err := a.meet(ctx, m)
		if err != nil && edgewise.KindOf(err) == edgewise.Unavailable && strings.Contains(err.Error(), "failures in a row") {
			paused++
			continue
		}
		if !m.met(err, SetupTimeout, a.RunTimeout) {
			return failed, paused, stops, m.wrong(err)
		}
		failed++
		if m.Stopped() {
			stops = append(stops, Stop{m.Name, late})
		}
	}
	return failed, paused, stops, nil
}

// meet calls a module and returns how much more than the limit that took.
func (a *Attack) meet(ctx context.Context, m *Module) (late time.Duration, err error) {
	start := time.Now()
	err = a.call(ctx, m.model(), 0)
	return time.Since(start) - a.RunTimeout, err
}

// Runaways calls each module that does not end from two clients at once, n times, and returns how late each was
// stopped.
func (a *Attack) Runaways(ctx context.Context, n int) (stops []Stop, err error) {
	for i := range a.Modules {
		m := &a.Modules[i]
		if m.Refused() || !m.Stopped() {
			continue
		}
		for range n {
			var work sync.WaitGroup
			var late [2]time.Duration
			var errs [2]error
			for k := range late {
				work.Go(func() { late[k], errs[k] = a.meet(ctx, m) })
			}
			work.Wait()
			for k, err := range errs {
				if !m.met(err, SetupTimeout, a.RunTimeout) {
					return stops, m.wrong(err)
				}
				stops = append(stops, Stop{m.Name, late[k]})
			}
		}
	}
	return stops, nil
}

// Pace calls the modules in turn, one each interval, until the context ends. Those that are paused fail too.
func (a *Attack) Pace(ctx context.Context, interval time.Duration) error {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for i := 0; ; i++ {
		m := &a.Modules[i%len(a.Modules)]
		if m.Refused() {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		if err := a.call(context.WithoutCancel(ctx), m.model(), 0); err == nil || edgewise.KindOf(err) == edgewise.Internal {
			return m.wrong(err)
		}
	}
}
