package ratelimit

import (
	"slices"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// model has an instance that needs all there is of a resource.
func model(priority uint32) *edgewise.Model {
	needs := []edgewise.RateLimiterResource{{Name: "R", Count: 1}}
	limits := &edgewise.RateLimiter{Priority: priority, Resources: needs}
	return &edgewise.Model{Name: "m", InstanceGroup: []edgewise.InstanceGroup{{Name: "g", Count: 1, RateLimiter: limits}}}
}

// TestALowPriorityBeginsBehind opens two models that exclude each other: the first two runs are of priority 1, as in
// Triton, where the two runs of a load count.
func TestALowPriorityBeginsBehind(t *testing.T) {
	l := New(nil)
	permits := map[string]*Permit{}
	for name, priority := range map[string]uint32{"first": 1, "second": 2} {
		claim, err := l.Open(model(priority), 0)
		if err != nil {
			t.Fatal(err)
		}
		permits[name] = claim.Permit()
	}
	var order []string
	permits["first"].Wait()
	l.waiting = append(l.waiting, permits["second"])
	running, waits := "first", "second"
	for range 6 {
		order = append(order, running)
		permits[running].release()
		l.waiting = append(l.waiting, permits[running])
		l.serve()
		if permits[waits].held != nil {
			running, waits = waits, running
		}
		<-permits[running].granted
	}
	want := []string{"first", "first", "second", "first", "first", "second"}
	if !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
}

func TestPassiveInstancesAreNotLimited(t *testing.T) {
	m := model(1)
	m.InstanceGroup = append(m.InstanceGroup, edgewise.InstanceGroup{Name: "p", Count: 5, Passive: true})
	if n := len(limitedOf(m, 0)); n != 1 {
		t.Errorf("%d instances", n)
	}
}
