package modelconfig

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func TestWhatDeclaresThatRequestsMayBeMerged(t *testing.T) {
	for _, test := range []struct{ config, want string }{
		{"", ""},
		{`max_batch_size: 0`, ""},
		{`max_batch_size: 8`, "max_batch_size 8"},
		{`dynamic_batching {}`, "dynamic_batching"},
		{`sequence_batching {}`, "sequence_batching"},
		{`instance_group [{count: 2}]`, ""},
	} {
		m, err := Parse("config.pbtxt", []byte(test.config))
		if err != nil {
			t.Fatal(err)
		}
		if got := Declared(m); !strings.HasSuffix(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%q: %q", test.config, got)
		}
	}
	if got := Declared(&edgewise.Model{MaxBatchSize: Unset}); got != "" {
		t.Errorf("no configuration: %q", got)
	}
}

func TestFirstDimensionsShareOneName(t *testing.T) {
	tensor := func(name string, dims ...string) edgewise.TensorInfo {
		return edgewise.TensorInfo{Name: name, Dims: dims}
	}
	optional := tensor("bias", "")
	optional.Optional = true
	for _, test := range []struct {
		name            string
		inputs, outputs []edgewise.TensorInfo
		want            string
	}{
		{
			"one name",
			[]edgewise.TensorInfo{tensor("x", "n", ""), tensor("y", "n")},
			[]edgewise.TensorInfo{tensor("z", "n")},
			"",
		},
		{"a default", []edgewise.TensorInfo{tensor("x", "n"), optional}, []edgewise.TensorInfo{tensor("z", "n")}, ""},
		{
			"a product",
			[]edgewise.TensorInfo{tensor("x", "a", "b"), tensor("y", "b", "c")},
			[]edgewise.TensorInfo{tensor("z", "a", "c")},
			`input "y" is named "b" in the model file, and that of input "x" "a"`,
		},
		{
			"another output",
			[]edgewise.TensorInfo{tensor("x", "n")},
			[]edgewise.TensorInfo{tensor("z", "m")},
			`output "z" is named "m"`,
		},
		{"no name", []edgewise.TensorInfo{tensor("x", "")}, []edgewise.TensorInfo{tensor("z", "")}, `input "x" has no name`},
		{"no shape", []edgewise.TensorInfo{tensor("x", "n")}, []edgewise.TensorInfo{tensor("z")}, `output "z" has no name`},
	} {
		if got := Unshared(&edgewise.Inspection{Inputs: test.inputs, Outputs: test.outputs}); !strings.Contains(got,
			test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: %q", test.name, got)
		}
	}
}
