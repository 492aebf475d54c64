package external

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
	"github.com/edgewise-ai/edgewise/pattern"
)

// Bounds of the metrics that models make.
const (
	maxFamilies = 64  // of a version
	maxSeries   = 256 // of a family and version
	maxLabels   = 16
	maxBuckets  = 64
	maxText     = 256 // bytes of a label's value, and of a description
)

// Metrics are those that models make. The same metric of several instances of a version is one.
type Metrics struct {
	mu       sync.Mutex // guards what follows
	versions map[edgewise.ModelID]map[string]*family
}

// family is the metrics of a name that a version has made.
type family struct {
	kind, help string
	series     map[string]*Series
}

// Series is one metric.
type Series struct {
	Labels map[string]string
	Value  float64   // of a counter or a gauge; the sum of a histogram
	Bounds []float64 // of a histogram
	Counts []uint64  // of the values up to each bound, each value counted once
	Count  uint64
}

// NewMetrics makes an empty set.
func NewMetrics() *Metrics {
	return &Metrics{versions: map[edgewise.ModelID]map[string]*family{}}
}

// Each calls yield with each family and its metrics, in the order of their names.
func (m *Metrics) Each(yield func(name, kind, help string, series []Series)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	merged := map[string]*family{}
	for _, id := range slices.SortedFunc(maps.Keys(m.versions), func(a, b edgewise.ModelID) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	}) {
		for name, f := range m.versions[id] {
			all, ok := merged[name]
			if !ok {
				all = &family{kind: f.kind, help: f.help, series: map[string]*Series{}}
				merged[name] = all
			}
			if all.kind != f.kind { // the first model's kind is the name's
				continue
			}
			for key, s := range f.series {
				all.series[key] = s
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		f := merged[name]
		list := make([]Series, 0, len(f.series))
		for _, key := range slices.Sorted(maps.Keys(f.series)) {
			s := *f.series[key]
			s.Counts = slices.Clone(s.Counts)
			list = append(list, s)
		}
		yield(name, f.kind, f.help, list)
	}
}

// forget removes the metrics of a version that is closed.
func (m *Metrics) forget(id edgewise.ModelID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.versions, id)
}

var (
	metricName = pattern.New(`^[a-zA-Z_:][a-zA-Z0-9_:]{0,127}$`)
	labelName  = pattern.New(`^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`)
)

// apply makes or changes a metric.
func (m *Metrics) apply(id edgewise.ModelID, change *backend.Metric) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	families := m.versions[id]
	if families == nil {
		families = map[string]*family{}
		m.versions[id] = families
	}
	f := families[change.Family]
	if change.Op == backend.MetricFamily {
		return addFamily(families, f, change)
	}
	if f == nil {
		return errors.New("the family was not made")
	}
	labels := maps.Clone(change.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for name, value := range map[string]string{"model": id.Name, "version": strconv.FormatInt(id.Version, 10)} {
		if _, own := labels[name]; !own {
			labels[name] = value
		}
	}
	key, err := seriesKey(labels)
	if err != nil {
		return err
	}
	s := f.series[key]
	if s == nil {
		if s, err = f.add(labels, change.Buckets); err != nil {
			return err
		}
		f.series[key] = s
	}
	return f.change(s, change)
}

func addFamily(families map[string]*family, f *family, change *backend.Metric) error {
	switch {
	case !metricName.MatchString(change.Family) || reserved(change.Family):
		return fmt.Errorf("%.64q is no name for a family of a model's", change.Family)
	case !slices.Contains([]string{"counter", "gauge", "histogram"}, change.Kind):
		return fmt.Errorf("unknown kind %.64q", change.Kind)
	case f != nil && f.kind != change.Kind:
		return fmt.Errorf("it is a %s already", f.kind)
	case f == nil && len(families) >= maxFamilies:
		return fmt.Errorf("more than %d families", maxFamilies)
	case f == nil:
		families[change.Family] = &family{
			kind: change.Kind, help: change.Description[:min(len(change.Description), maxText)], series: map[string]*Series{},
		}
	}
	return nil
}

// reserved tells whether a name is one of the box's own families.
func reserved(name string) bool {
	return slices.ContainsFunc([]string{"edgewise_", "nv_", "go_", "process_"},
		func(own string) bool { return strings.HasPrefix(name, own) })
}

func seriesKey(labels map[string]string) (string, error) {
	if len(labels) > maxLabels {
		return "", fmt.Errorf("%d labels, at most %d are allowed", len(labels), maxLabels)
	}
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if !labelName.MatchString(name) || len(labels[name]) > maxText {
			return "", fmt.Errorf("label %.64q is no label, or longer than %d bytes", name, maxText)
		}
		key.WriteString(strconv.Quote(name) + strconv.Quote(labels[name]))
	}
	return key.String(), nil
}

func (f *family) add(labels map[string]string, bounds []float64) (*Series, error) {
	if len(f.series) >= maxSeries {
		return nil, fmt.Errorf("more than %d metrics", maxSeries)
	}
	if f.kind != "histogram" {
		return &Series{Labels: labels}, nil
	}
	if len(bounds) > maxBuckets || !slices.IsSorted(bounds) {
		return nil, fmt.Errorf("want at most %d buckets in ascending order", maxBuckets)
	}
	return &Series{Labels: labels, Bounds: slices.Clone(bounds), Counts: make([]uint64, len(bounds))}, nil
}

// change obeys an operation.
func (f *family) change(s *Series, change *backend.Metric) error {
	v := change.Value
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return errors.New("the value is no number")
	case change.Op == backend.MetricNew:
	case change.Op == backend.MetricIncrement && f.kind != "histogram":
		if v < 0 && f.kind == "counter" {
			return errors.New("a counter does not decrease")
		}
		s.Value += v
	case change.Op == backend.MetricSet && f.kind == "gauge":
		s.Value = v
	case change.Op == backend.MetricObserve && f.kind == "histogram":
		s.Value += v
		s.Count++
		if at, _ := slices.BinarySearch(s.Bounds, v); at < len(s.Counts) {
			s.Counts[at]++
		}
	default:
		return fmt.Errorf("a %s has no operation %.32q", f.kind, change.Op)
	}
	return nil
}
