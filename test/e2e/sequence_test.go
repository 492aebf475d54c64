package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	guest "github.com/edgewise-ai/edgewise/sdk/go"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// TestSpeechStreamsBySequence sends sounds to the demo's voice activity model frame by frame, several streams at a
// time, and wants from the box that keeps the state what a client hears that carries it by hand: bit by bit.
func TestSpeechStreamsBySequence(t *testing.T) {
	t.Parallel()
	frames := speechFrames(t)
	for _, isolation := range []string{"none", "process"} {
		t.Run(isolation, func(t *testing.T) {
			b := serveReady(t, t.TempDir(), "--import", real.Models(t), "--set", "engine.isolation="+isolation)
			var streams sync.WaitGroup
			for n := range 5 {
				streams.Go(func() {
					from := n * len(frames) / 8 // each stream is another sound
					want := b.speechByHand(frames[from:])
					for i, frame := range frames[from:] {
						got, err := b.speech("vad_stream", edgewise.Sequence{ID: uint64(n) + 1, Start: i == 0, End: from+i == len(frames)-1}, frame)
						if err != nil || !bytes.Equal(got[0].Data, want[i]) || len(got) != 1 {
							t.Errorf("stream %d, frame %d: got %v, want %v, %v", n, i, got, want[i], err)
							return
						}
					}
				})
			}
			streams.Wait()
			_, err := b.speech("vad_stream", edgewise.Sequence{ID: 1}, frames[0])
			if err == nil || !strings.Contains(err.Error(),
				"inference request for sequence 1 to model 'vad_stream' must specify the START flag on the first request of the sequence") {
				t.Errorf("after its end: %v", err)
			}
			b.stop()
		})
	}
}

// speechFrames cuts the sample into what the model takes: each frame begins with the last 64 samples of the one before.
func speechFrames(t *testing.T) [][]byte {
	file, err := os.ReadFile(sample(t, "speech.wav"))
	if err != nil {
		t.Fatal(err)
	}
	sound, err := guest.ReadSound(file, 1<<24)
	if err != nil {
		t.Fatal(err)
	}
	if sound, err = sound.Resample(16_000, 1<<24); err != nil {
		t.Fatal(err)
	}
	samples := append(make([]float32, 64), sound.Samples...)
	var frames [][]byte
	for at := 0; at+576 <= len(samples); at += 512 {
		var frame []byte
		for _, s := range samples[at : at+576] {
			frame = binary.LittleEndian.AppendUint32(frame, math.Float32bits(s))
		}
		frames = append(frames, frame)
	}
	return frames
}

func (b *box) speech(model string, id edgewise.Sequence, frame []byte, state ...edgewise.Tensor) ([]edgewise.Tensor, error) {
	inputs := append(state,
		edgewise.Tensor{Name: "input", Type: edgewise.FP32, Shape: edgewise.Shape{1, 576}, Data: frame},
		edgewise.Tensor{Name: "sr", Type: edgewise.Int64, Shape: edgewise.Shape{1}, Data: binary.LittleEndian.AppendUint64(nil, 16_000)})
	response, err := b.client.Infer(b.t.Context(), &edgewise.Request{Model: edgewise.ModelID{Name: model}, Inputs: inputs, Sequence: id})
	if err != nil {
		return nil, err
	}
	return response.Outputs, nil
}

// speechByHand carries the state from frame to frame as a client does that knows of it.
func (b *box) speechByHand(frames [][]byte) [][]byte {
	var heard [][]byte
	state := edgewise.Tensor{Name: "state", Type: edgewise.FP32, Shape: edgewise.Shape{2, 1, 128}, Data: make([]byte, 1024)}
	for _, frame := range frames {
		outputs, err := b.speech("vad", edgewise.Sequence{}, frame, state)
		if err != nil {
			b.t.Error(err)
			return heard
		}
		for _, out := range outputs {
			if out.Name == "stateN" {
				state.Data = out.Data
				continue
			}
			heard = append(heard, out.Data)
		}
	}
	return heard
}

