package rollout

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/manager"
)

// named returns the number of a version, with the plan in its configuration.
func (d *disk) named(version int64, plan string) edgewise.ModelID {
	v := d.record.Version(version)
	v.Model.Parameters = map[string]edgewise.ModelParam{Parameter: {StringValue: plan}}
	return v.ID
}

func TestUploadedVersionsGoLiveByTheirPlan(t *testing.T) {
	percents := func(r admin.Rollout) (list []float64) {
		for _, s := range r.Plan.Stages {
			list = append(list, s.Percent)
		}
		return list
	}
	ofTheModel := admin.RolloutPlan{Stages: []admin.RolloutStage{{Percent: 7, Requests: 100}}}
	for name, test := range map[string]struct {
		plan   *admin.RolloutPlan // of the model
		own    string             // of the version
		change func(d *disk)
		staged bool
		want   []float64
	}{
		"without a plan":        {},
		"the plan of the model": {plan: &ofTheModel, staged: true, want: []float64{7}},
		"that of the version":   {own: `{"stages":[{"percent":9,"requests":50}]}`, staged: true, want: []float64{9}},
		"that of the version before the other": {
			plan: &ofTheModel, own: `{"stages":[{"percent":9,"requests":50}]}`, staged: true, want: []float64{9},
		},
		"the presets":         {own: "{}", staged: true, want: []float64{5, 25, 50}},
		"the first version":   {plan: &ofTheModel, change: func(d *disk) { d.record.Labels = nil }},
		"an unloaded model":   {plan: &ofTheModel, change: func(d *disk) { d.record.Wanted = false }},
		"the version is live": {plan: &ofTheModel, change: func(d *disk) { d.record.Labels[0].Version = 2 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDisk()
				if test.own != "" {
					d.named(2, test.own)
				}
				if test.change != nil {
					test.change(d)
				}
				b, s, stop := d.open(t)
				defer stop()
				if _, err := s.Configure("m", admin.RolloutSettings{Plan: test.plan}); err != nil {
					t.Fatal(err)
				}
				staged, err := s.Stage(t.Context(), edgewise.ModelID{Name: "m", Version: 2})
				if staged != test.staged || err != nil {
					t.Fatal(staged, err)
				}
				r, err := s.Get("m")
				if got := percents(r); !reflect.DeepEqual(got, test.want) || (err == nil) != staged {
					t.Errorf("the stages are %v, %v", got, err)
				}
				if staged && b.split().Version != 2 {
					t.Errorf("the split is %+v", b.split())
				}
			})
		})
	}
}

func TestAVersionThatCannotBeRolledOutDoesNotGoLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s, stop := newDisk().open(t)
		defer stop()
		if _, err := s.Configure("m", admin.RolloutSettings{Plan: &admin.RolloutPlan{}}); err != nil {
			t.Fatal(err)
		}
		b.wrong = map[int64]bool{2: true}
		if staged, err := s.Stage(t.Context(), edgewise.ModelID{Name: "m", Version: 2}); !staged || err == nil {
			t.Errorf("one that fails its goldens: %v, %v", staged, err)
		}
		if b.live() != 1 || b.split() != (manager.Split{}) {
			t.Errorf("version %d is live, the split is %+v", b.live(), b.split())
		}
	})
}

func TestSettingsOutliveTheProcessAndGoWithTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		_, s, stop := d.open(t)
		saved, err := s.Configure("m", admin.RolloutSettings{Plan: &admin.RolloutPlan{}})
		if err != nil || len(saved.Plan.Stages) != 3 || *saved.Plan.WatchSeconds != 3600 {
			t.Errorf("the presets are not shown: %+v, %v", saved, err)
		}
		stop()
		_, s, stop = d.open(t)
		defer stop()
		if found, err := s.Settings("m"); err != nil || !reflect.DeepEqual(found, saved) {
			t.Errorf("after a start: %+v, %v", found, err)
		}
		if err := CheckSettingsDocument("m", d.docs[SettingsBucket+"/m"]); err != nil {
			t.Error(err)
		}
		if err := RenameModel(tx{docs: d.docs}, "m", "n"); err != nil || d.docs[SettingsBucket+"/n"] == nil {
			t.Error("the plan was not renamed", err)
		}
		if err := RenameModel(tx{docs: d.docs}, "n", "m"); err != nil {
			t.Error(err)
		}
		s.Forget("m")
		if found, err := s.Settings("m"); err != nil || found.Plan != nil {
			t.Errorf("after the model was deleted: %+v, %v", found, err)
		}
		if _, err := s.Settings("unknown"); edgewise.KindOf(err) != edgewise.NotFound {
			t.Errorf("of an unknown model: %v", err)
		}
	})
}

func TestPlansThatCannotBeUsedAreRefusedWhereTheyAreWritten(t *testing.T) {
	for text, reason := range map[string]string{
		"":                     "want a plan as JSON",
		"auto":                 "want a plan as JSON",
		"{} {}":                "something follows",
		`{"stagse":[]}`:        "stagse",
		`{"version":3}`:        "names none",
		`{"watch_seconds":-1}`: "watch_seconds",
		`{"sticky":"` + strings.Repeat("x", maxPlan) + `"}`: "at most",
	} {
		m := &edgewise.Model{Parameters: map[string]edgewise.ModelParam{Parameter: {StringValue: text}}}
		if err := CheckModel(m); edgewise.KindOf(err) != edgewise.Invalid || !strings.Contains(err.Error(), reason) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if err := CheckModel(&edgewise.Model{}); err != nil {
		t.Error(err)
	}
	seconds := int64(-1)
	synctest.Test(t, func(t *testing.T) {
		_, s, stop := newDisk().open(t)
		defer stop()
		for name, plan := range map[string]admin.RolloutPlan{"a version": {Version: 2}, "a bound": {WatchSeconds: &seconds}} {
			if _, err := s.Configure("m", admin.RolloutSettings{Plan: &plan}); edgewise.KindOf(err) != edgewise.Invalid {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
