package tuned

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/appliance/tune"
	"github.com/edgewise-ai/edgewise/appliance/tune/search"
	"github.com/edgewise-ai/edgewise/test/bench/table"
)

// Scenario measures some lines of the table on a box without models.
type Scenario struct {
	Name    string
	Measure func(ctx context.Context, box *client.Client, o Options) (table.Result, error)
}

// Scenarios are those of the table: each subject for three objectives, and traffic beside a tuning.
func Scenarios() (all []Scenario) {
	for _, s := range subjects() {
		for _, objective := range []string{"default", "p99", "floor"} {
			all = append(all, Scenario{s.name + "/" + objective, func(ctx context.Context, box *client.Client, o Options) (table.Result, error) {
				return s.measure(ctx, box, objective, o)
			}})
		}
	}
	return append(all, Scenario{"beside", measureBeside})
}

// Options are those of a run.
type Options struct {
	Repeats int           // tunings of each subject and objective
	Rounds  int           // of traffic beside a tuning
	Limit   time.Duration // of one tuning
	Cores   int
	Busy    bool // a trial: the grid has a few candidates
}

// measure tunes a subject for an objective, and compares the choices with the best of the grid.
func (s subject) measure(ctx context.Context, box *client.Client, objective string, o Options) (table.Result, error) {
	m := &measuring{Options: o, subject: s, objective: objective, bench: bench{
		client: box, sequences: s.sequences, turns: make(chan struct{}, mostAsk),
	}}
	for _, step := range []func(context.Context) error{m.store, m.aim, m.tune, m.exhaust, m.compare} {
		if err := step(ctx); err != nil {
			return table.Result{}, err
		}
	}
	return m.result(), nil
}

// measuring is the measurement of one subject and objective.
type measuring struct {
	Options
	subject
	bench
	objective string
	parts     []stored
	ask       admin.TuneObjective
	aimed     search.Objective

	tunings  []tuning
	size     int              // of the grid
	names    map[int64]string // of the versions of the grid and of the choices
	found    *search.Found    // of the grid
	best     int64            // version of it
	compared []tuning         // whose choices were compared at last
	last     *search.Found    // the latest comparison, with its versions in bench
}

// tuning is one repetition.
type tuning struct {
	version int64 // that it chose; that of the default where it chose that
	name    string
	seconds float64
	outcome
}

// outcome is how a choice, the best of the grid and the default compare for clients.
type outcome struct {
	gain, best float64 // of the choice and of the best of the grid, over the default
	noise      float64 // standard error of both gains, as a part of them; 0: both are the default
	// which bound of the objective the choice and the best of the grid missed, "" for none
	missed, bestMissed string
}

// share is how good the choice is, as a part of the best that keeps the bounds: that of the grid, or the default where that of
// the grid missed one or was worse when it was measured again. 0: the choice missed one.
func (o outcome) share() float64 {
	switch {
	case o.missed != "":
		return 0
	case o.bestMissed != "":
		return o.gain
	}
	return o.gain / max(o.best, 1)
}

// store puts the models into the box.
func (m *measuring) store(ctx context.Context) (err error) {
	if m.parts, err = m.models(); err != nil {
		return err
	}
	for _, p := range m.parts {
		if _, err := m.client.Push(ctx, upload(p.name, p.files), true, nil); err != nil {
			return err
		}
	}
	m.model = m.parts[len(m.parts)-1].name
	m.bench.request = edgewise.Request{Inputs: append([]edgewise.Tensor{m.subject.request()}, m.more...)}
	if m.subject.sequences || len(m.parts) > 1 {
		return nil // goldens have no sequence; ensembles of the table take what is generated
	}
	golden := m.bench.request
	golden.Model = edgewise.ModelID{Name: m.model}
	_, err = m.client.AddGolden(ctx, "sample", &golden) // so that both measure the same request
	return err
}

// aim sets the bounds of the objective by what clients see of the default.
func (m *measuring) aim(ctx context.Context) error {
	m.versions, m.names = []int64{1}, map[int64]string{1: "the default"}
	opened, err := m.Open(ctx, search.Candidate([]byte{0}))
	if err != nil {
		return err
	}
	carries, err := opened.Saturate(ctx, time.Second)
	if err != nil {
		return err
	}
	at, err := opened.Offer(ctx, min(carries.Value/2, search.MaxRate), 2*time.Second, 0)
	if err != nil {
		return err
	}
	switch m.objective {
	case "p99":
		m.ask.P99 = math.Ceil(3*at.P99.Value*10) / 10
		m.aimed.P99 = time.Duration(m.ask.P99 * float64(time.Millisecond))
	case "floor":
		m.ask.Throughput = math.Ceil(carries.Value / 2)
		m.aimed.Throughput = m.ask.Throughput
	}
	return nil
}

