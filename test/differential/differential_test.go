package differential

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

var (
	models = flag.Int("differential.models", 1000, "how many models are generated")
	first  = flag.Uint64("differential.first", 1, "the seed of the first model; the others follow it")
)

const (
	bundled  = 50 // models that share a process
	clients  = 8
	requests = 5    // of each client, to each model
	rounding = 1e-4 // of the largest number of an output: what floating-point numbers may differ by
)

// tally counts what a run of the suite has covered.
type tally struct{ models, merged, declared, together, failing, outside int }

// TestGeneratedModelsAnswerAsTheRuntimeDoes sends requests of eight clients to generated models, half of which run in
// child processes, and compares every answer with that of a session of ONNX Runtime that nobody else uses.
func TestGeneratedModelsAnswerAsTheRuntimeDoes(t *testing.T) {
	lib, err := ort.Open([]string{real.Library(t)}, ort.Process{})
	if err != nil {
		t.Fatal(err)
	}
	var covered tally
	dir := t.TempDir()
	for begin := 0; begin < *models && !t.Failed(); begin += bundled {
		b := &batch{
			t: t, lib: lib, dir: filepath.Join(dir, fmt.Sprint(begin)), first: *first + uint64(begin),
			n: min(bundled, *models-begin), covered: &covered,
		}
		b.run()
		if begin/bundled%100 == 99 {
			t.Logf("%d models: %+v", begin+b.n, covered)
		}
	}
	t.Logf("%+v", covered)
	if *models >= 1000 && (covered.merged < *models/20 || covered.declared < *models/50 || covered.together == 0 ||
		covered.outside < *models/4) {
		t.Errorf("the suite has not tried what it is for: %+v", covered)
	}
}

// batch is the models that share a child process, and as many in this one.
type batch struct {
	t       *testing.T
	lib     *ort.Library
	dir     string
	first   uint64
	n       int
	covered *tally
}

func (b *batch) run() {
	for i := range b.n {
		m, _ := generate(b.first + uint64(i))
		if err := m.Save(b.folder(i)); err != nil {
			b.t.Fatal(err)
		}
	}
	outside := child(b.t, b.dir)
	for i := range b.n {
		seed := b.first + uint64(i)
		m, rows := generate(seed)
		s := &subject{batch: b, seed: seed, graph: &m.Graph, folder: b.folder(i), random: rand.New(rand.NewPCG(seed, 81))}
		instance := edgewise.Instance(member{outside, uint64(i)})
		if seed%2 == 0 {
			instance = nil
		}
		s.serve(instance, rows)
	}
	if s := outside.Stats(); s.Crashes > 0 {
		b.t.Errorf("models from seed %d on: the process has died %d times", b.first, s.Crashes)
	}
	if err := errors.Join(outside.Close(), os.RemoveAll(b.dir)); err != nil {
		b.t.Error(err)
	}
}

func (b *batch) folder(i int) string { return filepath.Join(b.dir, fmt.Sprint(i)) }

// subject is one model under test.
type subject struct {
	*batch
	seed   uint64
	graph  *onnxgen.Graph
	folder string
	random *rand.Rand
	model  *edgewise.Model
}

// serve loads the model on an instance, or in this process where that is nil, and asks it.
func (s *subject) serve(instance edgewise.Instance, rows bool) {
	here := backend(real.Library(s.t))
	version, proof := s.version(here, rows)
	s.model = version.Model
	if instance == nil {
		var err error
		if instance, err = here.Load(s.t.Context(), version, s.folder, edgewise.Device{}); err != nil {
			s.t.Fatalf("seed %d: %v", s.seed, err)
		}
	} else {
		s.covered.outside++
	}
	served := sched.New(version, instance, sched.Config{Instances: 2, MaxQueue: 100, Proof: proof, Logger: slog.New(slog.DiscardHandler)})
	if err := served.Warm(s.t.Context(), nil); err != nil {
		s.t.Fatalf("seed %d: %v", s.seed, err)
	}
	s.ask(served, s.questions())
	s.count(served.Statistics(), proof)
	if err := served.Close(); err != nil {
		s.t.Error(err)
	}
}

func (s *subject) count(st edgewise.Statistics, proof *sched.Proof) {
	s.covered.models++
	if st.Batching.Merged {
		s.covered.merged++
	}
	if proof.Declared != "" {
		s.covered.declared++
	}
	s.covered.together += int(st.Success.Count) - int(st.ExecutionCount)
}

