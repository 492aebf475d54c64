package rollout

import (
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/manager"
)

// Bounds of a plan.
const (
	maxStages    = 16
	maxSeconds   = 30 * 24 * 3600 // of a stage, and of the watch
	maxRequests  = 1_000_000_000
	fewest       = 30 // requests, or answers that are compared, that a stage needs at least
	maxParameter = 200
)

// complete fills in the presets of a plan, and checks it. Errors: Invalid with Field.
func complete(p *admin.RolloutPlan) error {
	if len(p.Stages) == 0 {
		p.Stages = []admin.RolloutStage{
			{Percent: 5, Seconds: 600, Requests: 500},
			{Percent: 25, Seconds: 600, Requests: 2000},
			{Percent: 50, Seconds: 600, Requests: 2000},
		}
	}
	preset(&p.WatchSeconds, 3600)
	preset(&p.FalseAlarmPercent, 1)
	preset(&p.LatencyPercent, 10)
	preset(&p.LatencyMicroseconds, 500)
	if p.Shadow != nil {
		shadow := *p.Shadow
		preset(&shadow.DisagreementPercent, 0.5)
		p.Shadow = &shadow
	}
	fail := func(field, format string, args ...any) error {
		return edgewise.Errorf("rollout.complete", edgewise.Invalid, format, args...).WithField(field)
	}
	name, named := strings.CutPrefix(p.Sticky, manager.SplitByParameter)
	switch {
	case len(p.Stages) > maxStages:
		return fail("stages", "the plan has %d stages: at most %d are allowed", len(p.Stages), maxStages)
	case p.Sticky != "" && p.Sticky != manager.SplitByCaller && (!named || name == "" || len(name) > maxParameter):
		return fail("sticky", `sticky is %.40q: want "caller", or "parameter:" with the name of one`, p.Sticky)
	case *p.WatchSeconds < 0 || *p.WatchSeconds > maxSeconds:
		return fail("watch_seconds", "watch_seconds is %d: want 0 to %d", *p.WatchSeconds, maxSeconds)
	case !(*p.FalseAlarmPercent >= 0.001 && *p.FalseAlarmPercent <= 20):
		return fail("false_alarm_percent", "false_alarm_percent is %g: want 0.001 to 20", *p.FalseAlarmPercent)
	case !(*p.LatencyPercent >= 0 && *p.LatencyPercent <= 1000):
		return fail("latency_percent", "latency_percent is %g: want 0 to 1000", *p.LatencyPercent)
	case *p.LatencyMicroseconds < 0 || *p.LatencyMicroseconds > 60_000_000:
		return fail("latency_microseconds", "latency_microseconds is %d: want 0 to 60000000", *p.LatencyMicroseconds)
	}
	if s := p.Shadow; s != nil && !(s.Percent > 0 && s.Percent <= 100) {
		return fail("shadow.percent", "shadow.percent is %g: want more than 0, at most 100", s.Percent)
	} else if s != nil && !(*s.DisagreementPercent >= 0.01 && *s.DisagreementPercent <= 50) {
		return fail("shadow.disagreement_percent", "shadow.disagreement_percent is %g: want 0.01 to 50",
			*s.DisagreementPercent)
	}
	if err := completeMetric(p); err != nil {
		return err
	}
	before := 0.0
	for i, s := range p.Stages {
		switch {
		case !(s.Percent >= 0 && s.Percent < 100 && s.Percent >= before) || s.Percent == 0 && p.Shadow == nil:
			return fail("stages", "stage %d has %g %%: want less than 100, no less than the stage before it, and 0 only with "+
				"a shadow", i+1, s.Percent)
		case s.Seconds < 0 || s.Seconds > maxSeconds || s.Requests < 0 || s.Requests > maxRequests ||
			s.Seconds == 0 && s.Requests == 0:
			return fail("stages", "stage %d has %d seconds and %d requests: want up to %d and %d, and one of them above 0",
				i+1, s.Seconds, s.Requests, maxSeconds, maxRequests)
		}
		before = s.Percent
	}
	return nil
}

// preset points an optional member to its preset.
func preset[T any](member **T, value T) {
	if *member == nil {
		*member = &value
	}
}

// passed tells whether a stage is over: requests are those that the candidate has answered, elapsed are seconds.
func passed(s admin.RolloutStage, requests uint64, elapsed float64) bool {
	if requests < fewest {
		return false
	}
	return s.Requests > 0 && requests >= uint64(s.Requests) || s.Seconds > 0 && elapsed >= float64(s.Seconds)
}
