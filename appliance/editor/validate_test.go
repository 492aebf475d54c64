package editor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/ensemble"
)

const drafted = `{"platform": "ensemble", "max_batch_size": 0,
  "input": [{"name": "in", "data_type": "TYPE_FP32", "dims": [4]}],
  "output": [{"name": "out", "data_type": "TYPE_FP32", "dims": [4]}],
  "ensemble_scheduling": {"step": [
    {"model_name": "first", "input_map": {"x": "in"}, "output_map": {"y": "between"}},
    {"model_name": "second", "input_map": {"x": "between"}, "output_map": {"y": "out"}}]}}`

// judged returns the problems of drafted with a change, in which "whole" is a model of INT64 and "long" takes another
// shape, "asleep" has no live version, and "gone" is not stored.
func judged(t *testing.T, from, to string) []admin.DraftProblem {
	t.Helper()
	text := strings.Replace(drafted, from, to, 1)
	if text == drafted {
		t.Fatalf("%q is not in the draft", from)
	}
	declared, err := modelconfig.Parse(draftFile, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m, failed := modelconfig.Ensemble(declared, "E", modelconfig.Defaults{Formats: edgewise.Formats{ensemble.Format()}})
	if m == nil {
		t.Fatal(failed)
	}
	if failed != nil {
		return problems(failed)
	}
	_, _, failed = ensemble.Pin(m, func(name string) *edgewise.Record {
		data, dims := "TYPE_FP32", "[4]"
		switch name {
		case "gone":
			return nil
		case "whole":
			data = "TYPE_INT64"
		case "long":
			dims = "[4, 4]"
		}
		part, err := modelconfig.Parse(draftFile, fmt.Appendf(nil, `{"name": %q, "max_batch_size": 0,
			"input": [{"name": "x", "data_type": %q, "dims": %s}],
			"output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [4]}]}`, name, data, dims))
		if err != nil {
			t.Fatal(err)
		}
		v := &edgewise.Version{ID: edgewise.ModelID{Name: name, Version: 1}, Model: part}
		r := &edgewise.Record{Name: name, Versions: []*edgewise.Version{v}}
		if name != "asleep" {
			r.Labels = []edgewise.Label{{Name: edgewise.LiveLabel, Version: 1}}
		}
		return r
	})
	if failed == nil {
		t.Fatalf("nothing is wrong with %s", text)
	}
	return problems(failed)
}

func TestAProblemOfADraftSaysWhereItIs(t *testing.T) {
	for _, test := range []struct{ name, from, to, want string }{
		{"no output of the ensemble", `[{"name": "out", "data_type": "TYPE_FP32", "dims": [4]}]`, `[]`, "ensemble_output []"},
		{"an input is missing", `{"x": "between"}`, `{"z": "between"}`, "input_missing [x] step 1 input x"},
		{"no input", `{"x": "between"}`, `{}`, "no_inputs [] step 1"},
		{"no output", `{"y": "between"}`, `{}`, "no_outputs [] step 0"},
		{"an input without a reader", `{"x": "in"}`, `{"x": "out"}`, "input_unused [in] input in"},
		{"an output without a maker", `{"y": "out"}`, `{"y": "other"}`, "output_missing [out] output out"},
		{"a tensor without a maker", `{"x": "between"}`, `{"x": "other"}`, "tensor_missing [other] step 1 tensor other"},
		{"a tensor without a reader", `{"y": "out"}`, `{"y": "other"}`, "tensor_unused [other] step 1 tensor other"},
		{"another type", `"second"`, `"whole"`, "types_differ [between FP32 INT64] step 1 tensor between input x output y"},
		{"another shape", `"second"`, `"long"`, "shapes_differ [between [4] [4,4]] step 1 tensor between input x output y"},
		{"a circle", `{"x": "in"}`, `{"x": "out"}`, "circle [] step 0"},
		{"an unknown model", `"second"`, `"gone"`, "no_model [gone] step 1"},
		{"a model that is not live", `"second"`, `"asleep"`, "no_live_version [asleep] step 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, p := range judged(t, test.from, test.to) {
				got = append(got, described(p))
			}
			if !slices.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// described puts where a problem is into words.
func described(p admin.DraftProblem) string {
	text := fmt.Sprint(p.Code, " ", p.Names)
	if p.Step != nil {
		text += fmt.Sprint(" step ", *p.Step)
	}
	for _, end := range []struct{ what, name string }{{"tensor", p.Tensor}, {"input", p.Input}, {"output", p.Output}} {
		if end.name != "" {
			text += " " + end.what + " " + end.name
		}
	}
	return text
}
