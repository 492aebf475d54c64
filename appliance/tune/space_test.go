package tune

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/tune/search"
)

// declared is a configuration with what candidates have to leave as it is.
const declared = `# a comment
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 4 }
dynamic_batching { max_queue_delay_microseconds: 300 priority_levels: 2 default_priority_level: 1 }
instance_group { count: 2 kind: KIND_CPU }
parameters { key: "owner" value { string_value: "line 3" } }
`

func complete(t *testing.T, text string) *edgewise.Model {
	t.Helper()
	m, err := modelconfig.Parse(modelconfig.Pbtxt, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m.Name = "m"
	return m
}

func TestEachCandidateIsAConfigurationThatChangesOnlyWhatItSays(t *testing.T) {
	m := complete(t, declared)
	p, err := newSpace([]byte(declared), subject{model: m, independent: true, cores: 4, inProcess: true})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	base := search.Candidate(make([]byte, len(p.axes)))
	for i, a := range p.axes {
		names = append(names, a.Name)
		for v := range a.Values {
			b := []byte(base)
			b[i] = byte(v)
			text, err := p.configuration(search.Candidate(b))
			if err != nil {
				t.Fatalf("%s: %v", a.Values[v], err)
			}
			if v == 0 {
				if string(text) != declared {
					t.Errorf("%s: the current configuration is changed:\n%s", a.Name, text)
				}
				continue
			}
			changed := complete(t, string(text))
			if !strings.Contains(string(text), "# a comment") || changed.Parameters["owner"].StringValue != "line 3" ||
				changed.DynamicBatching.PriorityLevels != 2 || changed.InstanceGroup[0].Kind != edgewise.KindCPU ||
				changed.MaxBatchSize < 8 || string(text) == declared {
				t.Errorf("%s:\n%s", a.Values[v], text)
			}
			if got := p.names(search.Candidate(b)); len(got) != 1 || got[0] != a.Values[v] {
				t.Errorf("%v is named %v", a.Values[v], got)
			}
		}
	}
	if got := strings.Join(names, ", "); got != "batching, cores, place, graph optimisation" {
		t.Error(got)
	}
}

func TestCandidatesThatRunAlikeAreTriedOnce(t *testing.T) {
	p, err := newSpace([]byte(declared), subject{model: complete(t, declared), independent: true, cores: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := "as it is; 1 instance, all cores for a single request; 1 instance with 1 thread; 2 instances with 1 thread; " +
		"1 instance with 2 threads; one run at a time on all cores, spinning"
	if got := strings.Join(p.axes[1].Values, "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAxesSuitWhatRunsTheModel(t *testing.T) {
	plain := "instance_group { count: 1 kind: KIND_CPU }"
	for _, test := range []struct {
		name, text string
		subject    subject
		want       string
	}{
		{
			"requests that wait for no others", plain + "\nmax_batch_size: 8 dynamic_batching { }",
			subject{cores: 2, independent: true},
			"cores, batching, graph optimisation",
		},
		{
			"rows that depend on each other", plain + "\nmax_batch_size: 8",
			subject{cores: 2},
			"cores, graph optimisation",
		},
		{"no batches", plain, subject{cores: 2}, "cores, graph optimisation"},
		{"a step", plain, subject{cores: 2, format: edgewise.Format{Guest: true}}, "cores"},
		{"a step on one core", plain, subject{cores: 1, format: edgewise.Format{Guest: true}}, ""},
		{"a choice of devices", declared, subject{cores: 2, independent: true, device: "gpu:0"}, "batching, cores, device, graph optimisation"},
		{
			"several groups", plain + "\ninstance_group { count: 2 kind: KIND_CPU }",
			subject{cores: 2},
			"graph optimisation",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.subject.model = complete(t, test.text)
			p, err := newSpace([]byte(test.text), test.subject)
			var names []string
			if err == nil {
				for _, a := range p.axes {
					names = append(names, a.Name)
				}
			}
			if got := strings.Join(names, ", "); got != test.want {
				t.Errorf("%q, %v", got, err)
			}
			if (test.want == "") != (err != nil && edgewise.KindOf(err) == edgewise.Unsupported) {
				t.Error(err)
			}
		})
	}
}

func TestACandidateOfAModelWithAChoiceOfDevicesNamesOne(t *testing.T) {
	text := "max_batch_size: 8\n"
	p, err := newSpace([]byte(text), subject{model: complete(t, text), cores: 2, device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len(p.axes))
	b[len(b)-1] = 1 // a graph level
	changed, err := p.configuration(search.Candidate(b))
	if err != nil || complete(t, string(changed)).InstanceGroup[0].Kind != edgewise.KindCPU {
		t.Errorf("%s, %v", changed, err)
	}
}
