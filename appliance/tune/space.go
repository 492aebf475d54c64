package tune

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/tune/search"
)

// edit changes a configuration as it is declared: fields at its top, in their JSON form.
type edit func(fields map[string]any)

// setting is one value of an axis.
type setting struct {
	name  string
	apply edit // nil: as it is
}

// space is what can be set of one model.
type space struct {
	text     []byte // the declared configuration, as config.pbtxt
	declared *edgewise.Model
	axes     []search.Axis
	settings [][]setting
	explicit string // the kind of device of a changed configuration whose groups leave it open; "": none is set
}

// subject is what a space is made for.
type subject struct {
	model       *edgewise.Model // complete
	format      edgewise.Format
	cores       int
	independent bool   // its rows do not depend on each other: a changed configuration says that requests may be merged
	inProcess   bool   // models may run in the box's own process
	device      string // the kind of the device that it was measured to run best on; "": it has no choice
	step        bool   // a step of an ensemble runs it: cores and batches are searched
}

// newSpace lists what can be set of a model whose declared configuration is text.
func newSpace(text []byte, s subject) (*space, error) {
	declared, err := modelconfig.Parse(modelconfig.Pbtxt, text)
	if err != nil {
		return nil, err
	}
	p := &space{text: text, declared: declared}
	if s.device != "" {
		p.explicit = string(edgewise.KindCPU)
		if !strings.HasPrefix(s.device, "cpu") {
			p.explicit = string(edgewise.KindGPU)
		}
	}
	cores := func() { p.add(Cores, p.coreSettings(s)) }
	batching := func() {
		if s.independent {
			p.add(Batching, p.batchSettings(s.model))
		}
	}
	first, second := cores, batching
	if delays(s.model) { // a search that is short of time looks at that
		first, second = batching, cores
	}
	first()
	second()
	if s.device != "" && !s.step {
		p.add("device", p.deviceSettings())
	}
	native := !s.format.Guest && !s.format.External && !s.format.Answers && !s.step
	if native && s.inProcess {
		p.add("place", p.placeSettings(s.model))
	}
	if native {
		p.add("graph optimisation", p.graphSettings(s.model))
	}
	if len(p.axes) == 0 {
		return nil, edgewise.Errorf("tune.space", edgewise.Unsupported, "model %q: nothing of it can be tuned: its format has no "+
			"threads and it has one instance and no batches", s.model.Name)
	}
	return p, nil
}

func (p *space) add(name string, list []setting) {
	if len(list) == 0 {
		return
	}
	list = append([]setting{{name: "as it is"}}, list[:min(len(list), search.MostValues-1)]...)
	axis := search.Axis{Name: name}
	for _, s := range list {
		axis.Values = append(axis.Values, s.name)
	}
	p.axes, p.settings = append(p.axes, axis), append(p.settings, list)
}

// names says in words what a candidate changes.
func (p *space) names(c search.Candidate) (list []string) {
	for i := range p.axes {
		if at := c.At(i); at > 0 {
			list = append(list, p.settings[i][at].name)
		}
	}
	return list
}

// configuration is the config.pbtxt of a candidate.
func (p *space) configuration(c search.Candidate) ([]byte, error) {
	fields := map[string]any{}
	for i := range p.axes {
		if apply := p.settings[i][c.At(i)].apply; apply != nil {
			apply(fields)
		}
	}
	if len(fields) == 0 {
		return p.text, nil
	}
	if p.explicit != "" {
		for _, g := range p.groups(fields) {
			if kind := g["kind"]; kind == nil || kind == string(edgewise.KindAuto) {
				g["kind"] = p.explicit
			}
		}
	}
	changes, err := json.Marshal(fields)
	if err != nil {
		return nil, edgewise.Errorf("tune.configuration", edgewise.Internal, "%w", err)
	}
	return modelconfig.Edit(p.text, changes)
}

