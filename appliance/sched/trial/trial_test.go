package trial_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/trial"
)

func TestDataHasTheBytesOfItsType(t *testing.T) {
	small := trial.Range{Low: -1, High: 1, Integers: 2}
	large := trial.Range{High: 1, Integers: math.MaxInt64}
	for name, fill := range map[string]trial.Fill{
		"zeros": trial.Zeros, "one number": trial.Same(0.5),
		"small": trial.Random(rand.New(rand.NewPCG(1, 2)), small),
		"large": trial.Random(rand.New(rand.NewPCG(1, 2)), large),
	} {
		for _, kind := range edgewise.DataTypes() {
			if kind == edgewise.Bytes && name == "one number" {
				continue
			}
			in, err := trial.Tensor("x", kind, edgewise.Shape{3, 5}, 8*15, fill)
			if err != nil || in.Check() != nil || len(in.Data) > 8*15 {
				t.Errorf("%s of %v: %d bytes, %v, %v", name, kind, len(in.Data), err, in.Check())
			}
		}
	}
}

func TestInputsAreOfTheSizesThatAreAskedFor(t *testing.T) {
	m := &edgewise.Model{Name: "m", MaxBatchSize: 8, Input: []edgewise.ModelInput{
		{Name: "x", DataType: edgewise.FP32, Dims: edgewise.Shape{-1, 2}},
		{Name: "left out", DataType: edgewise.Bytes, Dims: edgewise.Shape{1}, Optional: true},
		{Name: "n", DataType: edgewise.Int16, Dims: edgewise.Shape{1}},
	}}
	inputs, err := trial.Inputs(m, trial.Size{Rows: 3, Open: 5, Bytes: 120}, trial.Same(1))
	if err != nil || len(inputs) != 2 {
		t.Fatal(inputs, err)
	}
	for i, want := range []edgewise.Tensor{
		{Name: "x", Shape: edgewise.Shape{3, 5, 2}, Data: bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, 30)},
		{Name: "n", Shape: edgewise.Shape{3, 1}, Data: bytes.Repeat([]byte{1, 0}, 3)},
	} {
		if in := inputs[i]; in.Name != want.Name || !in.Shape.Equal(want.Shape) || !bytes.Equal(in.Data, want.Data) {
			t.Errorf("input %d is %+v, want %+v", i, in, want)
		}
	}
	for _, test := range []struct {
		name string
		size trial.Size
		want string
	}{
		{
			"too large",
			trial.Size{Rows: 3, Open: 5, Bytes: 119},
			`[3,5,2] has a negative size or takes more than 119 bytes`,
		},
		{
			"too many",
			trial.Size{Rows: math.MaxInt64, Open: 5, Bytes: math.MaxInt64},
			`[9223372036854775807,5,2] has a negative`,
		},
		{"no open sizes", trial.Size{Rows: 3, Open: -1, Bytes: 120}, `[3,-1,2] has a negative size`},
	} {
		if _, err := trial.Inputs(m, test.size, trial.Zeros); err == nil || !strings.Contains(
			err.Error(), `input "x": shape `+test.want,
		) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
	m.Input[1].Optional = false
	size := trial.Size{Rows: 3, Open: 5, Bytes: 120}
	_, err = trial.Inputs(m, size, trial.Same(1))
	if want := `input "left out": text and files cannot be made up`; err == nil || err.Error() != want {
		t.Errorf("text: %v", err)
	}
}
