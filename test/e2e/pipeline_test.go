package e2e

import (
	"encoding/json"
	"math"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/edgewise-ai/edgewise/test/real"
)

// TestPipelines asks the demo's pipelines, which begin and end with WebAssembly steps, with files as they are.
func TestPipelines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := serveReady(t, dir, "--import", real.Models(t), "--import", real.Pipelines(t))
	t.Run("text of the sample", func(t *testing.T) {
		b.wantPipedText(t, sample(t, "text.png"), "HELLO EDGE 2026", "Read on this box, not in a cloud.", "Total", "42.50", "serial EW-7731")
	})
	t.Run("text drawn now", func(t *testing.T) {
		b.wantPipedText(t, drawnText(t), "Pump 9 overheats", "pressure 318 kPa", "CALL 0621-4477")
	})
	t.Run("picture without text", func(t *testing.T) { b.wantPipedText(t, gradient(t)) })
	t.Run("faces of the sample", func(t *testing.T) { b.wantPipedFaces(t, sample(t, "face.jpg"), face{224, 125, 105}) })
	t.Run("face in another place", func(t *testing.T) {
		path, where := movedFace(t)
		b.wantPipedFaces(t, path, where)
	})
	t.Run("picture without a face", func(t *testing.T) { b.wantPipedFaces(t, gradient(t)) })
	t.Run("speech of the sample", func(t *testing.T) {
		b.wantPipedSpeech(t, sample(t, "speech.wav"), 0.05, segment{0.93, 2.72}, segment{3.91, 5.28})
	})
	t.Run("speech synthesised now", func(t *testing.T) {
		path, spoken := spokenSentence(t)
		b.wantPipedSpeech(t, path, 0.25, spoken)
	})
	t.Run("silence", func(t *testing.T) { b.wantPipedSpeech(t, writeSound(t, make([]float64, 3*soundRate)), 0) })
	t.Run("files that are something else", func(t *testing.T) {
		for model, file := range map[string]string{"text": "speech.wav", "faces": "speech.wav", "speech": "face.jpg"} {
			status, text := b.pipe(t, model, sample(t, file))
			if status != http.StatusUnprocessableEntity {
				t.Errorf("%s of %s: %d %s", model, file, status, text)
			}
			contains(t, model, text, `"code":"guest"`)
		}
	})
	b.stop()
	wantHealthy(t, dir)
}

// pipe sends a file as it is.
func (b *box) pipe(t *testing.T, model, path string) (status int, text string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kind := "image/png"
	if model == "speech" {
		kind = "audio/wav"
	}
	return b.send(http.MethodPost, "/v2/models/"+model+"/infer", data, "Content-Type", kind)
}

// piped decodes the outputs of a pipeline, by name.
func piped(t *testing.T, b *box, model, path string) map[string]json.RawMessage {
	t.Helper()
	status, text := b.pipe(t, model, path)
	var answer struct {
		Outputs []struct {
			Name string
			Data json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d %s", model, status, text)
	}
	outputs := map[string]json.RawMessage{}
	for _, o := range answer.Outputs {
		outputs[o.Name] = o.Data
	}
	return outputs
}

func decoded[T any](t *testing.T, raw json.RawMessage) (value T) {
	t.Helper()
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return value
}

func (b *box) wantPipedText(t *testing.T, path string, want ...string) {
	t.Helper()
	outputs := piped(t, b, "text", path)
	if got := decoded[[]string](t, outputs["text"]); !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	if quads := decoded[[]float64](t, outputs["quad"]); len(quads) != 8*len(want) {
		t.Errorf("%d corners' coordinates for %d lines", len(quads), len(want))
	}
	for _, c := range decoded[[]float64](t, outputs["confidence"]) {
		if c < 0.8 || c > 1 {
			t.Errorf("confidence %v", c)
		}
	}
}

// wantPipedFaces compares the middles of boxes within a tenth of their sides, and the sides within three.
func (b *box) wantPipedFaces(t *testing.T, path string, want ...face) {
	t.Helper()
	outputs := piped(t, b, "faces", path)
	boxes := decoded[[]float64](t, outputs["box"])
	if len(boxes) != 4*len(want) {
		t.Fatalf("boxes %v, want %+v", boxes, want)
	}
	for i, w := range want {
		low, high := boxes[4*i:4*i+2], boxes[4*i+2:4*i+4]
		got := face{(low[0] + high[0]) / 2, (low[1] + high[1]) / 2, high[0] - low[0]}
		near := w.side / 10
		if math.Abs(got.x-w.x) > near || math.Abs(got.y-w.y) > near || math.Abs(got.side-w.side) > 3*near {
			t.Errorf("face %d is %+v, want %+v", i, got, w)
		}
	}
}

func (b *box) wantPipedSpeech(t *testing.T, path string, tolerance float64, want ...segment) {
	t.Helper()
	outputs := piped(t, b, "speech", path)
	starts, ends := decoded[[]float64](t, outputs["start"]), decoded[[]float64](t, outputs["end"])
	if len(starts) != len(want) || len(ends) != len(want) {
		t.Fatalf("speech from %v to %v, want %v", starts, ends, want)
	}
	for i, w := range want {
		if math.Abs(starts[i]-w.Start) > tolerance || math.Abs(ends[i]-w.End) > tolerance {
			t.Errorf("stretch %d is %v to %v, want %v within %v s", i, starts[i], ends[i], w, tolerance)
		}
	}
}
