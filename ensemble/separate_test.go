package ensemble

import (
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func TestRowsThatMayDependOnEachOtherAreAskedAboutOneByOne(t *testing.T) {
	for _, test := range []struct {
		name        string
		fan         edgewise.EnsembleFanOut
		independent func(edgewise.ModelID) bool
		each        int
	}{
		{"nobody asks", edgewise.EnsembleFanOut{}, nil, 8},
		{"they do not", edgewise.EnsembleFanOut{}, func(edgewise.ModelID) bool { return true }, 8},
		{"they may", edgewise.EnsembleFanOut{}, func(edgewise.ModelID) bool { return false }, 1},
		{"the author says how many", edgewise.EnsembleFanOut{RowsPerRequest: 4}, func(edgewise.ModelID) bool { return false }, 4},
	} {
		z := newZoo(t)
		z.independent = test.independent
		z.add("m", 8, []string{"x:FP32[3]"}, []string{"y:FP32[3]"}, plus(0.5))
		e := fanned(z, "m", test.fan, []string{"x:FP32[-1,3]"}, []string{"y:FP32[-1,3]"}, names{"x": "x"})
		if got := e.graph.steps[0].fan.each; got != test.each {
			t.Errorf("%s: %d rows in a request, want %d", test.name, got, test.each)
		}
	}
}
