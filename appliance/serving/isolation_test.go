package serving

import (
	"context"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// place is a backend that notes that it was asked to load.
type place struct {
	edgewise.Backend
	asked int
}

func (p *place) Load(context.Context, *edgewise.Version, string, edgewise.Device) (edgewise.Instance, error) {
	p.asked++
	return nil, nil
}

func TestModelsRunWhereTheBoxAndTheyThemselvesPutThem(t *testing.T) {
	for _, test := range []struct {
		policy, wish    string
		inside, outside int
		kind            edgewise.Kind
	}{
		{config.IsolationProcess, "", 0, 1, 0},
		{config.IsolationProcess, "process", 0, 1, 0},
		{config.IsolationProcess, "none", 0, 0, edgewise.Unsupported},
		{config.IsolationModel, "", 0, 1, 0},
		{config.IsolationModel, "process", 0, 1, 0},
		{config.IsolationModel, "none", 1, 0, 0},
		{config.IsolationNone, "", 1, 0, 0},
		{config.IsolationNone, "process", 0, 1, 0},
		{config.IsolationNone, "none", 1, 0, 0},
		{config.IsolationProcess, "group:cameras", 0, 0, edgewise.Unsupported},
		{config.IsolationModel, "group:cameras", 0, 1, 0},
		{config.IsolationNone, "group:cameras", 0, 1, 0},
	} {
		inside, outside := &place{}, &place{}
		i := &isolation{inside, outside, test.policy}
		m := &edgewise.Model{Parameters: map[string]edgewise.ModelParam{"isolation": {StringValue: test.wish}}}
		_, err := i.Load(t.Context(), &edgewise.Version{Model: m}, "", edgewise.Device{})
		if inside.asked != test.inside || outside.asked != test.outside || (err != nil) != (test.kind != 0) || err != nil &&
			edgewise.KindOf(err) != test.kind {
			t.Errorf("%+v: %d inside, %d outside, error %v", test, inside.asked, outside.asked, err)
		}
	}
}

func TestAModelOnAGPUSharesNoProcess(t *testing.T) {
	inside, outside := &place{}, &place{}
	i := &isolation{inside, outside, config.IsolationModel}
	for _, test := range []struct {
		wish    string
		outside int
		kind    edgewise.Kind
	}{{"group:cameras", 0, edgewise.Unsupported}, {"none", 1, 0}} {
		outside.asked = 0
		m := &edgewise.Model{Parameters: map[string]edgewise.ModelParam{"isolation": {StringValue: test.wish}}}
		_, err := i.Load(t.Context(), &edgewise.Version{Model: m}, "", edgewise.Device{Kind: edgewise.GPU})
		if outside.asked != test.outside || (err != nil) != (test.kind != 0) || err != nil &&
			edgewise.KindOf(err) != test.kind {
			t.Errorf("%+v: %d outside, error %v", test, outside.asked, err)
		}
	}
}

func TestTheNameOfAGroupIsWhatFollows(t *testing.T) {
	for wish, want := range map[string]string{
		"": "", "process": "", "none": "", "group:a": "a", "group:a:b": "a:b",
		"group": "",
	} {
		m := &edgewise.Model{Parameters: map[string]edgewise.ModelParam{"isolation": {StringValue: wish}}}
		if got := groupOf(&edgewise.Version{Model: m}); got != want {
			t.Errorf("%q: %q, want %q", wish, got, want)
		}
	}
}
