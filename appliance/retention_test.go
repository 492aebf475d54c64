package appliance

import (
	"slices"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// versions lists the stored versions of a model.
func (v *visitor) versions(model string) (list []int64) {
	v.running.t.Helper()
	var m admin.Model
	if status, text := v.ask("GET", "/api/v1/models/"+model, nil, &m); status != 200 {
		v.running.t.Fatalf("%d %s", status, text)
	}
	for _, version := range m.Versions {
		list = append(list, version.Version)
	}
	return list
}

func TestTheLatestVersionsAreKeptAndThoseThatSomebodyNeeds(t *testing.T) {
	_, anna := runReal(t)
	push := func(bias float32) {
		t.Helper()
		anna.live("net", adding(bias))
	}
	for bias := range 4 {
		push(float32(bias))
	}
	if got := anna.versions("net"); !slices.Equal(got, []int64{1, 2, 3, 4}) {
		t.Fatalf("without a bound: %v", got)
	}
	keep := 1
	for _, change := range []struct {
		method, path string
		body         any
	}{
		{"PATCH", "/api/v1/models/net/versions/1", admin.Notes{Notes: "as it was delivered"}},
		{"PUT", "/api/v1/models/net/labels/line-3", admin.SetLabel{Version: 2}},
		{"PATCH", "/api/v1/settings", admin.SettingsChange{KeepVersions: &keep}},
	} {
		if status, text := anna.ask(change.method, change.path, change.body, nil); status != 200 {
			t.Fatalf("%s: %d %s", change.path, status, text)
		}
	}
	push(4)
	// 1 has notes, 2 a label, 4 is where a rollback leads, and 5 is live.
	if got := anna.versions("net"); !slices.Equal(got, []int64{1, 2, 4, 5}) {
		t.Errorf("with a bound: %v", got)
	}
	if status, text := anna.ask("POST", "/api/v1/models/net/rollback", nil, nil); status != 200 {
		t.Errorf("the rollback: %d %s", status, text)
	}
	keep = -1
	status, _ := anna.ask("PATCH", "/api/v1/settings", admin.SettingsChange{KeepVersions: &keep}, nil)
	if status != 400 {
		t.Errorf("fewer than none: %d", status)
	}
}
