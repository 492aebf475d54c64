package admin

import (
	"fmt"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func TestChangesThatClientsMayFailWith(t *testing.T) {
	tensor := func(name string, t edgewise.DataType, optional bool, dims ...int64) edgewise.ModelInput {
		return edgewise.ModelInput{Name: name, DataType: t, Dims: dims, Optional: optional}
	}
	for _, test := range []struct {
		name     string
		from, to []edgewise.ModelInput
		want     []Difference
	}{
		{
			"nothing",
			[]edgewise.ModelInput{tensor("x", edgewise.FP32, false, 4)},
			[]edgewise.ModelInput{tensor("x", edgewise.FP32, false, 4)},
			nil,
		},
		{
			"another shape",
			[]edgewise.ModelInput{tensor("x", edgewise.FP32, false, 4)},
			[]edgewise.ModelInput{tensor("x", edgewise.FP32, false, 8)},
			[]Difference{{What: "input x", Change: "changed", From: "FP32 [4]", To: "FP32 [8]", Breaking: true}},
		},
		{
			"an input became optional",
			[]edgewise.ModelInput{tensor("x", edgewise.FP32, false, 4)},
			[]edgewise.ModelInput{tensor("x", edgewise.FP32, true, 4)},
			[]Difference{{What: "input x", Change: "changed", From: "FP32 [4]", To: "FP32 [4], optional"}},
		},
		{
			"an input became required",
			[]edgewise.ModelInput{tensor("x", edgewise.FP32, true, 4)},
			[]edgewise.ModelInput{tensor("x", edgewise.FP32, false, 4)},
			[]Difference{{What: "input x", Change: "changed", From: "FP32 [4], optional", To: "FP32 [4]", Breaking: true}},
		},
		{
			"an optional input, and breaking ones first",
			[]edgewise.ModelInput{tensor("x", edgewise.FP32, true, 4), tensor("y", edgewise.FP32, false, 4)},
			[]edgewise.ModelInput{tensor("x", edgewise.FP32, true, 4), tensor("z", edgewise.FP32, true, 4)},
			[]Difference{
				{What: "input y", Change: "removed", From: "FP32 [4]", Breaking: true}, {What: "input z", Change: "added", To: "FP32 [4], optional"},
			},
		},
	} {
		got := SignatureChanges(&edgewise.Version{Model: &edgewise.Model{Input: test.from}},
			&edgewise.Version{Model: &edgewise.Model{Input: test.to}})
		if fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestOneResponseForManyIsABreakingChange, both ways: clients ask for them otherwise.
func TestOneResponseForManyIsABreakingChange(t *testing.T) {
	one := &edgewise.Version{Model: &edgewise.Model{}}
	many := &edgewise.Version{Model: &edgewise.Model{ModelTransactionPolicy: &edgewise.ModelTransactionPolicy{Decoupled: true}}}
	for _, pair := range [][2]*edgewise.Version{{one, many}, {many, one}} {
		if got := SignatureChanges(pair[0], pair[1]); len(got) != 1 || !got[0].Breaking || got[0].What != "decoupled" {
			t.Errorf("%+v", got)
		}
	}
	if got := SignatureChanges(many, many); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestSignatureChangesAreBounded(t *testing.T) {
	var many edgewise.Model
	for i := range 2 * maxSignatureChanges {
		many.Output = append(many.Output, edgewise.ModelOutput{Name: fmt.Sprint("y", i), DataType: edgewise.FP32})
	}
	got := SignatureChanges(&edgewise.Version{Model: &many}, &edgewise.Version{Model: &edgewise.Model{}})
	if len(got) != maxSignatureChanges {
		t.Errorf("%d changes", len(got))
	}
}
