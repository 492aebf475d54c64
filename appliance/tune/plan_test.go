package tune

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/tune/search"
)

// partOf is a part whose configuration is text.
func partOf(t *testing.T, name, text string, step bool) *part {
	t.Helper()
	m := complete(t, text)
	m.Name = name
	one := &part{version: &edgewise.Version{ID: edgewise.ModelID{Name: name, Version: 3}, Model: m}, declared: []byte(text)}
	one.space, _ = newSpace([]byte(text), subject{model: m, independent: true, cores: 2, inProcess: true, step: step})
	return one
}

func TestACandidateOfAnEnsembleChangesThePartsThatItNames(t *testing.T) {
	const plain = "max_batch_size: 8\n"
	first, second := partOf(t, "first", plain, true), partOf(t, "second", plain, true)
	nothing := &part{version: &edgewise.Version{ID: edgewise.ModelID{Name: "third", Version: 1}}, declared: []byte("# as it is\n")}
	p := &plan{parts: []*part{first, nothing, second}, ensemble: true}
	if p.arrange(); len(p.axes) != 4 || p.axes[0].Name != "first: cores" || p.axes[3].Name != "second: batching" {
		t.Fatalf("%+v", p.axes)
	}
	list, err := p.changes(search.Candidate([]byte{0, 0, 0, 1}))
	if err != nil || len(list) != 1 || list[0].of != second.version || string(list[0].text) == plain {
		t.Errorf("%+v, %v", list, err)
	}
	if got := p.names(search.Candidate([]byte{1, 0, 0, 1})); len(got) != 2 || !strings.HasPrefix(got[0], "first: ") ||
		got[1] != "second: "+list[0].settings[0] {
		t.Errorf("%q", got)
	}
	for _, one := range p.parts {
		text, changed, err := one.configuration("")
		if err != nil || changed || !slices.Equal(text, one.declared) {
			t.Errorf("before the axes are known %s is %q, %v", one.version.ID, text, err)
		}
	}
}

func TestAGridHasEveryCombination(t *testing.T) {
	const text = "max_batch_size: 8\n"
	both, err := Grid([]byte(text), complete(t, text), edgewise.Format{}, 2, Cores, Batching)
	if err != nil {
		t.Fatal(err)
	}
	cores, err := Grid([]byte(text), complete(t, text), edgewise.Format{}, 2, Cores)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]bool{}
	for _, s := range both {
		texts[string(s.Text)] = true
	}
	batches := len(both) / len(cores)
	if len(both) != len(cores)*batches || batches < 5 || len(cores) < 4 || len(texts) != len(both) || string(both[0].Text) != text ||
		both[0].Name != "" {
		t.Errorf("%d of %d cores and %d batches, %d texts", len(both), len(cores), batches, len(texts))
	}
}

func TestAnEnsembleIsPinnedToWhatWasMeasured(t *testing.T) {
	const text = `# kept
platform: "ensemble"
ensemble_scheduling {
  step { model_name: "a" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "t" } }
  step { model_name: "b" model_version: -1 input_map { key: "x" value: "t" } output_map { key: "y" value: "u" }
    condition { tensor: "t" operator: GREATER value: 0.5 otherwise: STOP } fan_out { input: "x" max_rows: 64 } }
  step { model_name: "a" model_version: 2 input_map { key: "x" value: "u" } output_map { key: "y" value: "y" } }
}
`
	base := complete(t, text)
	for i, version := range []int64{4, 7, 2} {
		base.EnsembleScheduling.Step[i].Pinned = &edgewise.EnsemblePin{Version: version, Digest: "d"}
	}
	changed, err := repinned([]byte(text), base, map[edgewise.ModelID]int64{{Name: "a", Version: 4}: 9})
	if err != nil || !strings.Contains(string(changed), "# kept") {
		t.Fatalf("%s, %v", changed, err)
	}
	want := complete(t, text)
	for i, version := range []int64{9, 7, 2} {
		want.EnsembleScheduling.Step[i].ModelVersion = version
	}
	if got := complete(t, string(changed)); !sameSteps(got, want) {
		t.Errorf("%s", changed)
	}
}

func sameSteps(a, b *edgewise.Model) bool {
	return reflect.DeepEqual(object(*a.EnsembleScheduling), object(*b.EnsembleScheduling))
}
