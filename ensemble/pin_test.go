package ensemble

import (
	"fmt"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// shelf is what is stored: versions with a digest of their own, and live labels.
type shelf map[string]*edgewise.Record

func (s shelf) record(name string) *edgewise.Record { return s[name] }

// put stores a version of m, and makes it live unless live is 0.
func (s shelf) put(m *edgewise.Model, version, live int64) *edgewise.Version {
	r := s[m.Name]
	if r == nil {
		r = &edgewise.Record{Name: m.Name}
		s[m.Name] = r
	}
	v := &edgewise.Version{
		ID: edgewise.ModelID{Name: m.Name, Version: version}, Model: m,
		Digest: edgewise.Digest(fmt.Sprintf("digest of %s %d", m.Name, version)),
	}
	r.Versions = append(r.Versions, v)
	r.Labels = nil
	if live != 0 {
		r.Labels = []edgewise.Label{{Name: edgewise.LiveLabel, Version: live}}
	}
	return v
}

// wrapper is an ensemble of one step.
func wrapper(name, inner string, version int64) *edgewise.Model {
	m := pipeline(0, one, y, stepOf(inner, names{"x": "x"}, names{"y": "y"}))
	m.Name = name
	m.EnsembleScheduling.Step[0].ModelVersion = version
	return m
}

func TestPin(t *testing.T) {
	s := shelf{}
	cat := model("cat", 0, one, y)
	s.put(cat, 1, 0)
	s.put(cat, 2, 0)
	s.put(cat, 3, 2)
	s.put(model("staged", 0, one, y), 1, 0)
	inner, _, err := Pin(wrapper("inner", "cat", -1), s.record)
	if err != nil {
		t.Fatal(err)
	}
	s.put(inner, 1, 1)
	around, _, err := Pin(wrapper("E", "inner", -1), s.record)
	if err != nil {
		t.Fatal(err)
	}
	s.put(around, 1, 1)
	pin := func(version int64, digest edgewise.Digest) func(*edgewise.Model) {
		return func(m *edgewise.Model) {
			m.EnsembleScheduling.Step[0].Pinned = &edgewise.EnsemblePin{Version: version, Digest: digest}
		}
	}
	for _, test := range []struct {
		name   string
		m      *edgewise.Model
		change func(*edgewise.Model)
		kind   edgewise.Kind
		want   string // the version, or the error without "in ensemble 'E', "
	}{
		{"the live version", wrapper("E", "cat", -1), nil, 0, `"cat" version 2`},
		{"a version by its number", wrapper("E", "cat", 3), nil, 0, `"cat" version 3`},
		{"another ensemble", wrapper("E", "inner", -1), nil, 0, `"inner" version 1`},
		{"what it is pinned to", wrapper("E", "cat", -1), pin(1, "digest of cat 1"), 0, `"cat" version 1`},
		{"what it is pinned to without a digest", wrapper("E", "cat", -1), pin(1, ""), 0, `"cat" version 1`},
		{"a digest of the live version", wrapper("E", "cat", -1), pin(0, "digest of cat 2"), 0, `"cat" version 2`},
		{
			"another digest", wrapper("E", "cat", -1), pin(1, "digest of cat 2"), edgewise.Conflict,
			"step 0: model 'cat' version 1 has the digest digest of ca, pinned is digest of ca",
		},
		{"two numbers", wrapper("E", "cat", 3), pin(1, ""), edgewise.Invalid, "step 0 (model 'cat'): model_version is 3, pinned is 1"},
		{"no such model", wrapper("E", "dog", -1), nil, edgewise.NotFound, "step 0: there is no model 'dog' on this box"},
		{"no such version", wrapper("E", "cat", 9), nil, edgewise.NotFound, "step 0: model 'cat' has no version 9"},
		{
			"no live version", wrapper("E", "staged", -1), nil, edgewise.Conflict,
			"step 0: model 'staged' has no live version: promote one, or name a version in model_version",
		},
		{"itself", wrapper("E", "E", -1), nil, edgewise.Invalid, "it contains itself: E -> E"},
		{"itself inside another", wrapper("inner", "E", -1), nil, edgewise.Invalid, "it contains itself: inner -> E -> inner"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.change != nil {
				test.change(test.m)
			}
			before := test.m.EnsembleScheduling.Step[0].Pinned
			m, parts, err := Pin(test.m, s.record)
			if test.m.EnsembleScheduling.Step[0].Pinned != before {
				t.Error("the model was changed")
			}
			if err != nil {
				if want := "in ensemble '" + test.m.Name + "', " + test.want; err.Error() != want || edgewise.KindOf(err) != test.kind {
					t.Errorf("got %v of kind %v, want %s", err, edgewise.KindOf(err), want)
				}
				return
			}
			p := m.EnsembleScheduling.Step[0].Pinned
			if got := parts[0].ID.String(); got != test.want || p.Version != parts[0].ID.Version || p.Digest != parts[0].Digest {
				t.Errorf("pinned to %s as %+v", got, p)
			}
			again, err := Parts(m, s.record)
			if err != nil || again[0] != parts[0] {
				t.Errorf("parts %v, %v", again, err)
			}
		})
	}
}

