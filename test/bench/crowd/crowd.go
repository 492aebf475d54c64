// Package crowd sends requests to more models than there is memory for, and says how many of them found their model loaded.
package crowd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/host"
	"github.com/edgewise-ai/edgewise/test/controlgroup"
	"github.com/edgewise-ai/edgewise/test/processes"
)

// Crowd is a box with the models of a workload.
type Crowd struct {
	*Workload
	Client *client.Client
	PID    int // of the box
	Group  *controlgroup.Group

	dir   string // for files
	plan  Plan
	room  int64   // what the box lets models take, in bytes
	taken []int64 // what the process of each model has for itself, in bytes
}

// Plan is how much is asked of a crowd.
type Plan struct {
	Requests int
	Within   time.Duration // no request begins later; 0: all are sent
	Scale    int64         // sizes, and the memory for them, are divided by that
}

// Memory is what the control group of a crowd has that is not scaled down, in bytes. A quarter is the box's own.
const Memory = 4 << 30

// What the process of a model has for itself beside the model, in bytes, and how many models of the workload the memory
// holds about. That part of the memory is not scaled down.
const (
	processBytes = 21 << 20
	modelsAtOnce = 14
)

// room is the memory for models.
func (p Plan) room() int64 {
	const all = Memory / 4 * 3
	return all/p.Scale + modelsAtOnce*processBytes*(p.Scale-1)/p.Scale
}

// New makes the control group of a crowd; the box is the caller's to start.
func New(dir string, p Plan) (*Crowd, error) {
	g, err := controlgroup.New(fmt.Sprint("edgewise-bench-", os.Getpid()), p.room()+Memory/4)
	return &Crowd{Group: g, dir: dir, plan: p, room: p.room()}, err
}

// Settings are those of the box: none where it finds them out.
func (p Plan) Settings() []string {
	if p.Scale == 1 {
		return nil
	}
	return []string{fmt.Sprintf("engine.max_memory_bytes=%d", p.room())}
}

// Clients is how many clients send the requests.
const Clients = 4

// Fill puts the models into the box, and asks each once for what its process takes.
func (c *Crowd) Fill() error {
	for i := range c.sizes {
		if err := c.store(i, ""); err != nil {
			return err
		}
	}
	for i := range c.sizes {
		n, err := c.measure(i)
		if err != nil {
			return err
		}
		c.taken = append(c.taken, n)
		progress("%s takes %d MiB, its file has %d", ModelName(i), n>>20, c.sizes[i]>>20)
	}
	return nil
}

// progress tells who waits how far the benchmark is.
func progress(format string, values ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" "+format+"\n", values...)
}

// store pushes a model through a file, which it removes, with a configuration where there is one.
func (c *Crowd) store(i int, config string) error {
	path := filepath.Join(c.dir, "model.onnx")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(path)) }()
	size, err := c.model(i).WriteTo(f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	up := edgewise.Upload{Model: ModelName(i), Size: size + int64(len(config))}
	files := []part{{"model.onnx", size, f}}
	if config != "" {
		files = append(files, part{"config.pbtxt", int64(len(config)), strings.NewReader(config)})
	}
	up.Next = func() (string, int64, io.Reader, error) {
		if len(files) == 0 {
			return "", 0, nil, io.EOF
		}
		p := files[0]
		files = files[1:]
		return p.path, p.size, p.content, nil
	}
	_, err = c.Client.Push(context.Background(), up, true, nil)
	return err
}

// part is a file of an upload.
type part struct {
	path    string
	size    int64
	content io.Reader
}

// measure asks a model and returns what its process has for itself.
func (c *Crowd) measure(i int) (int64, error) {
	for range 10 { // it may give its memory up meanwhile
		if a := c.Ask(i); a.err != nil {
			return 0, a.err
		}
		pid, err := c.process(i)
		if err != nil {
			return 0, err
		}
		if n, ok := host.ProcessBytes("/", pid, host.Private); ok && pid != 0 {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%s has no process", ModelName(i))
}

// process returns the id of the process of a model, 0 while there is none.
func (c *Crowd) process(i int) (int, error) {
	children, err := processes.Children(c.PID)
	for _, pid := range children {
		title, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(title), "["+ModelName(i)+":") {
			return pid, nil
		}
	}
	return 0, err
}

// foresight is what a policy that knows all later requests has now.
func (c *Crowd) foresight() (Foresight, error) {
	f := Foresight{memory: c.room, taken: c.taken}
	for i := range c.sizes {
		pid, err := c.process(i)
		if err != nil {
			return f, err
		}
		if pid != 0 {
			f.loaded = append(f.loaded, i)
		}
	}
	return f, nil
}

// Asking is one request: to which model, when, and for how long it waited for its model.
type Asking struct {
	model      int
	begin, end time.Time
	wake       time.Duration
	err        error
}

// Ask sends one request.
func (c *Crowd) Ask(model int) (a Asking) {
	a = Asking{model: model, begin: time.Now()}
	in := edgewise.Tensor{Name: "x", Type: edgewise.Int64, Shape: edgewise.Shape{1}, Data: make([]byte, 8)}
	resp, err := c.Client.Infer(context.Background(), &edgewise.Request{
		Model: edgewise.ModelID{Name: ModelName(model)}, Inputs: []edgewise.Tensor{in}, Parameters: map[string]any{"timing": true},
	})
	a.end, a.err = time.Now(), err
	if err == nil {
		if ns, ok := resp.Parameters["timing_wake_ns"].(int64); ok {
			a.wake = time.Duration(ns)
		}
		resp.Release()
	}
	return a
}

// AskAll sends the requests of the workload in their order, by several clients, and returns those that were sent in time.
func (c *Crowd) AskAll(ask func(model int) Asking) []Asking {
	all, next := make([]Asking, len(c.Asked)), atomic.Int64{}
	var clients sync.WaitGroup
	begin := time.Now()
	late := func() bool { return c.plan.Within > 0 && time.Since(begin) > c.plan.Within }
	for range Clients {
		clients.Go(func() {
			for !late() {
				i := next.Add(1) - 1
				if i >= int64(len(all)) {
					return
				}
				all[i] = ask(c.Asked[i])
				if (i+1)%100 == 0 {
					progress("%d requests in %v", i+1, time.Since(begin).Round(time.Second))
				}
			}
		})
	}
	clients.Wait()
	return all[:min(next.Load(), int64(len(all)))]
}
