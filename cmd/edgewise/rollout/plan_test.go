package rollout

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
)

func TestAMetricIsReadFromItsMembers(t *testing.T) {
	m, err := parseMetric("output=scores,reduce=count_above,above=0.5,low=0,high=20,worse=lower,by=1")
	want := admin.OutputMetric{Output: "scores", Reduce: "count_above", Above: 0.5, High: 20, Worse: "lower", By: 1}
	if err != nil || *m != want {
		t.Errorf("%+v, %v", m, err)
	}
	for text, reason := range map[string]string{
		"output=scores": "reduce is missing", "output=y,reduce=max,low=a": "want a number", "outptu=scores": "there is no",
	} {
		if _, err := parseMetric(text); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
