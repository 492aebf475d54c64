package registry_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/test/models"
)

// instances returns how many instances a model has, as clients see it.
func (h *fixture) instances(name string) int32 {
	v, _, err := h.Manager.Version(edgewise.ModelID{Name: name})
	h.Must(err)
	return v.Model.InstanceGroup[0].Count
}

func TestInstanceGroupsChangeWithoutALoad(t *testing.T) {
	h := newFixture(t)
	loads := 0
	h.Backend.Hook = func(stage, _ string) error {
		if stage == "load" {
			loads++
		}
		return nil
	}
	_, err := h.PushFile("m", "one", 0, true)
	h.Must(err)
	before := h.instances("m")
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					h.WantAnswer("m", "one")
				}
			}
		})
	}
	for _, count := range []string{"4", "2", "7", "1"} {
		h.Must(h.Reconfigure(t.Context(), "m", []byte(`{"instance_group": [{"count": `+count+`}]}`)))
	}
	close(stop)
	clients.Wait()
	if got := h.instances("m"); got != 1 || loads != 1 {
		t.Errorf("%d instances after %d loads", got, loads)
	}
	h.Must(h.Reconfigure(t.Context(), "m", []byte(`{"instance_group": [{"count": 3}]}`)))
	_, err = h.PushFile("m", "two", 0, false) // something else changes: it stays
	h.Must(err)
	if got := h.instances("m"); got != 3 {
		t.Errorf("%d instances after a version was stored, want 3", got)
	}
	h.Must(h.Load(t.Context(), "m"))
	if got := h.instances("m"); got != before {
		t.Errorf("%d instances after a load without a configuration, want the stored %d", got, before)
	}
}

func TestReconfigureRefuses(t *testing.T) {
	h := newFixture(t)
	_, err := h.PushFile("m", "one", 0, true)
	h.Must(err)
	_, err = h.PushFile("cold", "one", 0, false)
	h.Must(err)
	for _, test := range []struct {
		name, model, config string
		kind                edgewise.Kind
		text                string
	}{
		{"not a configuration", "m", `{"count": 1}`, edgewise.Invalid, `unknown field "count"`},
		{"too many", "m", `{"instance_group": [{"count": 65}]}`, edgewise.Invalid, "at most 64 are allowed"},
		{"no live version", "cold", `{}`, edgewise.NotFound, "no live version"},
		{"no model", "nobody", `{}`, edgewise.NotFound, "nobody"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := h.Reconfigure(t.Context(), test.model, []byte(test.config))
			if err == nil || edgewise.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %v %s", err, test.kind, test.text)
			}
		})
	}
}

// pushSized stores a version that takes so many bytes of memory, with another parameter.
func (h *fixture) pushSized(content, bytes, swap string) error {
	config := `parameters { key: "memory_bytes" value { string_value: "` + bytes +
		`" } } parameters { key: "swap_without_room" value { string_value: "` + swap + `" } }`
	_, err := h.Push(h.T.Context(), models.Upload("m", models.File{"model.onnx", content}, models.File{"config.pbtxt", config}), true)
	return err
}

func TestSwapsWithoutRoomDoAsTheModelSays(t *testing.T) {
	h := newFixture(t)
	h.Must(h.pushSized("one", "60", "refuse"))
	if err := h.pushSized("two", "70", "refuse"); err == nil || edgewise.KindOf(err) != edgewise.Exhausted ||
		!strings.Contains(err.Error(), "it takes about 70 bytes") {
		t.Errorf("a swap without room: %v", err)
	}
	h.WantAnswer("m", "one")
	h.Must(h.pushSized("three", "70", "gap"))
	h.WantAnswer("m", "three")
	if err := h.pushSized("x", "70", "gap"); err == nil || edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("a broken version: %v", err)
	}
	h.Must(h.Manager.Settle(t.Context(), "m"))
	h.WantAnswer("m", "three")
	if err := h.pushSized("four", "101", "gap"); err == nil || edgewise.KindOf(err) != edgewise.Exhausted {
		t.Errorf("a version that never fits: %v", err)
	}
	h.WantAnswer("m", "three")
}

func TestAVersionThatIsRefusedInTheGapGivesWayToTheOldOne(t *testing.T) {
	h := newFixture(t)
	h.Must(h.pushSized("one", "60", "gap"))
	h.Unproved = func(id edgewise.ModelID) error {
		if _, _, err := h.Manager.Version(edgewise.ModelID{Name: "m"}); edgewise.KindOf(err) != edgewise.Unavailable {
			t.Errorf("version %d answers requests that do not name it before it may go live: %v", id.Version, err)
		}
		return edgewise.Errorf("test", edgewise.Conflict, "it fails").WithReason(admin.ReasonGoldens)
	}
	if err := h.pushSized("two", "70", "gap"); !admin.FailsGoldens(err) {
		t.Errorf("got %v", err)
	}
	h.Must(h.Manager.Settle(t.Context(), "m"))
	h.WantAnswer("m", "one")
	h.Unproved = nil
	_, err := h.SetLabel(t.Context(), "m", edgewise.LiveLabel, 2)
	h.Must(err)
	h.Unproved = func(edgewise.ModelID) error { return edgewise.Errorf("test", edgewise.Conflict, "asked") }
	_, err = h.Rollback(t.Context(), "m", edgewise.LiveLabel)
	h.Must(err)
	h.WantAnswer("m", "one")
}
