package sdk

import (
	"bytes"
	"context"
	"encoding/binary"
	"image"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/step"
)

// gallery builds and loads a step of the gallery.
func gallery(t testing.TB, name string, models edgewise.Inferer) *step.Loaded {
	t.Helper()
	return loaded(t, built(t, filepath.Join("../../sdk/gallery", name)), models)
}

// parameters of a request, as name, value, name, value.
type parameters []any

// run asks a step, which must answer, and returns copies of its outputs by name.
func run(t testing.TB, l edgewise.Inferer, p parameters, inputs ...edgewise.Tensor) map[string]edgewise.Tensor {
	t.Helper()
	outputs, err := try(t.Context(), l, p, inputs...)
	if err != nil {
		t.Fatal(err)
	}
	return outputs
}

func try(ctx context.Context, l edgewise.Inferer, p parameters, inputs ...edgewise.Tensor) (map[string]edgewise.Tensor, error) {
	req := &edgewise.Request{Inputs: inputs, Parameters: map[string]any{}}
	for i := 0; i < len(p); i += 2 {
		req.Parameters[p[i].(string)] = p[i+1]
	}
	response, err := l.Infer(ctx, req)
	if err != nil {
		return nil, err
	}
	defer response.Release()
	outputs := map[string]edgewise.Tensor{}
	for _, o := range response.Outputs {
		o.Data = bytes.Clone(o.Data)
		outputs[o.Name] = o
	}
	return outputs, nil
}

// refuses checks that a step fails with a message.
func refuses(t *testing.T, l edgewise.Inferer, p parameters, message string, inputs ...edgewise.Tensor) {
	t.Helper()
	_, err := try(t.Context(), l, p, inputs...)
	if err == nil || !strings.Contains(err.Error(), message) || edgewise.KindOf(err) != edgewise.Guest {
		t.Errorf("the error is %v: want one with %q", err, message)
	}
}

func integers(t edgewise.Tensor) []int32 {
	v := make([]int32, len(t.Data)/4)
	for i := range v {
		v[i] = int32(binary.LittleEndian.Uint32(t.Data[4*i:]))
	}
	return v
}

func texts(t edgewise.Tensor) []string {
	var all []string
	for e := range edgewise.Elements(t.Data) {
		all = append(all, string(e))
	}
	return all
}

// same checks that two lists are as long, and their elements at most off apart; a few may be further, up to far, as
// where a sum lies between two whole numbers.
func same(t *testing.T, what string, got, want []float32, off, far float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	strays := 0
	for i := range want {
		d := math.Abs(float64(got[i] - want[i]))
		if math.IsNaN(d) || d > far {
			t.Fatalf("%s: value %d is %v, want %v", what, i, got[i], want[i])
		}
		if d > off {
			strays++
		}
	}
	if strays > len(want)/1000 {
		t.Errorf("%s: %d of %d values are more than %v off", what, strays, len(want), off)
	}
}

func encoded(t testing.TB, picture image.Image) []byte {
	t.Helper()
	file, err := pngFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// A decoupled step answers its cases with all its responses behind each other.
func TestTheWordsOfATextAreAStream(t *testing.T) {
	passes(t, gallery(t, "words", nil), "../../sdk/gallery/words/golden")
}