// sequenceModel makes a model with a state: y = x + state, and next, which is the next state, is the same, all FP32
// [batch,2]. started and id say what the inputs START, BOOL [batch,1], and CORRID, INT64 [batch,1], were.
func sequenceModel() *onnxgen.Model {
	row, one := onnxgen.Batch(2), onnxgen.Batch(1)
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Name: "sequence",
		Nodes: []onnxgen.Node{
			{Op: "Add", In: []string{"x", "state"}, Out: []string{"y"}},
			{Op: "Identity", In: []string{"y"}, Out: []string{"next"}},
			{Op: "Identity", In: []string{"START"}, Out: []string{"started"}},
			{Op: "Identity", In: []string{"CORRID"}, Out: []string{"id"}},
		},
		Inputs: []onnxgen.Value{
			{Name: "x", Type: onnxgen.Float, Dims: row},
			{Name: "state", Type: onnxgen.Float, Dims: row},
			{Name: "START", Type: onnxgen.TypeOf(edgewise.Bool), Dims: one},
			{Name: "CORRID", Type: onnxgen.TypeOf(edgewise.Int64), Dims: one},
		},
		Outputs: []onnxgen.Value{
			{Name: "y", Type: onnxgen.Float, Dims: row},
			{Name: "next", Type: onnxgen.Float, Dims: row},
			{Name: "started", Type: onnxgen.TypeOf(edgewise.Bool), Dims: one},
			{Name: "id", Type: onnxgen.TypeOf(edgewise.Int64), Dims: one},
		},
	}}
}

// sequenceConfig makes a configuration for sequenceModel.
func sequenceConfig(batch int, rest string) string {
	return fmt.Sprintf(`max_batch_size: %d
input { name: "x" data_type: TYPE_FP32 dims: [2] }
output [ { name: "y" data_type: TYPE_FP32 dims: [2] }, { name: "started" data_type: TYPE_BOOL dims: [1] },
  { name: "id" data_type: TYPE_INT64 dims: [1] } ]
sequence_batching {
  max_sequence_idle_microseconds: 60000000
  control_input [
    { name: "START" control { kind: CONTROL_SEQUENCE_START bool_false_true: [false, true] } },
    { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_INT64 } }
  ]
  state {
    input_name: "state" output_name: "next" data_type: TYPE_FP32 dims: [2]
    initial_state { name: "begin" data_type: TYPE_FP32 dims: [2] data_file: "begin" }
  }
  %s
}
`, batch, rest)
}

// sequenceRepository lays out versions of models with sequences. Sequences begin with 100 times the version, and 0.
func sequenceRepository(t *testing.T, configs map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, config := range configs {
		dir := filepath.Join(folder, name)
		if err := sequenceModel().Save(filepath.Join(dir, "1")); err != nil {
			t.Fatal(err)
		}
		begin := binary.LittleEndian.AppendUint32(nil, math.Float32bits(100))
		for path, data := range map[string][]byte{"config.pbtxt": []byte(config), "initial_state/begin": append(begin, 0, 0, 0, 0)} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, path), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return folder
}

// add asks a model of sequenceRepository to add x and 1 to its state.
func (b *box) add(model string, id edgewise.Sequence, x float32) (y []float32, version int64, err error) {
	data := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)), math.Float32bits(1))
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	r, err := b.client.Infer(ctx, &edgewise.Request{Model: edgewise.ModelID{Name: model}, Sequence: id, Inputs: []edgewise.Tensor{
		{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1, 2}, Data: data},
	}})
	if err != nil {
		return nil, 0, err
	}
	for _, out := range r.Outputs {
		switch {
		case out.Name == "y":
			for i := range 2 {
				y = append(y, math.Float32frombits(binary.LittleEndian.Uint32(out.Data[4*i:])))
			}
		case out.Name == "id" && binary.LittleEndian.Uint64(out.Data) != id.ID, out.Name == "started" &&
			(out.Data[0] == 1) != id.Start, out.Name == "next":
			b.t.Errorf("%+v is told %s %v", id, out.Name, out.Data)
		}
	}
	return y, r.Model.Version, nil
}

// TestManySequencesAtOnce runs more sequences than there are slots, in each strategy.
func TestManySequencesAtOnce(t *testing.T) {
	t.Parallel()
	folder := sequenceRepository(t, map[string]string{
		"direct": sequenceConfig(4, "direct { max_queue_delay_microseconds: 500 minimum_slot_utilization: 0.5 }"),
		"unsaid": sequenceConfig(8, ""),
		"oldest": sequenceConfig(4, "oldest { max_candidate_sequences: 6 max_queue_delay_microseconds: 500 }"),
	})
	b := serveReady(t, t.TempDir(), "--import", folder)
	var clients sync.WaitGroup
	for model := range map[string]bool{"direct": true, "oldest": true, "unsaid": true} {
		for n := range uint64(40) {
			clients.Go(func() {
				for i := range 20 {
					x := float32(n + 1)
					y, _, err := b.add(model, edgewise.Sequence{ID: n + 1, Start: i == 0, End: i == 19}, x)
					if want := []float32{100 + float32(i+1)*x, float32(i + 1)}; err != nil || fmt.Sprint(y) != fmt.Sprint(want) {
						t.Errorf("%s, sequence %d, request %d: got %v, want %v, %v", model, n+1, i, y, want, err)
						return
					}
				}
			})
		}
	}
	clients.Wait()
	b.stop()
}