// tune has the box tune the model several times. Nothing goes live.
func (m *measuring) tune(ctx context.Context) error {
	for i := range m.Repeats {
		t, err := m.client.StartTuning(ctx, m.model, admin.TuneRequest{
			Objective: &m.ask, Seconds: int(m.Limit / time.Second), StoreOnly: true,
		})
		for err == nil && t.Active() {
			time.Sleep(500 * time.Millisecond)
			t, err = m.client.Tuning(ctx, m.model)
		}
		if err != nil {
			return err
		}
		if t.State != admin.TuneDone {
			return fmt.Errorf("the tuning is %s: %s", t.State, t.Error)
		}
		one := tuning{version: max(t.Report.Version, 1), seconds: t.Report.Seconds, name: t.Report.Candidates[0].Name()}
		if t.Report.Version == 0 {
			one.name = "the default"
		}
		if one.version, err = m.known(ctx, versionsOf(m.tunings), one.version); err != nil {
			return err
		}
		m.names[one.version] = one.name
		m.tunings = append(m.tunings, one)
		fmt.Fprintf(os.Stderr, "  tuning %d: %s in %.0f s\n", i+1, one.name, one.seconds)
	}
	return nil
}

// known returns the first version of a list that has the same configuration as version, and version itself where none has.
func (m *measuring) known(ctx context.Context, list []int64, version int64) (int64, error) {
	for _, v := range list {
		same, err := m.same(ctx, v, version)
		if same || err != nil {
			return v, err
		}
	}
	return version, nil
}

// same tells whether two versions have the same configuration; of ensembles, whether they run the same configurations.
func (m *measuring) same(ctx context.Context, a, b int64) (bool, error) {
	if a == b {
		return true, nil
	}
	x, err := m.client.Version(ctx, edgewise.ModelID{Name: m.model, Version: a})
	if err != nil {
		return false, err
	}
	y, err := m.client.Version(ctx, edgewise.ModelID{Name: m.model, Version: b})
	if err != nil || x.Config.EnsembleScheduling == nil {
		return err == nil && reflect.DeepEqual(x.Config, y.Config), err
	}
	before, after := x.Config.Pins(), y.Config.Pins()
	for i := range before {
		p, err := m.client.Version(ctx, before[i])
		if err != nil {
			return false, err
		}
		q, err := m.client.Version(ctx, after[i])
		if err != nil || !reflect.DeepEqual(p.Config, q.Config) {
			return false, err
		}
	}
	return true, nil
}

// Times of measurements.
const (
	perCandidate = 20 * time.Second // for the grid: one measurement of a large model takes 10 s
	leastGrid    = 150 * time.Second
	perCompared  = 90 * time.Second // for each version in the comparison of the default, the best of the grid and choices
	leastRounds  = 8                // of that comparison
)

// exhaust stores and measures the grid.
func (m *measuring) exhaust(ctx context.Context) error {
	versions, err := m.storeGrid(ctx)
	if err != nil {
		return err
	}
	m.size = len(versions)
	fmt.Fprintf(os.Stderr, "  a grid of %d\n", m.size)
	limit := max(time.Duration(m.size)*perCandidate, leastGrid)
	if m.found, err = m.search(m.aimed, limit, versions...).Run(ctx); err != nil {
		return err
	}
	m.best = versions[m.found.Leader.At(0)]
	return nil
}

// compare measures the default, the best of the grid and the choices in turn. Where clients see a difference between the choices,
// the worst and the best of them are measured again: chance was part of what made them the worst and the best.
func (m *measuring) compare(ctx context.Context) error {
	m.compared = m.tunings
	if err := m.compareOnce(ctx); err != nil {
		return err
	}
	if ends := []tuning{worst(m.compared), best(m.compared)}; ends[0].version != ends[1].version {
		m.compared = ends
		if err := m.compareOnce(ctx); err != nil {
			return err
		}
	}
	return m.curves(ctx)
}

// compareOnce measures the default, the best of the grid and the choices in compared in turn.
func (m *measuring) compareOnce(ctx context.Context) (err error) {
	versions := []int64{1}
	if m.best != 1 {
		versions = append(versions, m.best)
	}
	for i := range m.compared {
		t := &m.compared[i]
		if t.version, err = m.known(ctx, versions, t.version); err != nil {
			return err
		}
		if !slices.Contains(versions, t.version) {
			versions = append(versions, t.version)
		}
	}
	limit := time.Duration(len(versions)) * perCompared
	if m.last, err = m.search(m.aimed, limit, versions...).Compare(ctx, leastRounds); err != nil {
		return err
	}
	for i := range m.compared {
		t := &m.compared[i]
		t.outcome = m.outcomeOf(m.candidate(t.version))
		fmt.Fprintf(os.Stderr, "  %s: %.3g times the default\n", t.name, t.gain)
	}
	return nil
}

