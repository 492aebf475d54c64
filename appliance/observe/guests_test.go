package observe

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgewise-ai/edgewise"
)

func TestGuestsAreReported(t *testing.T) {
	out := make(chan prometheus.Metric, 100)
	g := edgewise.GuestStatistics{
		Fuel: 7, Memory: 65536, Time: time.Second, Host: 2 * time.Second, Failed: 1, Trapped: 2,
		Stopped: 3, Bypassed: 4, Instances: 5, Created: 6,
	}
	collectGuests(sink{out: out}.with("model", "m"), g)
	close(out)
	var all strings.Builder
	for m := range out {
		all.WriteString(m.Desc().String() + "\n")
	}
	for _, name := range []string{
		"edgewise_guests", "edgewise_guest_memory_bytes", "edgewise_guests_created_total", "edgewise_guest_fuel_total",
		"edgewise_guest_seconds_total", "edgewise_guest_host_seconds_total", "edgewise_guest_bypassed_total",
		"edgewise_guest_failures_total",
	} {
		if !strings.Contains(all.String(), `"`+name+`"`) {
			t.Errorf("%s is missing", name)
		}
	}
	if n := strings.Count(all.String(), `"edgewise_guest_failures_total"`); n != 3 {
		t.Errorf("%d reasons of failure", n)
	}
}