// field returns an object at the top of a configuration, to be changed: that of fields, or a copy of what is declared.
func field(fields map[string]any, name string, declared any) map[string]any {
	if known, ok := fields[name].(map[string]any); ok {
		return known
	}
	fields[name] = object(declared)
	return fields[name].(map[string]any)
}

// object is a declared part of a configuration in its JSON form, without what is not set.
func object(declared any) map[string]any {
	m := map[string]any{}
	if v := reflect.ValueOf(declared); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return m
	}
	text, err := json.Marshal(declared)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		panic(fmt.Sprintf("BUG: a configuration cannot be encoded: %v", err))
	}
	prune(m)
	return m
}

// prune removes what is not set.
func prune(m map[string]any) {
	for key, value := range m {
		switch v := value.(type) {
		case map[string]any:
			prune(v)
		case []any:
			for _, one := range v {
				if inner, ok := one.(map[string]any); ok {
					prune(inner)
				}
			}
			if len(v) == 0 {
				delete(m, key)
			}
		case nil:
			delete(m, key)
		case string:
			if v == "" {
				delete(m, key)
			}
		case float64:
			if v == 0 {
				delete(m, key)
			}
		case bool:
			if !v {
				delete(m, key)
			}
		}
	}
}

// parameter sets one parameter; "" removes it.
func (p *space) parameter(fields map[string]any, key, value string) {
	all, ok := fields["parameters"].(map[string]any)
	if !ok {
		all = map[string]any{}
		for name, one := range p.declared.Parameters {
			all[name] = map[string]any{"string_value": one.StringValue}
		}
		fields["parameters"] = all
	}
	if value == "" {
		delete(all, key)
		return
	}
	all[key] = map[string]any{"string_value": value}
}

// groups returns the instance groups, to be changed.
func (p *space) groups(fields map[string]any) []map[string]any {
	if known, ok := fields["instance_group"].([]map[string]any); ok {
		return known
	}
	list := []map[string]any{}
	for _, g := range p.declared.InstanceGroup {
		list = append(list, object(g))
	}
	if len(list) == 0 {
		list = append(list, map[string]any{})
	}
	fields["instance_group"] = list
	return list
}

// instances sets how many there are. A model with several groups keeps them.
func (p *space) instances(fields map[string]any, n int) {
	if groups := p.groups(fields); len(groups) == 1 {
		groups[0]["count"] = n
	}
}

// counts are the numbers of instances that are tried on some cores: powers of two, and all of them.
func counts(most int) (list []int) {
	for n := 1; n < most; n *= 2 {
		list = append(list, n)
	}
	return append(list, most)
}

// coreSettings are how the cores are divided: instances times threads.
func (p *space) coreSettings(s subject) (list []setting) {
	if len(p.declared.InstanceGroup) > 1 {
		return nil
	}
	if s.format.Guest || s.format.External || s.format.Answers {
		for _, n := range counts(s.cores) {
			if n != s.model.Instances() {
				list = append(list, setting{instancesText(n), func(f map[string]any) { p.instances(f, n) }})
			}
		}
		return list
	}
	seen := []edgewise.Concurrency{s.model.Concurrency(s.cores)}
	try := func(name, profile string, threads, n int) {
		m := *s.model
		m.Parameters = maps.Clone(m.Parameters)
		if m.Parameters == nil {
			m.Parameters = map[string]edgewise.ModelParam{}
		}
		set := func(key, value string) {
			delete(m.Parameters, key)
			if value != "" {
				m.Parameters[key] = edgewise.ModelParam{StringValue: value}
			}
		}
		threadText := ""
		if threads > 0 {
			threadText = strconv.Itoa(threads)
		}
		set("execution_profile", profile)
		set("intra_op_thread_count", threadText)
		m.InstanceGroup = []edgewise.InstanceGroup{{Count: int32(n)}}
		if c := m.Concurrency(s.cores); slices.Contains(seen, c) {
			return
		} else {
			seen = append(seen, c)
		}
		list = append(list, setting{name, func(f map[string]any) {
			p.instances(f, n)
			p.parameter(f, "execution_profile", profile)
			p.parameter(f, "intra_op_thread_count", threadText)
		}})
	}
	for _, n := range counts(s.cores) {
		try(instancesText(n)+", all cores for a single request", "", 0, n)
	}
	for _, t := range counts(s.cores) {
		for _, n := range counts(s.cores / t) {
			try(fmt.Sprintf("%s with %s", instancesText(n), counted(t, "thread")), "", t, n)
		}
	}
	try("one run at a time on all cores, spinning", "latency", 0, 1)
	return list
}