// regroup gives a model one group of so many instances, in place.
func (b *box) regroup(model string, count int) {
	b.t.Helper()
	status, text := b.send(http.MethodGet, "/v2/models/"+model+"/config", nil)
	var config map[string]any
	if err := json.Unmarshal([]byte(text), &config); err != nil || status != http.StatusOK {
		b.t.Fatalf("%d %s: %v", status, text, err)
	}
	config["instance_group"] = []any{map[string]any{"count": count}}
	changed, err := json.Marshal(config)
	if err != nil {
		b.t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"parameters": map[string]string{"config": string(changed)}})
	if err != nil {
		b.t.Fatal(err)
	}
	if status, answer := b.send(http.MethodPost, "/v2/repository/models/"+model+"/load", body); status != http.StatusOK {
		b.t.Fatalf("changing the instance groups: %d %s", status, answer)
	}
}

// TestSequencesOutliveChanges resizes a model and moves its label under sequences in progress.
func TestSequencesOutliveChanges(t *testing.T) {
	t.Parallel()
	folder := sequenceRepository(t, map[string]string{"cat": sequenceConfig(4, "")})
	b := serveReady(t, t.TempDir(), "--import", folder, "--set", "engine.sequence_drain=2s")
	want := func(id edgewise.Sequence, sum float32, version int64) {
		t.Helper()
		y, by, err := b.add("cat", id, 5)
		if err != nil || y[0] != sum || by != version {
			t.Errorf("%+v: got %v of version %d, want %v of version %d, %v", id, y, by, sum, version, err)
		}
	}
	for id := range uint64(4) {
		want(edgewise.Sequence{ID: id + 1, Start: true}, 105, 1)
	}
	b.regroup("cat", 1)
	want(edgewise.Sequence{ID: 1}, 110, 1)
	if err := os.Rename(filepath.Join(folder, "cat", "1"), filepath.Join(folder, "cat", "2")); err != nil {
		t.Fatal(err)
	}
	moved := make(chan string, 1)
	go func() {
		end := "without an exit code"
		defer func() { moved <- end }()
		_, said, code := b.run("model", "import", folder)
		end = fmt.Sprint(code, " ", said)
	}()
	result := ""                   // of the import, once it has ended
	for by := int64(1); by == 1; { // until version 2 answers new sequences
		select {
		case result = <-moved:
		default:
		}
		_, version, err := b.add("cat", edgewise.Sequence{ID: 99, Start: true, End: true}, 5)
		if err != nil || result != "" && version == 1 {
			t.Fatalf("a new sequence after the import (%s) is answered by version %d, %v", result, version, err)
		}
		by = version
	}
	want(edgewise.Sequence{ID: 1}, 115, 1)
	want(edgewise.Sequence{ID: 2, End: true}, 110, 1)
	want(edgewise.Sequence{ID: 3, Start: true}, 105, 2)
	want(edgewise.Sequence{ID: 3}, 110, 2)
	if result == "" {
		result = <-moved
	}
	if result != "0 " {
		t.Errorf("the import ends with %s", result)
	}
	deadline := time.Now().Add(patience)
	for {
		_, _, err := b.add("cat", edgewise.Sequence{ID: 4}, 5)
		if err != nil && strings.Contains(err.Error(), "must specify the START flag") {
			break // its version is gone, and says what to do
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("sequence 4 at the end of its version: %v", err)
		}
	}
	want(edgewise.Sequence{ID: 3, End: true}, 115, 2)
	b.stop()
}