// TestEverythingThatIsWrongIsReportedAtOnce pins an ensemble with a fault of each kind.
func TestEverythingThatIsWrongIsReportedAtOnce(t *testing.T) {
	s := shelf{}
	s.put(model("cat", 0, []string{"x:FP32[-1]", "other:FP32[-1]"}, y), 1, 1)
	s.put(model("staged", 0, one, y), 1, 0)
	m := pipeline(0, []string{"x:INT64[-1]"}, []string{"y:FP32[-1]"},
		stepOf("cat", names{"x": "x"}, names{"y": "first"}),                 // the wrong type, and an input that is not mapped
		stepOf("dog", names{"x": "first"}, names{"y": "dog"}),               // no such model
		stepOf("staged", names{"x": "dog"}, names{"y": "staged"}),           // no live version
		stepOf("cat", names{"x": "b", "other": "dog"}, names{"y": "a"}),     // a circle
		stepOf("cat", names{"x": "a", "other": "dog"}, names{"y": "b"}),     //
		stepOf("cat", nil, names{"y": "y"}),                                 // no input_map
		stepOf("E", names{"x": "staged"}, names{"y": "inside"}),             // itself; and a tensor that nobody uses
		stepOf("cat", names{"x": "nowhere", "other": "x"}, names{"z": "z"}), // an output that the model does not have
	)
	m.EnsembleScheduling.Step[7].ModelVersion = 9 // no such version
	s.put(model("E", 0, one, y), 1, 1)
	_, _, err := Pin(m, s.record)
	wantProblems(t, err, []string{
		"step 5 (model 'cat'): input_map has 0 entries",
		"step 1: there is no model 'dog' on this box",
		"step 2: model 'staged' has no live version",
		"it contains itself: E -> E",
		"step 7: model 'cat' has no version 9",
		"no step makes tensor 'nowhere'",
		"steps wait for each other in a circle: step 3 (model 'cat')",
		"step 0 (model 'cat'): input 'other' of the model is missing in input_map",
		"tensor 'x': the ensemble takes it of type INT64",
	})
}

// TestOneKindOfProblemIsTheKindOfTheError has two steps that fail in the same way.
func TestOneKindOfProblemIsTheKindOfTheError(t *testing.T) {
	m := pipeline(0, one, y, stepOf("dog", names{"x": "x"}, names{"y": "mid"}), stepOf("bird", names{"x": "mid"}, names{"y": "y"}))
	_, _, err := Pin(m, shelf{}.record)
	want := "in ensemble 'E', step 0: there is no model 'dog' on this box\nin ensemble 'E', step 1: there is no model 'bird' on this box"
	if err == nil || err.Error() != want || edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("got %v", err)
	}
}

func TestNestingIsBounded(t *testing.T) {
	s := shelf{}
	s.put(model("m0", 0, one, y), 1, 1)
	for i := range MaxNesting + 2 {
		m, _, err := Pin(wrapper(fmt.Sprint("m", i+1), fmt.Sprint("m", i), -1), s.record)
		if i < MaxNesting {
			if err != nil {
				t.Fatal(err)
			}
			s.put(m, 1, 1)
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "in ensemble 'm9', more than 8 ensembles are inside each other: m9 -> m8 -> m7") {
			t.Errorf("%d ensembles: %v", i+1, err)
		}
		return
	}
}

// TestManyWaysToTheSameEnsemble has 2^7 of them: each ensemble is looked at once.
func TestManyWaysToTheSameEnsemble(t *testing.T) {
	s := shelf{}
	s.put(model("m0", 0, one, y), 1, 1)
	for i := range MaxNesting {
		inner := fmt.Sprint("m", i)
		m := pipeline(0, one, []string{"y:FP32[-1]", "z:FP32[-1]"}, stepOf(inner, names{"x": "x"}, names{"y": "y"}),
			stepOf(inner, names{"x": "x"}, names{"y": "z"}))
		m.Name = fmt.Sprint("m", i+1)
		looked := 0
		pinned, _, err := Pin(m, func(name string) *edgewise.Record {
			looked++
			return s[name]
		})
		if err != nil {
			t.Fatal(err)
		}
		if looked > 4+2*i {
			t.Errorf("%d records were looked at for %d ensembles", looked, i+1)
		}
		s.put(pinned, 1, 1)
	}
}

func TestPartsThatAreNotThereAnyMore(t *testing.T) {
	s := shelf{}
	s.put(model("cat", 0, one, y), 1, 1)
	m, _, err := Pin(wrapper("E", "cat", -1), s.record)
	if err != nil {
		t.Fatal(err)
	}
	check := func(m *edgewise.Model, want string) {
		t.Helper()
		if _, err := Parts(m, s.record); err == nil || err.Error() != "in ensemble 'E', "+want || edgewise.KindOf(err) != edgewise.Conflict {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	check(wrapper("E", "cat", -1), "step 0 (model 'cat') was never pinned: push the ensemble again")
	s["cat"].Versions[0].Digest = "another"
	check(m, "step 0: model 'cat' version 1 has the digest another, pinned is digest of ca")
	s["cat"].Versions = nil
	check(m, "step 0: model 'cat' has no version 1")
	delete(s, "cat")
	check(m, "step 0: there is no model 'cat' on this box")
}

// TestAnEnsembleIsDecoupledIfAStepIs follows the policy of a step through two ensembles.
func TestAnEnsembleIsDecoupledIfAStepIs(t *testing.T) {
	s := shelf{}
	s.put(decoupled(model("talker", 0, one, y)), 1, 1)
	s.put(model("cat", 0, one, y), 1, 1)
	inner, parts, err := Pin(wrapper("inner", "talker", -1), s.record)
	if err != nil || !inner.Decoupled() {
		t.Fatalf("the ensemble of a decoupled step is %+v: %v", inner, err)
	}
	if err := Validate(inner, ModelsOf(parts)); err != nil {
		t.Error(err)
	}
	s.put(inner, 1, 1)
	if around, _, err := Pin(wrapper("E", "inner", -1), s.record); err != nil || !around.Decoupled() {
		t.Errorf("the ensemble of that is %+v: %v", around, err)
	}
	if other, _, err := Pin(wrapper("E", "cat", -1), s.record); err != nil || other.Decoupled() {
		t.Errorf("an ensemble without a decoupled step is %+v: %v", other, err)
	}
}