func instancesText(n int) string { return counted(n, "instance") }

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// delays tells whether requests to a model wait for others to come.
func delays(m *edgewise.Model) bool {
	return m.DynamicBatching != nil && m.DynamicBatching.MaxQueueDelay > 0
}

// largestBatch bounds the batches that are tried.
const largestBatch = 64

// batchSettings are how requests are merged: up to which size, and how long they wait for each other.
func (p *space) batchSettings(m *edgewise.Model) (list []setting) {
	if m.MaxBatchSize < 2 || m.SequenceBatching != nil || m.EnsembleScheduling != nil {
		return nil
	}
	batching := func(f map[string]any) map[string]any { return field(f, "dynamic_batching", p.declared.DynamicBatching) }
	most := int(m.MaxBatchSize)
	one := func(name string, size, delay int) {
		list = append(list, setting{name, func(f map[string]any) {
			b := batching(f)
			delete(b, "preferred_batch_size")
			delete(b, "max_queue_delay_microseconds")
			if size < most {
				b["preferred_batch_size"] = []int{size}
			}
			if size > most {
				f["max_batch_size"] = size
			}
			if delay > 0 {
				b["max_queue_delay_microseconds"] = delay
			}
			p.parameter(f, "max_queue_delay", "")
		}})
	}
	current := m.DynamicBatching
	plain := current != nil && len(current.PreferredBatchSize) == 0 && current.MaxQueueDelay == 0
	one("no batches", 1, 0)
	for size := 4; size <= largestBatch; size *= 2 {
		if size != most || !plain {
			one(fmt.Sprintf("batches up to %d", size), size, 0)
		}
	}
	if most&(most-1) != 0 && !plain {
		one(fmt.Sprintf("batches up to %d", most), most, 0)
	}
	for _, delay := range []int{1000, 5000} {
		one(fmt.Sprintf("batches up to %d that wait %d ms", most, delay/1000), most, delay)
	}
	return list
}

// deviceSettings are the kinds of devices.
func (p *space) deviceSettings() (list []setting) {
	if len(p.declared.InstanceGroup) > 1 {
		return nil
	}
	for _, kind := range []edgewise.InstanceKind{edgewise.KindCPU, edgewise.KindGPU} {
		if string(kind) == p.explicit {
			continue
		}
		list = append(list, setting{string(kind), func(f map[string]any) { p.groups(f)[0]["kind"] = string(kind) }})
	}
	return list
}

// placeSettings are in which process it runs.
func (p *space) placeSettings(m *edgewise.Model) (list []setting) {
	for _, place := range []string{"process", "none"} {
		if m.Parameters["isolation"].StringValue == place {
			continue
		}
		name := map[string]string{"process": "a process of its own", "none": "in the box's process"}[place]
		list = append(list, setting{name, func(f map[string]any) { p.parameter(f, "isolation", place) }})
	}
	return list
}

// graphSettings are the levels of optimisation.
func (p *space) graphSettings(m *edgewise.Model) (list []setting) {
	current := int32(0)
	if o := m.Optimization; o != nil && o.Graph != nil {
		current = o.Graph.Level
	}
	for _, level := range []struct {
		number int32
		name   string
	}{{0, "all graph optimisations"}, {1, "extended graph optimisations"}, {-1, "basic graph optimisations"}} {
		if level.number == current {
			continue
		}
		list = append(list, setting{level.name, func(f map[string]any) {
			field(f, "optimization", p.declared.Optimization)["graph"] = map[string]any{"level": level.number}
		}})
	}
	return list
}
