package main

import (
	"bytes"
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
	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
)

// pipelineTime is how long one sample of a pipeline takes.
const pipelineTime = 400 * time.Millisecond

// pythonProgram is the interpreter that Debian's numpy and Pillow belong to; "make python" installs them.
const pythonProgram = "/usr/bin/python3"

// pythonFigures holds a pipeline of steps around a model in the box against the same work in a Python process that asks
// the same box for the same model.
func pythonFigures(t task, clients int) func(*run) {
	return func(r *run) {
		m := r.machine()
		m.single = clients == 1
		input, body, err := t.input()
		r.check(err)
		b := r.startBox()
		r.check(t.put(b, r.dir))
		python := r.startAt(anywhere, exec.Command(pythonProgram, "test/bench/python/server.py", b.address))
		r.check(t.sameAnswer(b, "http://"+python.address+t.path, input, body))
		c := r.clients(b, "pipeline", input, kserve.Binary, anywhere)
		p := &callers{address: python.address, path: t.path, fields: octets, body: body, core: anywhere}
		all := m.interleave([]side{
			c.side("steps in the box", clients, pipelineTime), p.side("Python behind a socket", clients, pipelineTime),
		})
		name := fmt.Sprintf("%s, %s: pipeline of steps / Python behind a socket", t.words, count(clients))
		ratio, box, other := all[0].over(all[1]), all[0].p50(), all[1].p50()
		if clients == 1 {
			ratio, box, other = all[0].quicker(all[1]), all[0].quick(), all[1].quick()
		}
		r.report(atLeast(name, ratio, 3, "x", fmt.Sprintf("%s against %s an answer, %.0f/s against %.0f/s", perf.Short(1e6*box),
			perf.Short(1e6*other), all[0].rate(), all[1].rate())))
	}
}

// sameAnswer checks that the pipeline and the Python process find the same.
func (t *task) sameAnswer(b *box, url string, input edgewise.Tensor, body []byte) error {
	var want, got []float64
	if err := b.infer("pipeline", input, func(response *edgewise.Response) {
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
	}); err != nil {
		return err
	}
	res, err := http.Post(url, "application/octet-stream", bytes.NewReader(body))
	if err != nil {
		return err
	}
	var found []map[string]any
	if err := errors.Join(json.NewDecoder(res.Body).Decode(&found), res.Body.Close()); err != nil {
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
