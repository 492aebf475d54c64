package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/processes"
)

const (
	segfaults     = 3               // at the fifth time within ten minutes a process is not started again
	betweenFaults = 3 * time.Second // in which a spare process begins
)

// recoveryFigures end processes of models by SIGSEGV while they and another model are under load.
func recoveryFigures(r *run) {
	r.addGoBackend("identity_go", goIdentity, "")
	r.addCPPBackend("identity_cpp", "test/bench/models/identity.cpp")
	b, in := r.startBox("engine.backends="+r.ownBackends()), noise(edgewise.Shape{smallCall})
	r.push(b, "identity", identity(), identityConfig)
	picture := noise(edgewise.Shape{1, 3, 32, 32})
	picture.Name = "INPUT__0"
	for _, victim := range []struct {
		name string
		in   edgewise.Tensor
		push func(name string)
	}{
		{"Go", in, func(name string) { r.check(b.push(name, "config.pbtxt", []byte(backendConfig("identity_go", "")), "")) }},
		{"C++", in, func(name string) {
			r.check(b.push(name, "config.pbtxt", []byte(backendConfig("identity_cpp", "")), ""))
		}},
		{"Python", in, func(name string) { r.pushPython(b, name, backendConfig("python", ""), "identity.py") }},
		{"TorchScript", picture, func(name string) { r.pushTorch(b, name) }},
	} {
		before, err := processes.Children(b.cmd.Process.Pid)
		r.check(err)
		victim.push("victim")
		var took []float64
		other := outage{box: b, model: "identity", in: in}
		for range segfaults {
			after, err := processes.Children(b.cmd.Process.Pid)
			r.check(err)
			after = slices.DeleteFunc(after, func(pid int) bool { return slices.Contains(before, pid) })
			if len(after) == 0 {
				r.check(errors.New("the model has no process"))
			}
			own := outage{box: b, model: "victim", in: victim.in, kill: slices.Min(after)} // a spare one began later
			_, err = whileDoing(other.watch, func() (float64, error) { return 0, own.watch(context.Background()) })
			r.check(err)
			took = append(took, own.longest.Seconds())
			time.Sleep(betweenFaults)
		}
		r.report(
			atMost(victim.name+": a model is away when its process is ended by SIGSEGV under load", median(took), 1, "s",
				fmt.Sprintf("%.2f s; each time the box waits longer, from 0.1 s on", took)),
			atMost(victim.name+": failed requests to another model meanwhile", float64(other.failed), 0, "",
				fmt.Sprintf("%d requests, the slowest took %.1f ms", other.requests, 1e3*other.longest.Seconds())))
		r.check(b.client.Unload(context.Background(), "victim"))
		r.check(b.client.DeleteModel(context.Background(), "victim"))
	}
}

// outage sends requests to a model one after the other.
type outage struct {
	box   *box
	model string
	in    edgewise.Tensor
	kill  int // the process that is ended after a while; 0: none

	requests, failed int
	longest          time.Duration // between two answers
}

// watch asks until ctx ends; with a process to end, until the model answers after that.
func (o *outage) watch(ctx context.Context) error {
	const before = 200 * time.Millisecond // load comes first
	begin, last, killed := time.Now(), time.Now(), time.Time{}
	for ctx.Err() == nil {
		err := o.box.infer(o.model, o.in, nil)
		now := time.Now()
		switch o.requests++; {
		case err != nil:
			o.failed++
			if now.Sub(last) > 10*stallTime {
				return fmt.Errorf("%s does not answer any more: %w", o.model, err)
			}
			time.Sleep(time.Millisecond)
			continue
		case !killed.IsZero() && o.failed > 0:
			o.longest = now.Sub(killed)
			return nil
		case killed.IsZero():
			o.longest = max(o.longest, now.Sub(last))
		}
		last = now
		if o.kill != 0 && killed.IsZero() && now.Sub(begin) > before {
			killed = now
			if err := syscall.Kill(o.kill, syscall.SIGSEGV); err != nil {
				return err
			}
		}
	}
	return nil
}

// torchConfig is that of the model of pictures of torch_models.py.
const torchConfig = `platform: "pytorch_libtorch"
input { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 1, 3, 32, 32 ] }
output { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 1, 10 ] }
`

// pushTorch puts a small TorchScript model into a box.
func (r *run) pushTorch(b *box, name string) {
	folder := filepath.Join(r.dir, "torch")
	r.check(os.MkdirAll(folder, 0o755))
	r.check(command(pythonProgram, "test/native/testdata/torch_models.py", folder))
	source, err := os.ReadFile(filepath.Join(folder, "vision", "model.pt"))
	r.check(err)
	r.check(b.push(name, "model.pt", source, torchConfig))
}
