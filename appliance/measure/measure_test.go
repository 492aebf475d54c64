package measure

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/scalar"
)

// fake is a candidate in virtual time.
type fake struct {
	name        string
	load        time.Duration
	loading     error
	row, fixed  time.Duration // of a run: for each row, and beside that
	off         float64       // by how much its answer is wrong
	crashes     int           // the run in which it ends; 0: none
	hangs       bool          // its runs take for ever
	ragged      bool          // its answer has another shape
	runs, loads int
	book        *book
}

// book counts what is loaded.
type book struct{ now, most int }

func (f *fake) candidate(b *book) Candidate {
	f.book = b
	return Candidate{Device: f.name, Load: func(ctx context.Context) (Subject, error) {
		select {
		case <-time.After(f.load):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if f.loading != nil {
			return nil, f.loading
		}
		f.loads++
		b.now++
		b.most = max(b.most, b.now)
		return f, nil
	}}
}

func (f *fake) Close() error {
	f.book.now--
	return nil
}

func (f *fake) Run(
	ctx context.Context, in []edgewise.Tensor,
) (out []edgewise.Tensor, took time.Duration, free func(), err error) {
	f.runs++
	if f.runs == f.crashes {
		return nil, 0, nil, edgewise.Errorf("fake", edgewise.Unavailable, "its process died (signal: killed)")
	}
	took = f.fixed + time.Duration(in[0].Shape[0])*f.row
	if f.hangs {
		took = time.Hour
	}
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return nil, 0, nil, ctx.Err()
	}
	y := edgewise.Tensor{Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{2}}
	if f.ragged {
		y.Shape = edgewise.Shape{1, 2}
	}
	y.Data = scalar.AppendFloat(scalar.AppendFloat(nil, edgewise.FP32, 10), edgewise.FP32, 1+f.off)
	return []edgewise.Tensor{y}, took, func() {}, nil
}

func sample(rows int) Sample {
	return Sample{Rows: rows, Timed: true, Inputs: []edgewise.Tensor{{Name: "x", Shape: edgewise.Shape{int64(rows)}}}}
}

func samples(context.Context, Subject) ([]Sample, string, error) {
	return []Sample{sample(1), sample(8)}, "generated", nil
}

const ms = time.Millisecond

