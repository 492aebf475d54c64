package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os/exec"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// pipelineTime is how long one sample of a pipeline takes.
const pipelineTime = 400 * time.Millisecond

// pythonProgram is the interpreter that Debian's numpy and Pillow belong to.
const pythonProgram = "/usr/bin/python3"

// startPython starts test/bench/python, which asks a box for its models, and returns its address.
func startPython(b *box) (*process, string, error) {
	p, address, err := launchAt(anywhere, exec.Command(pythonProgram, "test/bench/python/server.py", b.address))
	if err != nil {
		err = fmt.Errorf("%w (\"make python\" installs numpy and Pillow)", err)
	}
	return p, address, err
}

// besidePython starts a box, puts into it what is to be measured, and starts the Python process that does the same at
// an address. end ends both.
func besidePython(dir string, put func(b *box, dir string) error) (b *box, address string, end func(), err error) {
	if b, err = startBox(dir + "/data"); err != nil {
		return nil, "", nil, err
	}
	if err := put(b, dir); err != nil {
		return nil, "", nil, errors.Join(err, b.stop())
	}
	python, address, err := startPython(b)
	if err != nil {
		return nil, "", nil, errors.Join(err, b.stop())
	}
	return b, address, func() { _, _ = python.cmd.Process.Kill(), b.stop() }, nil
}

// pythonFigures holds a pipeline of steps around a model in the box against the same work in a Python process that asks
// the same box for the same model.
func pythonFigures(t task, clients int) measurement {
	return func(dir string, rounds int) (r result, err error) {
		m, err := newSingleMachine(dir)
		if clients > 1 {
			m, err = newMachine(dir)
		}
		if err != nil {
			return r, err
		}
		input, body, err := t.input()
		if err != nil {
			return r, err
		}
		b, address, end, err := besidePython(dir, t.put)
		if err != nil {
			return r, err
		}
		defer end()
		if err := t.sameAnswer(b, "http://"+address+t.path, input, body); err != nil {
			return r, err
		}
		c, err := clientsOf(b, "pipeline", input, kserve.Binary, anywhere)
		if err != nil {
			return r, err
		}
		p := &callers{address: address, path: t.path, headers: "Content-Type: application/octet-stream\r\n", body: body, core: anywhere}
		sides := []side{
			c.side("steps in the box", clients, pipelineTime), p.side("Python behind a socket", clients, pipelineTime),
		}
		all, err := m.interleave(rounds, sides)
		if err != nil {
			return r, err
		}
		name := fmt.Sprintf("%s, %s: pipeline of steps / Python behind a socket", t.words, count(clients))
		ratio, box, other := all[0].over(all[1]), all[0].p50(), all[1].p50()
		if clients == 1 {
			ratio, box, other = all[0].quicker(all[1]), all[0].quick(), all[1].quick()
		}
		detail := fmt.Sprintf("%s against %s an answer, %.0f/s against %.0f/s", duration(box), duration(other), all[0].rate(), all[1].rate())
		r.Figures = []figure{atLeast(name, ratio, 3, "x", detail)}
		return r, nil
	}
}

// sameAnswer checks that the pipeline and the Python process find the same.
func (t *task) sameAnswer(b *box, url string, input edgewise.Tensor, body []byte) error {
	response, err := b.client.Infer(context.Background(),
		&edgewise.Request{Model: edgewise.ModelID{Name: "pipeline"}, Inputs: []edgewise.Tensor{input}})
	if err != nil {
		return err
	}
	defer response.Release()
	var want, got []float64
	for _, o := range response.Outputs {
		for i := 0; o.Name == t.finds && i < len(o.Data); i += 4 {
			bits := binary.LittleEndian.Uint32(o.Data[i:])
			if o.Type == edgewise.FP32 {
				want = append(want, float64(math.Float32frombits(bits)))
			} else {
				want = append(want, float64(int32(bits)))
			}
		}
	}
	res, err := http.Post(url, "application/octet-stream", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	var found []map[string]any
	if err := json.NewDecoder(res.Body).Decode(&found); err != nil {
		return err
	}
	for _, f := range found {
		v, _ := f[t.finds].(float64)
		got = append(got, v)
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) == 0 || !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-4 }) {
		return fmt.Errorf("the Python process finds %s %v, the steps %v", t.finds, got, want)
	}
	return nil
}