// outcomeOf is how a choice compares with the default and the best of the grid.
func (m *measuring) outcomeOf(chosen search.Candidate) outcome {
	best := m.candidate(m.best)
	o := outcome{
		gain: m.last.Gains[chosen], best: m.last.Gains[best], missed: m.last.Missed[chosen], bestMissed: m.last.Missed[best],
	}
	if m.last.Doubtful[best] && o.bestMissed == "" {
		o.bestMissed = "by the median of its rounds it carries too few requests"
	}
	for _, c := range []search.Candidate{chosen, best} {
		if c != m.candidate(1) {
			o.noise = max(o.noise, m.last.Errors[c])
		}
	}
	return o
}

// curveTime is for the curves of the default and of another version.
const curveTime = 20 * time.Second

// curves measures latencies at several rates of all that are shown.
func (m *measuring) curves(ctx context.Context) error {
	for _, v := range m.shown()[1:] {
		m.last.Best = m.candidate(v)
		m.last.Curves(ctx, &m.bench, curveTime)
	}
	return ctx.Err()
}

// shown are the default, the best of the grid and the worst choice, each once.
func (m *measuring) shown() (list []int64) {
	for _, v := range []int64{1, m.best, worst(m.compared).version} {
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// worst is the tuning whose choice is the worst.
func worst(list []tuning) tuning { return slices.MinFunc(list, byShare) }

// best is the tuning whose choice is the best.
func best(list []tuning) tuning { return slices.MaxFunc(list, byShare) }

// byShare orders choices by how good they are. Those that miss a bound come first.
func byShare(a, b tuning) int {
	return cmp.Or(cmp.Compare(a.share(), b.share()), cmp.Compare(a.gain, b.gain))
}

// versionsOf are the versions that were chosen, each once.
func versionsOf(list []tuning) (versions []int64) {
	for _, t := range list {
		if !slices.Contains(versions, t.version) {
			versions = append(versions, t.version)
		}
	}
	return versions
}

// storeGrid stores the candidates of the grid, and returns their versions, the default first.
func (m *measuring) storeGrid(ctx context.Context) ([]int64, error) {
	if len(m.parts) > 1 {
		return m.storeEnsembles(ctx)
	}
	return m.storeAll(ctx, m.parts[0], tune.Cores, tune.Batching)
}

// storeAll stores all combinations of a model's settings of some axes.
func (m *measuring) storeAll(ctx context.Context, p stored, axes ...string) ([]int64, error) {
	detail, err := m.client.Version(ctx, edgewise.ModelID{Name: p.name, Version: 1})
	if err != nil {
		return nil, err
	}
	list, err := tune.Grid(p.files[configFile], detail.Config, edgewise.Format{}, m.Cores, axes...)
	if err != nil {
		return nil, err
	}
	if m.Busy {
		list = list[:min(len(list), 4)]
	}
	versions := []int64{1}
	for _, one := range list[1:] {
		v, err := m.client.Push(ctx, upload(p.name, p.files.with(one.Text)), false, nil)
		if err != nil {
			return nil, err
		}
		versions = append(versions, v.Version)
		if p.name == m.model {
			m.names[v.Version] = one.Name
		}
	}
	return versions, nil
}

// storeEnsembles stores ensembles of all combinations of how both models use the cores.
func (m *measuring) storeEnsembles(ctx context.Context) ([]int64, error) {
	first, err := m.storeAll(ctx, m.parts[0], tune.Cores)
	if err != nil {
		return nil, err
	}
	second, err := m.storeAll(ctx, m.parts[1], tune.Cores)
	if err != nil {
		return nil, err
	}
	both, versions := m.parts[2], []int64{1}
	for _, a := range first {
		for _, b := range second {
			if a == first[0] && b == second[0] {
				continue
			}
			text := string(both.files[configFile])
			for _, v := range []int64{a, b} {
				text = strings.Replace(text, "model_version: -1", fmt.Sprintf("model_version: %d", v), 1)
			}
			v, err := m.client.Push(ctx, upload(both.name, files{configFile: []byte(text)}), false, nil)
			if err != nil {
				return nil, err
			}
			versions = append(versions, v.Version)
			m.names[v.Version] = fmt.Sprintf("version %d of first, %d of second", a, b)
		}
	}
	return versions, nil
}
