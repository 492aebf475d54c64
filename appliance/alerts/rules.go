package alerts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/activity"
)

// Facts are what rules look at beside requests.
type Facts struct {
	Disk         float64            // percent in use
	Temperatures map[string]float64 // degrees Celsius, by device
	Down         map[string]string  // models that should answer and cannot, and why
}

// Bounds against storms of alerts.
const (
	fewestRequests = 10  // of a minute that is judged by its errors or latencies
	hysteresis     = 0.9 // an alert ends below this part of its bound
	maxStates      = 1024
)

// state is where a rule stands with one subject:
//
//	clear -> pending (above the bound) -> active (for Minutes) -> ending (below hysteresis) -> clear (for Minutes)
//
// A pending one goes back at once, and an ending one when the value is not below hysteresis any more.
type state struct {
	rule    admin.AlertRule
	subject string
	active  bool
	count   int // minutes in sequence that speak for the next state
	since   time.Time
	told    time.Time
	value   float64
	reason  string
}

// states are those of all rules. They are not safe for concurrent use.
type states struct {
	all map[stateKey]*state
}

type stateKey struct {
	rule    admin.AlertRule
	subject string
}

func newStates() *states { return &states{map[stateKey]*state{}} }

// keep forgets the states of rules that are gone.
func (s *states) keep(rules []admin.AlertRule) {
	maps.DeleteFunc(s.all, func(k stateKey, _ *state) bool { return !slices.Contains(rules, k.rule) })
}

// measured is a value of a subject.
type measured struct {
	value  float64
	reason string
}

// evaluate moves all states by the values of one minute. It returns the alerts that begin, end, or have lasted for
// repeat since they were told, and whether one has begun or ended.
func (s *states) evaluate(now time.Time, rules []admin.AlertRule, facts *Facts, samples []activity.Sample,
	repeat time.Duration,
) (told []admin.Alert, changed bool) {
	models := sumModels(samples)
	for _, rule := range rules {
		values := valuesOf(rule, facts, models)
		for subject := range values {
			if key := (stateKey{rule, subject}); s.all[key] == nil && len(s.all) < maxStates {
				s.all[key] = &state{rule: rule, subject: subject}
			}
		}
		for key, st := range s.all {
			if key.rule != rule {
				continue
			}
			v, known := values[key.subject]
			moved := st.move(now, v, known)
			if moved || st.active && repeat > 0 && now.Sub(st.told) >= repeat {
				st.told = now
				told = append(told, st.alert())
			}
			changed = changed || moved
			if !st.active && st.count == 0 {
				delete(s.all, key)
			}
		}
	}
	slices.SortFunc(told, compareAlerts)
	return told, changed
}

// move counts a minute, and tells whether the state begins or ends to be active. A subject without a value is well.
func (st *state) move(now time.Time, v measured, known bool) bool {
	bad := known && (v.value > st.rule.Above || st.rule.Kind == admin.AlertModelDown)
	well := !known || v.value < st.rule.Above*hysteresis
	if bad {
		st.value, st.reason = v.value, v.reason
	}
	if st.active && !well || !st.active && !bad {
		st.count = 0
		return false
	}
	if st.count++; st.count < max(1, st.rule.Minutes) {
		return false
	}
	st.active, st.count = !st.active, 0
	if st.active {
		st.since = now
	} else {
		st.value = v.value
	}
	return true
}

func (st *state) alert() admin.Alert {
	a := admin.Alert{
		Kind: st.rule.Kind, Subject: st.subject, Value: st.value, Above: st.rule.Above, Since: st.since.UTC(), Ended: !st.active,
	}
	a.Text = "Alert: "
	if a.Ended {
		a.Text = "Ended: "
	}
	switch a.Kind {
	case admin.AlertErrorRate:
		a.Text += fmt.Sprintf("%.1f %% of the requests to %s fail (bound %g %%)", a.Value, a.Subject, a.Above)
	case admin.AlertP99:
		a.Text += fmt.Sprintf("p99 latency of %s is %.1f ms (bound %g ms)", a.Subject, a.Value, a.Above)
	case admin.AlertDisk:
		a.Text += fmt.Sprintf("%.0f %% of the disk are in use (bound %g %%)", a.Value, a.Above)
	case admin.AlertTemperature:
		a.Text += fmt.Sprintf("%s has %.0f °C (bound %g °C)", a.Subject, a.Value, a.Above)
	case admin.AlertModelDown:
		a.Text += fmt.Sprintf("model %s is down: %.200s", a.Subject, oneLine(strings.ToValidUTF8(st.reason, "?")))
	}
	return a
}

// active returns the active alerts, by kind and subject.
func (s *states) active() []admin.Alert {
	list := []admin.Alert{}
	for _, st := range s.all {
		if st.active {
			list = append(list, st.alert())
		}
	}
	slices.SortFunc(list, compareAlerts)
	return list
}

func compareAlerts(a, b admin.Alert) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Subject, b.Subject), cmp.Compare(a.Above, b.Above))
}

// sumModels adds the samples of each model.
func sumModels(samples []activity.Sample) map[string]*activity.Sample {
	models := map[string]*activity.Sample{}
	for i := range samples {
		one := &samples[i]
		m := models[one.Model.Name]
		if m == nil {
			m = &activity.Sample{}
			models[one.Model.Name] = m
		}
		m.Requests += one.Requests
		m.Failed += one.Failed
		m.Refused += one.Refused
		m.Times.Merge(&one.Times)
	}
	return models
}

// valuesOf returns the values that a rule looks at, by subject.
func valuesOf(r admin.AlertRule, facts *Facts, models map[string]*activity.Sample) map[string]measured {
	values := map[string]measured{}
	switch r.Kind {
	case admin.AlertDisk:
		values[""] = measured{value: facts.Disk}
	case admin.AlertTemperature:
		for device, celsius := range facts.Temperatures {
			values[device] = measured{value: celsius}
		}
	case admin.AlertModelDown:
		for model, reason := range facts.Down {
			values[model] = measured{value: 1, reason: reason}
		}
	case admin.AlertErrorRate:
		for model, s := range models {
			if n := s.Requests - s.Refused; n >= fewestRequests {
				values[model] = measured{value: 100 * float64(s.Failed) / float64(n)}
			}
		}
	case admin.AlertP99:
		for model, s := range models {
			if p := s.Times.Percentile(0.99); p != nil && s.Requests >= fewestRequests {
				values[model] = measured{value: *p / 1000}
			}
		}
	}
	if r.Model != "" {
		maps.DeleteFunc(values, func(model string, _ measured) bool { return model != r.Model })
	}
	return values
}