func TestTheFastestOfThoseThatAnswerAlikeIsChosen(t *testing.T) {
	slow := func() *fake { return &fake{name: "cpu", row: 8 * ms} }
	for _, test := range []struct {
		name    string
		others  []*fake
		chosen  string
		states  string
		reasons []string // of the candidates behind the first, in part
	}{
		{"a faster device", []*fake{{name: "gpu:0", row: 4 * ms}}, "gpu:0", "slower chosen", []string{""}},
		{"a slower device", []*fake{{name: "gpu:0", row: 9 * ms}}, "cpu", "chosen slower", []string{""}},
		{"an equal device", []*fake{{name: "gpu:0", row: 8 * ms}}, "cpu", "chosen slower", []string{""}},
		{"one that is hardly faster", []*fake{{name: "gpu:0", row: 7800 * time.Microsecond}}, "cpu", "chosen slower", []string{""}},
		{
			"slower with one row and much faster with eight",
			[]*fake{{name: "gpu:0", fixed: 10 * ms, row: ms / 10}},
			"gpu:0", "slower chosen",
			[]string{""},
		},
		{
			"faster with one row and slower with eight",
			[]*fake{{name: "gpu:0", fixed: -10 * ms, row: 17 * ms}},
			"cpu", "chosen slower",
			[]string{""},
		},
		{
			"the fastest of three",
			[]*fake{{name: "gpu:0", row: 4 * ms}, {name: "vulkan:0", row: 2 * ms}, {name: "vulkan:1", row: 3 * ms}},
			"vulkan:0", "slower slower chosen slower",
			[]string{"", "", ""},
		},
		{
			"wrong answers",
			[]*fake{{name: "gpu:0", row: ms, off: 0.05}},
			"cpu", "chosen wrong",
			[]string{`output "y" differs by up to 0.05, and 0.03 is allowed`},
		},
		{"answers within the tolerance", []*fake{{name: "gpu:0", row: ms, off: 0.02}}, "gpu:0", "slower chosen", []string{""}},
		{
			"an answer of another shape",
			[]*fake{{name: "gpu:0", row: ms, ragged: true}},
			"cpu", "chosen wrong",
			[]string{"the shape is [1,2], want [2]"},
		},
		{
			"a crash in the first run",
			[]*fake{{name: "gpu:0", row: ms, crashes: 1}},
			"cpu", "chosen failed",
			[]string{"its process died"},
		},
		{
			"a crash in a race",
			[]*fake{{name: "gpu:0", row: ms, crashes: 6}},
			"cpu", "chosen failed",
			[]string{"its process died"},
		},
		{
			"a run that hangs, and a device behind it",
			[]*fake{{name: "gpu:0", hangs: true}, {name: "gpu:1", row: ms}},
			"gpu:1", "slower failed chosen",
			[]string{"it took longer than 20s", ""},
		},
		{
			"a load that hangs",
			[]*fake{{name: "gpu:0", load: time.Hour}},
			"cpu", "chosen failed",
			[]string{"it took longer than 20s"},
		},
		{
			"no memory",
			[]*fake{{name: "gpu:0", loading: edgewise.Errorf("x", edgewise.Exhausted, "it takes 9 bytes of gpu:0")}},
			"cpu", "chosen not_tried",
			[]string{"it takes 9 bytes of gpu:0"},
		},
		{
			"an operator that is missing",
			[]*fake{{name: "gpu:0", loading: edgewise.Errorf("x", edgewise.Unsupported, "no kernel for Foo")}},
			"cpu", "chosen failed",
			[]string{"no kernel for Foo"},
		},
		{
			"the best one crashes while another one is tried",
			[]*fake{{name: "gpu:0", row: ms, crashes: 14}, {name: "gpu:1", row: 2 * ms}},
			"gpu:1", "slower failed chosen",
			[]string{"its process died", ""},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &book{}
				list := []Candidate{slow().candidate(b)}
				for _, f := range test.others {
					list = append(list, f.candidate(b))
				}
				begin := time.Now()
				found, winner, err := Trial{Samples: samples, Limit: 20 * time.Second}.Run(t.Context(), list)
				if err != nil {
					t.Fatal(err)
				}
				var states []string
				for _, c := range found.Candidates {
					states = append(states, c.State)
				}
				if got := strings.Join(states, " "); found.Device != test.chosen || got != test.states ||
					winner.(*fake).name != test.chosen {
					t.Errorf("%s is chosen, %s: %v", found.Device, got, found)
				}
				for i, want := range test.reasons {
					if got := found.Candidates[i+1].Reason; (want == "") != (got == "") || !strings.Contains(got, want) {
						t.Errorf("%s: reason %q, want %q", found.Candidates[i+1].Device, got, want)
					}
				}
				if b.now != 1 || b.most > 2 {
					t.Errorf("%d candidates are loaded, and %d were at a time", b.now, b.most)
				}
				if took := time.Since(begin); took > time.Duration(len(test.others))*21*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestATrialWithoutAReferenceChoosesWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{}
		broken := &fake{name: "cpu", loading: edgewise.Errorf("x", edgewise.Unsupported, "no kernel for Foo")}
		hangs, works := &fake{name: "gpu:0", load: time.Hour}, &fake{name: "gpu:1"}
		list := []Candidate{broken.candidate(b), hangs.candidate(b), works.candidate(b)}
		found, _, err := Trial{Samples: samples, Limit: time.Second}.Run(t.Context(), list)
		if err != nil || found.Device != "gpu:1" || found.Candidates[0].State != admin.CandidateFailed ||
			!strings.Contains(found.Reason, "nothing to compare with") {
			t.Errorf("%+v, %v", found, err)
		}
		_, _, err = Trial{Samples: samples, Limit: time.Second}.Run(t.Context(), list[:2])
		if edgewise.KindOf(err) != edgewise.Unsupported || b.now != 1 {
			t.Errorf("%v, %d loaded", err, b.now)
		}
	})
}

func TestWhereNothingCanBeComparedTheReferenceServes(t *testing.T) {
	b := &book{}
	first, other := &fake{name: "cpu"}, &fake{name: "gpu:0"}
	none := func(context.Context, Subject) ([]Sample, string, error) {
		return nil, "", errors.New("no text can be made up")
	}
	found, _, err := Trial{Samples: none, Limit: time.Second}.Run(
		t.Context(), []Candidate{first.candidate(b), other.candidate(b)},
	)
	if err != nil || found.Device != "cpu" || other.loads != 0 || !strings.Contains(found.Reason, "no text") {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestATrialThatIsGivenUpLeavesNothingLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{}
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		first, other := &fake{name: "cpu", row: ms}, &fake{name: "gpu:0", row: 50 * ms}
		_, _, err := Trial{Samples: samples, Limit: time.Minute}.Run(ctx, []Candidate{first.candidate(b), other.candidate(b)})
		if !errors.Is(err, context.DeadlineExceeded) || b.now != 0 {
			t.Errorf("%v, %d loaded", err, b.now)
		}
	})
}