// version completes the model as the server does. Some models whose rows are apart have a configuration that says so.
func (s *subject) version(b *onnx.Backend, rows bool) (*edgewise.Version, *sched.Proof) {
	declared := &edgewise.Model{Name: "m", MaxBatchSize: modelconfig.Unset}
	files, defaults := []string{onnx.DefaultFilename}, modelconfig.Defaults{Formats: b.Formats(), MaxBatchSize: 8}
	inspection, err := b.Inspect(s.t.Context(), s.folder, declared)
	if err != nil {
		s.t.Fatalf("seed %d: %v", s.seed, err)
	}
	if rows && s.random.IntN(2) == 0 && !slices.ContainsFunc(slices.Concat(s.graph.Inputs, s.graph.Outputs),
		func(v onnxgen.Value) bool { return v.Dims[0].Size > 0 || v.Dims[0].Name == "" && v.Dims[0].Size == 0 }) {
		declared.DynamicBatching = &edgewise.DynamicBatching{MaxQueueDelay: 200}
	}
	m, err := modelconfig.Complete(declared, "m", files, inspection, defaults)
	if err == nil {
		err = modelconfig.Validate(m, files, inspection, defaults)
	}
	if err != nil {
		s.t.Fatalf("seed %d: %v", s.seed, err)
	}
	v := &edgewise.Version{ID: edgewise.ModelID{Name: "m", Version: 1}, Model: m}
	if word := modelconfig.Declared(declared); word != "" {
		return v, &sched.Proof{Declared: word}
	}
	return v, &sched.Proof{Refuted: modelconfig.Unshared(inspection)}
}

// question is a request and what the runtime answers to it; no answer where it refuses.
type question struct {
	in      []edgewise.Tensor
	answers []edgewise.Tensor
}

// questions asks the runtime itself.
func (s *subject) questions() []question {
	var inputs, outputs []string
	for _, v := range s.graph.Inputs {
		inputs = append(inputs, v.Name)
	}
	for _, v := range s.graph.Outputs {
		outputs = append(outputs, v.Name)
	}
	session, err := s.lib.NewSession(filepath.Join(s.folder, onnx.DefaultFilename), inputs, outputs, ort.Options{})
	if err != nil {
		s.t.Fatalf("seed %d: %v", s.seed, err)
	}
	list := make([]question, clients*requests)
	for i := range list {
		q := &list[i]
		q.in = s.inputs()
		r, err := session.Run(s.t.Context(), q.in, outputs, edgewise.RunOptions{})
		if err != nil {
			s.covered.failing++
			continue
		}
		for _, out := range r.Outputs {
			out.Data = bytes.Clone(out.Data)
			q.answers = append(q.answers, out)
		}
		r.Free()
	}
	if err := session.Close(); err != nil {
		s.t.Error(err)
	}
	return list
}

// inputs makes a random request. A name has one size, and so have all first dimensions where the model has a batch
// size.
func (s *subject) inputs() []edgewise.Tensor {
	sizes := map[string]int64{}
	size := func(d onnxgen.Dim) int64 {
		if d.Name == "" && d.Size > 0 {
			return d.Size
		}
		if sizes[d.Name] == 0 {
			sizes[d.Name] = 1 + s.random.Int64N(3)
		}
		return sizes[d.Name]
	}
	if s.model.MaxBatchSize > 0 {
		rows := 1 + s.random.Int64N(3)
		for _, v := range s.graph.Inputs {
			sizes[v.Dims[0].Name] = rows
		}
	}
	var in []edgewise.Tensor
	for _, v := range s.graph.Inputs {
		t := edgewise.Tensor{Name: v.Name, Type: edgewise.FP32}
		for _, d := range v.Dims {
			t.Shape = append(t.Shape, size(d))
		}
		n, _ := t.Shape.Elements()
		if v.Type == onnxgen.String {
			t.Type = edgewise.Bytes
		}
		for range n {
			if t.Type == edgewise.Bytes {
				t.Data = edgewise.AppendElement(t.Data, strconv.FormatInt(s.random.Int64(), 36))
				continue
			}
			t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(float32(s.random.IntN(201)-100)/8))
		}
		in = append(in, t)
	}
	return in
}

// ask sends the questions of all clients at the same time.
func (s *subject) ask(served *sched.Scheduler, list []question) {
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for _, q := range list[client*requests : (client+1)*requests] {
				r, err := served.Infer(context.Background(), &edgewise.Request{Inputs: q.in})
				if (err == nil) != (q.answers != nil) {
					s.t.Errorf("seed %d: %v: the error is %v, and the runtime has %d answers", s.seed, s.graph.Nodes, err, len(q.answers))
				}
				if err != nil {
					continue
				}
				s.compare(served, q, r.Outputs)
				r.Release()
			}
		})
	}
	all.Wait()
}

func (s *subject) compare(served *sched.Scheduler, q question, got []edgewise.Tensor) {
	for _, want := range q.answers {
		at := slices.IndexFunc(got, func(t edgewise.Tensor) bool { return t.Name == want.Name })
		if at < 0 || got[at].Type != want.Type || !same(want, got[at].Data) {
			s.t.Errorf("seed %d: output %q of %v is another one than the runtime's; %+v", s.seed, want.Name, q.in[0].Shape,
				*served.Statistics().Batching)
			return
		}
	}
}

// same tells whether an output has the runtime's bytes, but for rounding.
func same(want edgewise.Tensor, got []byte) bool {
	if bytes.Equal(want.Data, got) {
		return true
	}
	if want.Type != edgewise.FP32 || len(got) != len(want.Data) {
		return false
	}
	number := func(data []byte, at int) float64 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(data[at:])))
	}
	largest := 0.0
	for at := 0; at < len(got); at += 4 {
		largest = max(largest, math.Abs(number(want.Data, at)))
	}
	for at := 0; at < len(got); at += 4 {
		if !(math.Abs(number(want.Data, at)-number(got, at)) <= rounding*largest) {
			return false
		}
	}
	return true
}