// TestSequenceThroughAnEnsemble sends sequences to an ensemble: its step finds them as if it had been asked itself.
func TestSequenceThroughAnEnsemble(t *testing.T) {
	t.Parallel()
	folder := sequenceRepository(t, map[string]string{"cat": sequenceConfig(4, "")})
	config := `platform: "ensemble" max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: [2] }
output { name: "y" data_type: TYPE_FP32 dims: [2] }
ensemble_scheduling { step { model_name: "cat" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } } }`
	if err := os.MkdirAll(filepath.Join(folder, "zoo", "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "zoo", "config.pbtxt"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	b := serveReady(t, t.TempDir(), "--import", folder)
	for i := range 4 {
		for id := range uint64(3) {
			y, _, err := b.add("zoo", edgewise.Sequence{ID: id + 1, Start: i == 0, End: i == 3}, float32(id))
			if want := []float32{100 + float32(i+1)*float32(id), float32(i + 1)}; err != nil || fmt.Sprint(y) != fmt.Sprint(want) {
				t.Fatalf("sequence %d, request %d: got %v, want %v, %v", id+1, i, y, want, err)
			}
		}
	}
	x := write(t, "x.json", []byte("[[5,1]]"))
	contains(t, "the command line", b.must("infer", "cat", "-i", x, "--sequence", "8", "--sequence-start"), "105 1")
	contains(t, "the command line", b.must("infer", "cat", "-i", x, "--sequence", "8", "--sequence-end"), "110 2")
	b.refuses(4, []string{"START flag"}, "infer", "cat", "-i", x, "--sequence", "8")
	b.refuses(2, []string{"--sequence ID"}, "infer", "cat", "-i", x, "--sequence-start")
	b.refuses(2, []string{"above 0"}, "infer", "cat", "-i", x, "--sequence", "0")
	if _, _, err := b.add("zoo", edgewise.Sequence{ID: 1}, 1); err == nil ||
		!strings.Contains(err.Error(), "in ensemble 'zoo', ") || !strings.Contains(err.Error(), "must specify the START flag") {
		t.Errorf("after its end: %v", err)
	}
	b.stop()
}

// TestStopWaitsForSequences stops the box under a sequence in progress: it goes on to its end, and nothing new begins.
func TestStopWaitsForSequences(t *testing.T) {
	t.Parallel()
	folder := sequenceRepository(t, map[string]string{"cat": sequenceConfig(4, "")})
	b := serveReady(t, t.TempDir(), "--import", folder, "--set", "engine.sequence_drain=1m", "--set", "shutdown.timeout=2m")
	if _, _, err := b.add("cat", edgewise.Sequence{ID: 1, Start: true}, 5); err != nil {
		t.Fatal(err)
	}
	b.terminate()
	const stopping = "Server is stopping, scheduler for model has stopped accepting new inference requests"
	deadline := time.Now().Add(patience)
	for {
		_, _, err := b.add("cat", edgewise.Sequence{ID: 2, Start: true, End: true}, 5)
		if err != nil && strings.Contains(err.Error(), stopping) {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("a new sequence: %v", err)
		}
	}
	if y, _, err := b.add("cat", edgewise.Sequence{ID: 1}, 5); err != nil || y[0] != 110 {
		t.Errorf("the sequence goes on with %v, %v", y, err)
	}
	if y, _, err := b.add("cat", edgewise.Sequence{ID: 1, End: true}, 5); err != nil || y[0] != 115 {
		t.Errorf("the sequence ends with %v, %v", y, err)
	}
	if code := b.exitCode(); code != 0 {
		t.Errorf("exit code %d\n%s", code, b.output())
	}
}

// TestSequenceOutlivesItsProcess kills the child process of a model between two requests of a sequence.
func TestSequenceOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	folder := sequenceRepository(t, map[string]string{"cat": sequenceConfig(4, "oldest {}")})
	b := serveReady(t, t.TempDir(), "--import", folder, "--set", "engine.isolation=process")
	if y, _, err := b.add("cat", edgewise.Sequence{ID: 1, Start: true}, 5); err != nil || y[0] != 105 {
		t.Fatalf("%v, %v", y, err)
	}
	for _, pid := range childrenOf(t, b.cmd.Process.Pid) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(patience)
	for {
		y, _, err := b.add("cat", edgewise.Sequence{ID: 1}, 5)
		if err == nil {
			if y[0] != 110 || y[1] != 2 {
				t.Errorf("after the crash the sequence is at %v", y)
			}
			break
		}
		if strings.Contains(err.Error(), "START") || time.Now().After(deadline) {
			t.Fatalf("after the crash: %v", err)
		}
	}
	b.stop()
}