func TestFiguresHaveTheIntervalOfTheMedian(t *testing.T) {
	runs := make([]time.Duration, 0, 25)
	for i := range 25 {
		runs = append(runs, time.Duration(i+1)*ms)
	}
	for _, test := range []struct {
		n              int
		mid, low, high float64
	}{{1, 1, 1, 1}, {2, 1.5, 1, 2}, {5, 3, 1, 5}, {10, 5.5, 2, 9}, {25, 13, 8, 18}} {
		f := FigureOf(1, runs[:test.n])
		if f.Milliseconds != test.mid || f.Low != test.low || f.High != test.high || f.Runs != test.n {
			t.Errorf("%d runs: %+v, want %+v", test.n, f, test)
		}
	}
}

func TestOutputsNearZeroDifferByTheirRounding(t *testing.T) {
	output := func(v float64) []edgewise.Tensor {
		return []edgewise.Tensor{{
			Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{1}, Data: scalar.AppendFloat(nil, edgewise.FP32, v),
		}}
	}
	if _, wrong := (Trial{}).differences(output(3e-7), output(2.7e-7)); wrong != nil {
		t.Error(wrong)
	}
	if _, wrong := (Trial{}).differences(output(0), output(4e-6)); wrong == nil {
		t.Error("a difference beyond the tolerance of the least magnitude was allowed")
	}
}

func TestNoiseDecidesNothing(t *testing.T) {
	wide := []admin.Figure{{Milliseconds: 10, Low: 4, High: 16}}
	if faster, _ := Decide(wide, []admin.Figure{{Milliseconds: 8, Low: 3, High: 15}}); faster {
		t.Error("medians within each other's intervals decided")
	}
	if faster, gain := Decide(wide, []admin.Figure{{Milliseconds: 2.5, Low: 2, High: 3}}); !faster || gain < 3.99 || gain > 4.01 {
		t.Error(faster, gain)
	}
}

func TestAChoiceReadsAsOneLine(t *testing.T) {
	c := admin.Choice{Device: "vulkan:0", Candidates: []admin.ChoiceCandidate{
		{Device: "cpu", State: admin.CandidateSlower, Figures: []admin.Figure{{Rows: 1, Milliseconds: 8.1}, {Rows: 8, Milliseconds: 61.04}}},
		{Device: "gpu:0", State: admin.CandidateNotTried, Reason: "no room"},
		{Device: "vulkan:0", State: admin.CandidateChosen, Figures: []admin.Figure{{Rows: 1, Milliseconds: 3.9}}},
	}}
	if got := c.String(); got != "cpu 8.1 ms and 61 ms for 8, gpu:0 not tried: no room, vulkan:0 3.9 ms, vulkan:0 is chosen" {
		t.Error(got)
	}
}

func TestACheckUnloadsItsReferenceBeforeItCompares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{}
		reference := &fake{name: "cpu", row: ms}
		check, err := Trial{Samples: samples, Tolerance: 0.01}.Check(t.Context(), reference.candidate(b))
		if err != nil || b.now != 0 {
			t.Fatalf("%d are loaded, %v", b.now, err)
		}
		right, wrong := &fake{off: 0.05}, &fake{off: 0.2} // of outputs up to 10
		if err := check.Compare(t.Context(), "gpu:0", "a card", right); err != nil {
			t.Error(err)
		}
		err = check.Compare(t.Context(), "gpu:1", "a card", wrong)
		if err == nil || err.Error() != `output "y" differs by up to 0.2, and 0.1 is allowed` {
			t.Error(err)
		}
		found := check.Found()
		var states []string
		for _, c := range found.Candidates {
			states = append(states, c.Device+" "+c.State)
		}
		if strings.Join(states, ", ") != "cpu reference, gpu:0 chosen, gpu:1 wrong" || found.Device != "gpu:0" || found.Inputs != "generated" {
			t.Errorf("%v, %+v", states, found)
		}
	})
}

func TestACheckSaysWhyThereIsNoReference(t *testing.T) {
	for name, reference := range map[string]*fake{
		"it does not load": {loading: errors.New("no kernel")}, "a run fails": {crashes: 1},
	} {
		b := &book{}
		if _, err := (Trial{Samples: samples}).Check(t.Context(), reference.candidate(b)); err == nil || b.now != 0 {
			t.Errorf("%s: %v, and %d are loaded", name, err, b.now)
		}
	}
}
