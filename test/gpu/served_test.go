package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// served starts the program with the subjects on the GPU, measures them as clients do, kills a model's process, and
// stops the box in both ways.
func (r *report) served(ctx context.Context, s settings) (err error) {
	dir, err := os.MkdirTemp("", "gputest-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var list []subject
	var names []string
	for _, m := range subjects(s.fake) {
		if m.name != mainSubject && m.name != "mlp" || m.cudnn && !r.Machine.CuDNN() {
			continue
		}
		name := fmt.Sprintf("subject%d", len(list))
		if err := saveSubject(filepath.Join(dir, "models", name), m, s.fake); err != nil {
			return err
		}
		list, names = append(list, m), append(names, name)
	}
	b, err := startBox(ctx, boxConfig{
		Program: s.server, Library: s.library, Driver: s.driver, Folders: s.folders, Models: filepath.Join(dir, "models"),
		Data: filepath.Join(dir, "data"), Ready: names, Log: os.Stderr,
	})
	if err != nil {
		return err
	}
	defer b.kill()
	r.add(line{Name: "server: from start to ready", Value: b.Took.Seconds(), Unit: "s"})
	for i, m := range list {
		if err := r.saturate(b, s, names[i], m); err != nil {
			return err
		}
	}
	if err := r.comeBack(b, names[0], list[0]); err != nil {
		return err
	}
	if err := r.stop(b, syscall.SIGTERM, "SIGTERM"); err != nil {
		return err
	}
	b, err = startBox(ctx, boxConfig{
		Program: s.server, Library: s.library, Driver: s.driver, Folders: s.folders, Models: filepath.Join(dir, "models"),
		Data: filepath.Join(dir, "again"), Ready: names, Log: os.Stderr,
	})
	if err != nil {
		return err
	}
	defer b.kill()
	last := len(list) - 1
	q, err := newQuery(names[last], list[last].input(3, 1)) // a batch above one: cuDNN has made plans of its own then
	if err == nil {
		err = b.infer(q)
	}
	return errors.Join(err, r.stop(b, syscall.SIGINT, "Ctrl-C"))
}

// saveSubject writes a subject that must run on a GPU. A fake one has little memory.
func saveSubject(folder string, m subject, fake bool) error {
	if err := os.MkdirAll(filepath.Join(folder, "1"), 0o755); err != nil {
		return err
	}
	config := fmt.Sprintf("max_batch_size: %d\ndynamic_batching {}\ninstance_group { kind: KIND_GPU count: 1 }\n", m.most)
	if fake {
		config += "parameters { key: \"gpu_memory_bytes\" value { string_value: \"100000000\" } }\n"
	}
	if err := os.WriteFile(filepath.Join(folder, "config.pbtxt"), []byte(config), 0o600); err != nil {
		return err
	}
	return m.make().Save(filepath.Join(folder, "1"))
}

// served is the least part of a tight loop's speed that the server has to reach at saturation.
const leastServed = 0.90

// saturate lets more and more clients ask for rows of 8 and compares the best speed with that of the tight loop.
func (r *report) saturate(b *box, s settings, name string, m subject) error {
	const rows = 8
	q, err := newQuery(name, m.input(rows, 2))
	if err != nil {
		return err
	}
	best := 0.0
	for _, clients := range []int{1, 8, 32, 64} {
		answers, took, err := b.load(clients, s.each, q)
		if err != nil {
			return err
		}
		speed := rows * float64(answers) / took.Seconds()
		best = max(best, speed)
		r.add(line{Name: fmt.Sprintf("server: %s, %d clients, rows of %d", m.name, clients, rows), Value: speed, Unit: "rows/s"})
	}
	l := line{Name: "server: " + m.name + ", served to raw at saturation", Value: best / r.raw[m.name], Unit: "ratio"}
	if m.name == mainSubject {
		l.Gate = leastServed
	}
	r.add(l)
	return nil
}

// back is how soon a model whose process was killed has to answer again.
const back = 5 * time.Second

// comeBack kills the models' processes and waits until one model answers again.
func (r *report) comeBack(b *box, name string, m subject) error {
	q, err := newQuery(name, m.input(8, 1))
	if err != nil {
		return err
	}
	children, err := b.children()
	if err != nil {
		return err
	}
	if len(children) == 0 {
		return errors.New("the server has no process for its models")
	}
	for _, pid := range children {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return err
		}
	}
	took, err := b.awaitBack(q, time.Now(), 12*back, func(error) {})
	if err != nil {
		return err
	}
	l := line{Name: "server: from kill -9 of the models to an answer", Value: took.Seconds(), Unit: "s"}
	if took > back && !r.Fake { // a software device compiles its shaders again
		l.Failed = "later than " + back.String()
	}
	r.add(l)
	return nil
}

// stop ends the server as an operator does.
func (r *report) stop(b *box, signal syscall.Signal, name string) error {
	took, err := b.stop(signal)
	if err != nil {
		return fmt.Errorf("%s: the server did not end cleanly: %w", name, err)
	}
	r.add(line{Name: "server: from " + name + " to its end", Value: took.Seconds(), Unit: "s"})
	return nil
}
