package warmup_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/warmup"
)

func TestWarmupRequests(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "warmup"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "warmup", "data"), []byte("12345678"), 0o644); err != nil {
		t.Fatal(err)
	}
	input := func(kind edgewise.DataType, dims ...int64) edgewise.WarmupInput {
		return edgewise.WarmupInput{DataType: kind, Dims: dims}
	}
	random, file, missing, escaping := input(edgewise.FP16, 2), input(edgewise.FP32, 2), input(edgewise.FP32,
		2), input(edgewise.FP32, 2)
	random.RandomData, file.InputDataFile, missing.InputDataFile, escaping.InputDataFile = true, "data", "none", "../x"
	tests := []struct {
		name     string
		maxBatch int32
		warmup   edgewise.ModelWarmup
		requests int
		shape    edgewise.Shape
		bytes    int
		err      string
	}{
		{
			"zeros", 0,
			edgewise.ModelWarmup{Inputs: map[string]edgewise.WarmupInput{"x": input(edgewise.FP32, 2, 3)}},
			1,
			edgewise.Shape{2, 3},
			24, "",
		},
		{"a batch, three times", 8, edgewise.ModelWarmup{
			BatchSize: 4, Count: 3,
			Inputs: map[string]edgewise.WarmupInput{"x": input(edgewise.FP64, 2)},
		}, 3, edgewise.Shape{4, 2}, 64, ""},
		{
			"empty strings", 0,
			edgewise.ModelWarmup{Inputs: map[string]edgewise.WarmupInput{"x": input(edgewise.Bytes, 3)}},
			1,
			edgewise.Shape{3},
			12, "",
		},
		{
			"random", 0,
			edgewise.ModelWarmup{Inputs: map[string]edgewise.WarmupInput{"x": random}},
			1,
			edgewise.Shape{2},
			4,
			"",
		},
		{
			"from a file", 0,
			edgewise.ModelWarmup{Inputs: map[string]edgewise.WarmupInput{"x": file}},
			1,
			edgewise.Shape{2},
			8,
			"",
		},
		{
			"file that is not there", 0,
			edgewise.ModelWarmup{Name: "w", Inputs: map[string]edgewise.WarmupInput{"x": missing}},
			0, nil, 0, `model "m": warm-up "w": input "x": open`,
		},
		{
			"file outside", 0,
			edgewise.ModelWarmup{Inputs: map[string]edgewise.WarmupInput{"x": escaping}},
			0, nil, 0,
			"want a clean path inside the model's folder",
		},
		{
			"too large", 0,
			edgewise.ModelWarmup{Inputs: map[string]edgewise.WarmupInput{"x": input(edgewise.FP32, 1<<40)}},
			0,
			nil, 0, "takes more than 1073741824 bytes",
		},
		{
			"negative", 0,
			edgewise.ModelWarmup{Inputs: map[string]edgewise.WarmupInput{"x": input(edgewise.FP32, -1)}},
			0, nil,
			0, "has a negative size",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := &edgewise.Model{Name: "m", MaxBatchSize: test.maxBatch, ModelWarmup: []edgewise.ModelWarmup{test.warmup}}
			requests, err := warmup.Requests(m, dir)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || edgewise.KindOf(err) != edgewise.Invalid {
					t.Errorf("got %v, want %s", err, test.err)
				}
				return
			}
			if err != nil || len(requests) != test.requests {
				t.Fatalf("%d requests, %v", len(requests), err)
			}
			in := requests[0].Inputs[0]
			if !in.Shape.Equal(test.shape) || len(in.Data) != test.bytes || in.Check() != nil {
				t.Errorf("input %v of %d bytes, %v", in.Shape, len(in.Data), in.Check())
			}
		})
	}
}

func TestSamplesAreRowsOfWarmups(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "warmup"), 0o755); err != nil {
		t.Fatal(err)
	}
	words := edgewise.AppendElement(edgewise.AppendElement(nil, "first"), "second")
	if err := os.WriteFile(filepath.Join(dir, "warmup", "words"), words, 0o600); err != nil {
		t.Fatal(err)
	}
	batch := edgewise.ModelWarmup{Name: "batch", BatchSize: 2, Count: 3, Inputs: map[string]edgewise.WarmupInput{
		"words":  {DataType: edgewise.Bytes, Dims: edgewise.Shape{1}, InputDataFile: "words"},
		"sound":  {DataType: edgewise.FP32, Dims: edgewise.Shape{3}, ZeroData: true},
		"length": {DataType: edgewise.Int64, Dims: edgewise.Shape{1}, ZeroData: true},
	}}
	picture := edgewise.ModelWarmup{Name: "picture", BatchSize: 1, Inputs: map[string]edgewise.WarmupInput{
		"pixels": {DataType: edgewise.Uint8, Dims: edgewise.Shape{16 << 20}, ZeroData: true},
	}}
	large := edgewise.ModelWarmup{Name: "large", BatchSize: 1, Inputs: map[string]edgewise.WarmupInput{
		"sound": {DataType: edgewise.FP32, Dims: edgewise.Shape{4<<20 + 1}, ZeroData: true},
	}}
	m := &edgewise.Model{Name: "m", MaxBatchSize: 4, ModelWarmup: []edgewise.ModelWarmup{large, batch, picture}}
	samples, err := warmup.Samples(m, dir)
	if err != nil || len(samples) != 2 || samples[0].ID != "batch" || samples[1].ID != "picture" {
		t.Fatalf("%d samples, %v", len(samples), err)
	}
	for _, in := range samples[0].Inputs {
		if in.Shape[0] != 1 || in.Check() != nil {
			t.Errorf("%s has shape %v: %v", in.Name, in.Shape, in.Check())
		}
		zeros := len(bytes.Trim(in.Data, "\x00")) == 0
		switch in.Name {
		case "words":
			if string(in.Data[4:]) != "first" {
				t.Errorf("words are %q", in.Data)
			}
		case "sound":
			if zeros {
				t.Error("the sound is zeros")
			}
		case "length":
			if !zeros {
				t.Error("the length is not what the warm-up says")
			}
		}
	}
	if in := batch.Inputs["sound"]; !in.ZeroData {
		t.Error("the configuration was changed")
	}

	m.ModelWarmup = slices.Repeat([]edgewise.ModelWarmup{batch}, 9)
	if samples, err = warmup.Samples(m, dir); err != nil || len(samples) != 8 {
		t.Errorf("%d samples, %v", len(samples), err)
	}
	m.ModelWarmup = []edgewise.ModelWarmup{{Name: "lost", BatchSize: 1, Inputs: map[string]edgewise.WarmupInput{
		"x": {DataType: edgewise.FP32, Dims: edgewise.Shape{1}, InputDataFile: "lost"},
	}}}
	if _, err = warmup.Samples(m, dir); edgewise.KindOf(err) != edgewise.Invalid {
		t.Error(err)
	}
	batch.BatchSize = 3
	m.ModelWarmup = []edgewise.ModelWarmup{batch}
	if _, err = warmup.Samples(m, dir); edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("a file of two rows for a batch of three: %v", err)
	}
}
