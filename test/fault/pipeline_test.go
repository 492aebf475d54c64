package fault

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// sums is an ensemble of "first" and "second", each of which adds a number. Both of its versions stay loaded, so that
// the label moves often.
const sums = `platform: "ensemble"
max_batch_size: 4
version_policy { all {} }
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "mid" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 4 }
ensemble_scheduling {
  step { model_name: "first" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "mid" } }
  step { model_name: "second" model_version: -1 input_map { key: "x" value: "mid" } output_map { key: "y" value: "y" } }
}`

// pipelineAnswer is what tells the two pipelines apart: version 1 adds 1 and 10, version 2 adds 2 and 20.
type pipelineAnswer struct {
	version int64
	mid, y  float32
}

func (a pipelineAnswer) whole() bool {
	return a == pipelineAnswer{1, 1, 11} || a == pipelineAnswer{2, 2, 22}
}

// TestAKilledBoxAnswersWithOnePipeline kills the box while the live label of an ensemble moves back and forth. Every
// answer, before and after, is that of one pipeline, and after a restart it is the pipeline that was acknowledged last,
// or the one that was being switched to.
func TestAKilledBoxAnswersWithOnePipeline(t *testing.T) {
	rounds := max(*cycles/10, 3)
	random := rand.New(rand.NewPCG(chosenSeed(t), 3))
	dir := t.TempDir()
	b := startBox(t, dir)
	for version := range 2 {
		for i, name := range []string{"first", "second"} {
			b.push(t, name, "model.onnx", adds(float32(version+1)*[]float32{1, 10}[i]).Bytes())
		}
		b.push(t, "sums", "config.pbtxt", []byte(sums))
	}
	f := &flips{acknowledged: 2, begun: 2}
	answers := 0
	for n := range rounds {
		if b == nil {
			b = startBox(t, dir)
		}
		f.check(t, n, b)
		answers += f.until(t, b, time.Duration(1+random.IntN(200))*time.Millisecond)
		b = nil
		real.StartMachine(t, dir)
	}
	f.check(t, rounds, startBox(t, dir))
	t.Logf("%d kills, %d flips acknowledged, %d answers; %d kills let the flip in flight take effect", rounds, f.count, answers, f.tookEffect)
	if f.count == 0 || answers == 0 {
		t.Error("the kills came too early: nothing was tried")
	}
}

// flips is what is known of the label.
type flips struct {
	mu                  sync.Mutex // guards what follows
	acknowledged, begun int64
	count, tookEffect   int
}

// check compares what a box answers after its start with what was acknowledged.
func (f *flips) check(t *testing.T, n int, b *box) {
	t.Helper()
	got, err := b.ask(t.Context())
	if err != nil {
		t.Fatalf("round %d: %v\n%s", n, err, &b.output)
	}
	if !got.whole() || got.version != f.acknowledged && got.version != f.begun {
		t.Fatalf("round %d: answered %+v; acknowledged was %d, begun %d", n, got, f.acknowledged, f.begun)
	}
	m, err := b.client.Model(t.Context(), "sums")
	if err != nil || m.Label(edgewise.LiveLabel) != got.version {
		t.Fatalf("round %d: the label says %v (%v), the answer came from %d", n, m.Label(edgewise.LiveLabel), err, got.version)
	}
	if got.version != f.acknowledged {
		f.tookEffect++
	}
	f.acknowledged, f.begun = got.version, got.version
}

// until flips and asks until the box is killed, and returns how many answers came.
func (f *flips) until(t *testing.T, b *box, kill time.Duration) (answers int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(kill, b.kill)
	var work sync.WaitGroup
	work.Go(func() { f.flip(ctx, b) })
	for range 3 {
		work.Go(func() {
			for {
				got, err := b.ask(ctx)
				if err != nil {
					return
				}
				if !got.whole() {
					t.Errorf("a mixed answer: %+v", got)
				}
				f.mu.Lock()
				answers++
				f.mu.Unlock()
			}
		})
	}
	<-b.ended
	work.Wait()
	return answers
}

// flip moves the label back and forth until the box does not answer.
func (f *flips) flip(ctx context.Context, b *box) {
	for {
		f.mu.Lock()
		f.begun = 3 - f.acknowledged
		next := f.begun
		f.mu.Unlock()
		if _, err := b.client.Promote(ctx, "sums", edgewise.LiveLabel, next); err != nil {
			return
		}
		f.mu.Lock()
		f.acknowledged = next
		f.count++
		f.mu.Unlock()
	}
}

// adds makes y = x + n, FP32 [batch,4].
func adds(n float32) *onnxgen.Model {
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes:        []onnxgen.Node{{Op: "Add", In: []string{"x", "n"}, Out: []string{"y"}}},
		Initializers: []onnxgen.Tensor{onnxgen.Floats("n", []int64{4}, n, n, n, n)},
		Inputs:       []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: onnxgen.Batch(4)}},
		Outputs:      []onnxgen.Value{{Name: "y", Type: onnxgen.Float, Dims: onnxgen.Batch(4)}},
	}}
}

func (b *box) push(t *testing.T, name, file string, content []byte) {
	t.Helper()
	sent := false
	up := edgewise.Upload{Model: name, Size: int64(len(content)), Next: func() (string, int64, io.Reader, error) {
		if sent {
			return "", 0, nil, io.EOF
		}
		sent = true
		return file, int64(len(content)), strings.NewReader(string(content)), nil
	}}
	if _, err := b.client.Push(t.Context(), up, true, func(int64) {}); err != nil {
		t.Fatalf("pushing %s: %v\n%s", name, err, &b.output)
	}
}

// ask sends zeros through the pipeline.
func (b *box) ask(ctx context.Context) (pipelineAnswer, error) {
	in := edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1, 4}, Data: make([]byte, 16)}
	r, err := b.client.Infer(ctx, &edgewise.Request{Model: edgewise.ModelID{Name: "sums"}, Inputs: []edgewise.Tensor{in}})
	if err != nil {
		return pipelineAnswer{}, err
	}
	defer r.Release()
	got := pipelineAnswer{version: r.Model.Version}
	for _, out := range r.Outputs {
		value := math.Float32frombits(binary.LittleEndian.Uint32(out.Data))
		if out.Name == "mid" {
			got.mid = value
		} else {
			got.y = value
		}
	}
	return got, nil
}
