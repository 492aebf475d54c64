package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/idle"
)

const cores = 2

// setting is what a candidate of the tests says.
type setting struct {
	threads, instances, batch int
	spin                      bool
	delay                     float64 // milliseconds
	outside                   bool
	graph                     int
}

// runs, batches and places are the values of the axes.
var (
	runs = []setting{
		{threads: 1, instances: 2},
		{threads: 1, instances: 1},
		{threads: 2, instances: 1},
		{threads: 2, instances: 1, spin: true},
		{threads: 2, instances: 2},
		{threads: 1, instances: 4},
	}
	batches = []setting{
		{batch: 1},
		{batch: 4},
		{batch: 8},
		{batch: 16},
		{batch: 32},
		{batch: 4, delay: 1},
		{batch: 8, delay: 1},
		{batch: 16, delay: 2},
		{batch: 32, delay: 5},
	}
	graphs = []int{0, 1, 2, 3}
)

func axes() []Axis {
	names := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint(i))
		}
		return list
	}
	return []Axis{
		{"run", names(len(runs))}, {"batch", names(len(batches))}, {"place", names(2)}, {"graph", names(len(graphs))},
	}
}

func settingOf(c Candidate) setting {
	s, b := runs[c.At(0)], batches[c.At(1)]
	s.batch, s.delay, s.outside, s.graph = b.batch, b.delay, c.At(2) == 0, graphs[c.At(3)]
	return s
}

// surface is a model of which everything is known.
type surface struct {
	name     string
	row      float64 // milliseconds of one thread for a row
	fixed    float64 // of a run
	parallel float64 // part that several threads share
	batched  float64 // what a row of a batch takes, as a part of a single one
	outside  float64 // what a process of its own adds to a run
	plain    float64 // what each lower graph level adds
	eager    bool    // a batch has only the requests that wait: few at half of the load
}

var surfaces = []surface{
	{"tiny MLP", 0.005, 0.03, 0, 0.2, 0.06, 0.05, false},
	{"MobileNetV2", 5, 0.1, 0.7, 0.95, 0.1, 0.15, false},
	{"ResNet-50", 60, 0.2, 0.97, 0.9, 0.3, 0.1, false},
	{"OCR detect", 90, 0.3, 0.8, 1.05, 0.4, 0.2, false},
	{"OCR recognise", 12, 0.2, 0.6, 0.6, 0.15, 0.1, false},
	{"threads that need batches", 60, 0.2, 0.9, 0.9, 0.3, 0.1, true},
	{"VAD", 0.3, 0.1, 0.1, 0.5, 0.08, -0.02, false},
}

// run is how long a run with so many rows takes, in milliseconds.
func (f surface) run(s setting, rows float64) float64 {
	threads := math.Min(float64(s.threads), cores)
	crowded := math.Max(1, float64(s.threads*s.instances)/cores)
	speed := 1 - f.parallel + f.parallel/threads
	if s.threads > 1 && !s.spin {
		speed += 0.05
	}
	fixed := f.fixed
	if s.outside {
		fixed += f.outside
	}
	work := f.row * (1 + f.plain*float64(s.graph)) * (1 + (rows-1)*f.batched)
	return fixed + work*speed*(1+(crowded-1)*1.1)
}

func (f surface) throughput(s setting) float64 {
	return float64(s.instances) * float64(s.batch) / f.run(s, float64(s.batch)) * 1000
}

// latency is the p50 and the p99 latency at a rate.
func (f surface) latency(s setting, rate float64) (p50, p99 float64) {
	load := rate / f.throughput(s)
	if load >= 0.999 {
		return 1e5, 1e5
	}
	rows := float64(s.batch)
	if f.eager {
		rows = 1 + load*load*(rows-1)
	}
	one, wait := f.run(s, 1), load/(1-load)*f.run(s, rows)/float64(s.instances)
	delay := s.delay * math.Min(1, 1/(0.2+load*float64(s.batch)/4))
	return one + delay + 0.4*wait, one*1.1 + delay + 3*wait
}

// energy is what a request takes at a rate, in joules, its part of what the idle machine takes included.
func (f surface) energy(s setting, rate float64) float64 {
	idle := 10.0
	if s.spin {
		idle = 25
	}
	rows := 1 + math.Min(rate/f.throughput(s), 1)*float64(s.batch-1)
	return idle/rate + 20*math.Min(float64(s.threads), cores)*f.run(s, rows)/rows/1000
}

// memory of a candidate, in bytes.
func (f surface) memory(s setting) int64 {
	return int64(100+20*s.instances+10*s.threads+s.batch) << 20
}

// bench measures a surface in virtual time.
type bench struct {
	surface
	seed   uint64
	random *rand.Rand
	noise  float64
	hidden float64       // how many times as large the noise is as its confidence says; 0: 1
	same   bool          // all candidates are alike
	opens  time.Duration // how long it takes to open a candidate; 0: 600 ms
	open   int
	wrong  func(setting) bool
	busy   func() time.Duration // for how long clients need the machine from now on
}

func (b *bench) Quiet(ctx context.Context) error {
	if b.busy != nil {
		for d := b.busy(); d > 0; d = b.busy() {
			time.Sleep(d)
		}
	}
	return ctx.Err()
}

func (b *bench) Open(ctx context.Context, c Candidate) (Session, error) {
	time.Sleep(cmp.Or(b.opens, 600*time.Millisecond))
	if b.wrong != nil && b.wrong(settingOf(c)) {
		return nil, &Excluded{Reason: "output \"y\" differs", Wrong: true}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	b.open++
	if b.same {
		c = Candidate(make([]byte, len(c)))
	}
	return &session{b, settingOf(c)}, nil
}

type session struct {
	*bench
	s setting
}

func (s *session) Close()        { s.open-- }
func (s *session) Memory() int64 { return s.memory(s.s) }

func (s *session) pass(d time.Duration) error {
	time.Sleep(d)
	if s.busy != nil && s.busy() > 0 {
		return idle.ErrTraffic
	}
	return nil
}

// about is a value with noise, half of which comes from the arrivals in a round, which all candidates share.
func (s *session) about(v, noise float64, n, round int) Estimate {
	sd := noise * s.noise / math.Sqrt(math.Max(float64(n), 1)/100)
	shared := rand.New(rand.NewPCG(s.seed, uint64(round))).NormFloat64()
	v *= math.Exp(max(s.hidden, 1) * sd * math.Sqrt(0.5) * (s.random.NormFloat64() + shared))
	return Estimate{v, v * math.Exp(-2*sd), v * math.Exp(2*sd)}
}

func (s *session) Saturate(_ context.Context, d time.Duration) (Estimate, error) {
	t := s.throughput(s.s)
	return s.about(t, 0.02, int(t*d.Seconds()), -1), s.pass(d)
}

func (s *session) Offer(_ context.Context, rate float64, d time.Duration, round int) (Point, error) {
	n := int(rate * d.Seconds())
	p50, p99 := s.latency(s.s, rate)
	noise := rand.New(rand.NewPCG(s.seed, uint64(n+round))).NormFloat64()
	energy := s.energy(s.s, rate) * math.Exp(0.01*s.noise*noise)
	return Point{Rate: rate, P50: s.about(p50, 0.05, n, round), P99: s.about(p99, 0.1, n, round), Requests: n, Energy: energy}, s.pass(d)
}

// truth is what would be measured of a candidate without noise.
func (b *bench) truth(c Candidate, o Objective, current float64) *Measured {
	s := settingOf(c)
	t := b.throughput(s)
	m := &Measured{Throughput: Estimate{t, t, t}, Memory: b.memory(s)}
	for part := lightest; part < 0.999; part += 0.005 {
		p50, p99 := b.latency(s, part*t)
		m.Points = append(m.Points, Point{Rate: part * t, P50: Estimate{p50, p50, p50}, P99: Estimate{p99, p99, p99}})
	}
	rate := o.rate(current)
	p50, p99 := b.latency(s, rate)
	m.Points = append(m.Points, Point{
		Rate: rate, P50: Estimate{p50, p50, p50}, P99: Estimate{p99, p99, p99}, Energy: b.energy(s, rate),
	})
	return m
}

// grid judges every candidate there is, and returns the best gain, and the gain of one that was chosen.
func (b *bench) grid(o Objective, chosen Candidate) (best, gain float64, kept bool) {
	base := Candidate(make([]byte, 4))
	current := b.throughput(settingOf(base))
	reference := o.judge(b.truth(base, o, current), current)
	for r := range runs {
		for n := range batches {
			for p := range 2 {
				for g := range graphs {
					c := base.with(0, r).with(1, n).with(2, p).with(3, g)
					q := o.judge(b.truth(c, o, current), current)
					if q.violation == 0 {
						best = math.Max(best, o.gain(q, reference))
					}
					if c == chosen { // a bound that is missed by less than the noise is kept
						gain, kept = o.gain(q, reference), q.violation < 0.03
					}
				}
			}
		}
	}
	return best, gain, kept
}

func objectives(f surface) map[string]Objective {
	base := f.throughput(settingOf(Candidate(make([]byte, 4))))
	bound := time.Duration(4 * f.run(runs[0], 1) * float64(time.Millisecond))
	return map[string]Objective{
		"default": {}, "p99": {P99: bound}, "floor": {Throughput: 0.8 * base},
		"weights": {Weights: Weights{Latency: 1, Throughput: 1, Memory: 0.5}},
	}
}

// searchTime is the time of a search within the five minutes of a tuning: the rest is for the curves of its report.
const searchTime = 264 * time.Second

func search(t *testing.T, b *bench, o Objective) *Found {
	t.Helper()
	return searchFor(t, b, o, searchTime)
}

func searchFor(t *testing.T, b *bench, o Objective, limit time.Duration) *Found {
	t.Helper()
	found, err := Search{Axes: axes(), Objective: o, Bench: b, Limit: limit}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b.open != 0 {
		t.Errorf("%d candidates are left open", b.open)
	}
	return found
}

func TestTheChoiceIsWithinTenPercentOfAnExhaustiveGridsBest(t *testing.T) {
	for _, f := range surfaces {
		for name, o := range objectives(f) {
			t.Run(f.name+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					least, most := math.Inf(1), 0.0
					for seed := range uint64(10) {
						b := &bench{surface: f, seed: seed, random: rand.New(rand.NewPCG(seed, 7)), noise: 1}
						began := time.Now()
						found := search(t, b, o)
						best, gain, kept := b.grid(o, found.Best)
						if !kept || gain < best*0.9 {
							t.Errorf("seed %d: gain %.3f with %+v (bounds kept: %v), and the grid's best is %.3f: %s", seed, gain,
								settingOf(found.Best), kept, best, found.Reason)
						}
						least, most = math.Min(least, gain), math.Max(most, gain)
						if took := time.Since(began); took > 5*time.Minute {
							t.Errorf("it took %v", took)
						} else if seed == 0 {
							t.Logf("%+v: gain %.3f of %.3f, %d measured of %d, %v", settingOf(found.Best), gain, best,
								len(found.Measured), len(runs)*len(batches)*2*len(graphs), took.Round(time.Second))
						}
					}
					if least < most*0.95 {
						t.Errorf("ten searches found gains from %.3f to %.3f", least, most)
					}
				})
			})
		}
	}
}

func TestTheChoiceForPowerTakesTheLeastEnergyWithinTenPercentOfTheGridsBest(t *testing.T) {
	for _, f := range surfaces {
		base := f.throughput(settingOf(Candidate(make([]byte, 4))))
		for name, o := range map[string]Objective{
			"alone": {Weights: Weights{Power: 1}}, "with a floor": {Throughput: 0.5 * base, Weights: Weights{Power: 1}},
		} {
			t.Run(f.name+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					for seed := range uint64(3) {
						b := &bench{surface: f, seed: seed, random: rand.New(rand.NewPCG(seed, 7)), noise: 1}
						found := search(t, b, o)
						if best, gain, kept := b.grid(o, found.Best); !kept || gain < best*0.9 {
							t.Errorf("seed %d: gain %.3f with %+v (bounds kept: %v), and the grid's best is %.3f: %s", seed, gain,
								settingOf(found.Best), kept, best, found.Reason)
						}
					}
				})
			})
		}
	}
}

func TestAnImpossibleBoundNamesTheNearestCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{surface: surfaces[2], random: rand.New(rand.NewPCG(1, 1)), noise: 1}
		found := search(t, b, Objective{P99: time.Millisecond})
		want := "no candidate keeps the p99 latency below 1ms: of the nearest one its p99 latency is "
		if found.Best.Changes() != 0 || !strings.Contains(found.Reason, want) {
			t.Errorf("%v: %s", found.Best, found.Reason)
		}
	})
}

func TestABoundThatWasKeptAtNoRateIsNotTakenForKept(t *testing.T) {
	for _, f := range surfaces {
		synctest.Test(t, func(t *testing.T) {
			f.row, f.parallel = f.row/100, 0 // so fast that the rates are bounded
			b := &bench{surface: f, random: rand.New(rand.NewPCG(1, 1)), noise: 1}
			found, err := Search{
				Axes: axes(), Objective: Objective{P99: time.Microsecond}, Bench: b, Limit: 12 * time.Second,
			}.Run(t.Context())
			if err != nil || found.Best.Changes() != 0 || !strings.Contains(found.Reason, "no candidate keeps the p99 latency below 1µs") {
				t.Errorf("%s: %+v, %v", f.name, found, err)
			}
		})
	}
}

func TestACandidateWithOtherAnswersIsNeverChosen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := surfaces[5] // lower graph levels are faster
		b := &bench{surface: f, random: rand.New(rand.NewPCG(1, 1)), noise: 1, wrong: func(s setting) bool { return s.graph > 0 }}
		found := search(t, b, Objective{Weights: Weights{Latency: 1}})
		if settingOf(found.Best).graph != 0 {
			t.Errorf("%+v is chosen", settingOf(found.Best))
		}
		wrong := 0
		for c, e := range found.Excluded {
			if settingOf(c).graph == 0 || !e.Wrong {
				t.Errorf("%+v is excluded: %v", settingOf(c), e)
			}
			wrong++
		}
		if wrong == 0 {
			t.Error("none was tried")
		}
	})
}

func TestWhereTheCurrentConfigurationIsTheBestItStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flat := surface{"flat", 10, 0, 0, 1, 0, 0.2, false}
		for seed := range uint64(10) {
			b := &bench{surface: flat, seed: seed, random: rand.New(rand.NewPCG(seed, 3)), noise: 1}
			found := search(t, b, Objective{})
			if found.Best.Changes() != 0 || found.Gain != 1 || !strings.Contains(found.Reason, "current configuration is the best") {
				t.Errorf("seed %d: %+v, gain %.2f: %s", seed, settingOf(found.Best), found.Gain, found.Reason)
			}
		}
	})
}

// TestNoiseIsNoReasonToChange searches among candidates that are all alike, on a machine whose noise is larger than what is
// measured within a rung says, with much time and with little.
func TestNoiseIsNoReasonToChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const searches = 100
		for _, limit := range []time.Duration{5 * time.Minute, time.Minute, 20 * time.Second} {
			for _, hidden := range []float64{1, 4} {
				changed := 0
				for seed := range uint64(searches) {
					b := &bench{
						surface: surfaces[0], seed: seed, random: rand.New(rand.NewPCG(seed, 5)), noise: 2, hidden: hidden, same: true,
					}
					if found := searchFor(t, b, Objective{Throughput: 50}, limit); found.Best.Changes() != 0 {
						changed++
					}
				}
				if changed > searches/20 {
					t.Errorf("noise %g times as large as it seems, %v: %d of %d searches change the configuration", hidden, limit, changed,
						searches)
				}
				t.Logf("%g, %v: %d of %d", hidden, limit, changed, searches)
			}
		}
	})
}

// TestWhatEveryRoundShowsIsClear has two rounds of each, of which those of the current configuration differ by a factor of
// four: its machine was busy.
func TestWhatEveryRoundShowsIsClear(t *testing.T) {
	rounds := func(rungs int, latencies ...float64) *Measured {
		m := &Measured{Throughput: Estimate{4000, 3900, 4100}, rungs: rungs}
		for _, ms := range latencies {
			m.latencies = append(m.latencies, math.Log(ms))
			m.Points = joined(m.Points, Point{Rate: 50, P50: Estimate{ms, ms, ms}, Requests: 30})
		}
		return m
	}
	busy := rounds(2, 97, 416)
	for _, test := range []struct {
		name        string
		base, other *Measured
		objective   Objective
		clear       bool
	}{
		{"a hundred times as good", busy, rounds(2, 1.8, 1.9), Objective{Throughput: 50}, true},
		{"by little", rounds(2, 3, 4.2), rounds(2, 2.7, 2.9), Objective{Throughput: 50}, false},
		{"a round of it was as slow", busy, rounds(2, 60, 1.8), Objective{Throughput: 50}, false},
		{"a round of it answered nothing", busy, rounds(2, 1.8), Objective{Throughput: 50}, false},
		{"a bound that rounds do not tell of", busy, rounds(2, 1.8, 1.9), Objective{P99: time.Millisecond}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			base, other := Candidate("\x00"), Candidate("\x01")
			r := &running{Search: Search{Objective: test.objective}, base: base, current: 4000}
			r.found.Measured = map[Candidate]*Measured{base: test.base, other: test.other}
			if got := r.clear(other); got != test.clear {
				t.Errorf("clear: %v", got)
			}
		})
	}
}

// TestWhatARoundHasInCommonIsNoNoise has rounds that differ by a factor of two, for all candidates alike.
func TestWhatARoundHasInCommonIsNoNoise(t *testing.T) {
	base := rounds([3]float64{4000, 2600, 3300}, [3]float64{20, 40, 30})
	for _, test := range []struct {
		name  string
		other *Measured
		gain  float64
		clear bool
	}{
		{"always better", rounds([3]float64{4000, 2600, 3300}, [3]float64{17.5, 36, 26.5}), 1.13, true},
		{"as much better, but not always", rounds([3]float64{4000, 2600, 3300}, [3]float64{17.5, 43, 21}), 1.14, false},
		{"always worse", rounds([3]float64{4000, 2600, 3300}, [3]float64{24, 47, 37}), 0.83, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &running{base: Candidate("\x00"), current: 4000}
			other := Candidate("\x01")
			r.found.Measured = map[Candidate]*Measured{r.base: base, other: test.other}
			if gain, _ := r.compared(other); math.Abs(gain/test.gain-1) > 0.03 || r.clear(other) != test.clear {
				t.Errorf("gain %.3f, clear: %v", gain, r.clear(other))
			}
		})
	}
}

// TestTheLeaderIsTheBestWhateverTheNoise chooses between the current configuration and another one.
func TestTheLeaderIsTheBestWhateverTheNoise(t *testing.T) {
	current := rounds([3]float64{4000, 4010, 3990}, [3]float64{20, 40, 30})
	for _, test := range []struct {
		name         string
		other        *Measured
		best, leader Candidate
	}{
		{"clearly better", rounds([3]float64{4000, 4010, 3990}, [3]float64{10, 20, 15}), "\x01", "\x01"},
		{"better, but not clearly", rounds([3]float64{4000, 4010, 3990}, [3]float64{17.5, 43, 21}), "\x00", "\x01"},
		{"better, but it may carry too little", rounds([3]float64{3790, 3795, 3780}, [3]float64{17.5, 43, 21}), "\x00", "\x00"},
		{"worse", rounds([3]float64{4000, 4010, 3990}, [3]float64{24, 47, 37}), "\x00", "\x00"},
	} {
		t.Run(test.name, func(t *testing.T) {
			base, other := Candidate("\x00"), Candidate("\x01")
			r := &running{base: base, found: Found{
				Measured: map[Candidate]*Measured{base: current, other: test.other}, Missed: map[Candidate]string{},
				Doubtful: map[Candidate]bool{}, Gains: map[Candidate]float64{}, Errors: map[Candidate]float64{},
			}}
			r.choose([]Candidate{other, base})
			if f := r.found; f.Best != test.best || f.Leader != test.leader {
				t.Errorf("best %q, leader %q: %s, missed %q", f.Best, f.Leader, f.Reason, f.Missed[other])
			}
		})
	}
}

// TestTheBestThatIsClearIsChosen compares two candidates with the current configuration.
func TestTheBestThatIsClearIsChosen(t *testing.T) {
	none, one, two := Candidate("\x00\x00"), Candidate("\x01\x00"), Candidate("\x01\x01")
	throughputs := [3]float64{4000, 4010, 3990}
	current := [3]float64{90, 89, 110}
	busy := [3]float64{1.2, 1.2, 60} // other programs had the machine in its last round
	for _, test := range []struct {
		name       string
		one, two   [3]float64 // latencies of their rounds
		best       Candidate
		least, top float64 // gain
	}{
		{"both are clear", [3]float64{1.2, 1.3, 1.6}, [3]float64{2.4, 2.6, 3.2}, one, 60, 90},
		{"only the second one is", busy, [3]float64{1.7, 1.8, 3.1}, two, 40, 60},
		{"the one with fewer changes is as good, and is not", busy, [3]float64{1.2, 1.2, 1.5}, two, 60, 90},
		{"none is", busy, [3]float64{95, 87, 120}, none, 1, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &running{base: none, found: Found{
				Measured: map[Candidate]*Measured{
					none: rounds(throughputs, current), one: rounds(throughputs, test.one), two: rounds(throughputs, test.two),
				},
				Missed: map[Candidate]string{}, Doubtful: map[Candidate]bool{}, Gains: map[Candidate]float64{}, Errors: map[Candidate]float64{},
			}}
			r.choose([]Candidate{one, two})
			if f := r.found; f.Best != test.best || f.Gain < test.least || f.Gain > test.top || (f.Reason == "") != (f.Best != none) {
				t.Errorf("best %q, gain %.3g: %q, all %v", f.Best, f.Gain, f.Reason, f.Gains)
			}
		})
	}
}

func TestTheLastComparisonHasThreeRoundsWhereVersionsLoadSlowly(t *testing.T) {
	for _, f := range surfaces {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{surface: f, random: rand.New(rand.NewPCG(1, 7)), noise: 1, opens: 5 * time.Second}
				rounds := map[Candidate]int{}
				_, err := Search{Axes: axes(), Bench: b, Limit: 2 * time.Minute, Tried: func(c Candidate, phase string) {
					if phase == "comparison of the best" {
						rounds[c]++
					}
				}}.Run(t.Context())
				for c, n := range rounds {
					if n < leastFinal {
						t.Errorf("%+v was compared in %d rounds", settingOf(c), n)
					}
				}
				if err != nil || len(rounds) < 2 {
					t.Errorf("%d candidates were compared, %v", len(rounds), err)
				}
			})
		})
	}
}

func TestAllThatIsComparedIsMeasuredInEachRound(t *testing.T) {
	for _, rounds := range []int{1, 5, 8, 100} {
		for _, limit := range []time.Duration{15 * time.Second, 10 * time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{surface: surfaces[0], random: rand.New(rand.NewPCG(1, 7)), noise: 1, opens: time.Second}
				found, err := Search{Axes: axes(), Bench: b, Limit: limit}.Compare(t.Context(), rounds)
				if err != nil {
					t.Fatal(err)
				}
				least, most := mostFinal, 0
				for v := range axes()[0].Values {
					m := found.Measured[Candidate([]byte{byte(v), 0, 0, 0})]
					if m == nil {
						t.Fatalf("value %d was not measured", v)
					}
					least, most = min(least, m.rungs), max(most, m.rungs)
				}
				if most-least > 1 || limit > time.Minute && least < min(rounds, mostFinal) || found.Took > limit {
					t.Errorf("%d to %d of %d rounds in %v of %v", least, most, rounds, found.Took, limit)
				}
				if rounds >= mostFinal && limit > time.Minute && found.Took < limit*4/5 {
					t.Errorf("the most rounds take %v of %v: they can be longer", found.Took, limit)
				}
			})
		}
	}
}

func TestCurvesTakeNoLongerThanTheirLimit(t *testing.T) {
	for _, c := range []struct {
		opens, limit time.Duration
		most         int // rates of each candidate
	}{
		{100 * time.Millisecond, 30 * time.Second, 6}, {time.Second, 30 * time.Second, 6}, {time.Second, 6 * time.Second, 4},
		{5 * time.Second, 6 * time.Second, 1},
	} {
		t.Run(fmt.Sprintf("%v to load in %v", c.opens, c.limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{surface: surfaces[0], random: rand.New(rand.NewPCG(1, 7)), opens: c.opens}
				base := Candidate(make([]byte, 4))
				f := &Found{Best: base.with(0, 1), Measured: map[Candidate]*Measured{}}
				for _, one := range []Candidate{base, f.Best} {
					f.Measured[one] = &Measured{Throughput: Estimate{100, 100, 100}}
				}
				began := time.Now()
				f.Curves(t.Context(), b, c.limit)
				late := 2*c.opens + c.limit/7 // loading, and the lowest rate of each
				if took := time.Since(began); took > max(c.limit, late) || b.open != 0 {
					t.Errorf("it took %v, and %d candidates are left open", took, b.open)
				}
				for one, m := range f.Measured {
					if len(m.Points) != c.most {
						t.Errorf("%v has %d rates and %d are wanted", one, len(m.Points), c.most)
					}
				}
			})
		})
	}
}

// TestTwiceTheNoiseHidesNoGain searches for the best of ResNet-50 with a floor of the throughput, on a machine with twice the
// noise, half of which all candidates of a round have in common.
func TestTwiceTheNoiseHidesNoGain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const searches, most = 30, 5
		f, missed := surfaces[2], 0
		o := objectives(f)["floor"]
		for seed := range uint64(searches) {
			b := &bench{surface: f, seed: seed, random: rand.New(rand.NewPCG(seed, 7)), noise: 2}
			found := search(t, b, o)
			if best, gain, kept := b.grid(o, found.Best); !kept || gain < best*0.9 {
				missed++
			}
		}
		if t.Logf("%d of %d", missed, searches); missed > most {
			t.Errorf("%d of %d searches miss the best by more than a tenth", missed, searches)
		}
	})
}

// TestTheLastComparisonHasRoundsEnough searches a model of microseconds within a minute. The search before the last
// comparison must leave time for its rounds.
func TestTheLastComparisonHasRoundsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, o := range objectives(surfaces[0]) {
			b := &bench{surface: surfaces[0], random: rand.New(rand.NewPCG(1, 1)), noise: 1}
			found := searchFor(t, b, o, time.Minute)
			if rounds := found.Measured[Candidate(make([]byte, 4))].rungs; rounds < leastFinal {
				t.Errorf("%s: the current configuration was compared %d times: want %d", name, rounds, leastFinal)
			}
		}
	})
}

// TestASearchEndsWithinItsLimit has candidates that take long to open, as large models do.
func TestASearchEndsWithinItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, opens := range []time.Duration{time.Second, 3 * time.Second, 7 * time.Second, 11 * time.Second} {
			for _, f := range surfaces {
				for name, o := range objectives(f) {
					for seed := range uint64(3) {
						b := &bench{surface: f, opens: opens, seed: seed, random: rand.New(rand.NewPCG(seed, 3)), noise: 1}
						if took := search(t, b, o).Took; took > 5*time.Minute {
							t.Errorf("%s, %s: opened in %v, it took %v", f.name, name, opens, took)
						}
					}
				}
			}
		}
	})
}

// rounds makes what three rungs have found: requests per second, and milliseconds.
func rounds(throughputs, latencies [3]float64) *Measured {
	m := &Measured{}
	for i, v := range throughputs {
		m.Throughput = merged(m.Throughput, i, Estimate{v, v * 0.99, v * 1.01})
		m.throughputs = append(m.throughputs, math.Log(v))
		ms := latencies[i]
		m.latencies = append(m.latencies, math.Log(ms))
		m.Points = joined(m.Points, Point{Rate: 2000, P50: Estimate{ms, ms, ms}, Requests: 1000})
		m.rungs++
	}
	return m
}

// TestNoiseEndsNoComparison has three rounds of each, as clients of two tiny networks saw them on a noisy machine.
func TestNoiseEndsNoComparison(t *testing.T) {
	for _, test := range []struct {
		name        string
		base, other *Measured
		decided     bool
	}{
		{
			"the current configuration carried more before",
			rounds([3]float64{4000, 4300, 3900}, [3]float64{2, 3, 2.5}),
			rounds([3]float64{4200, 4100, 4500}, [3]float64{1.6, 3.1, 1.9}),
			false,
		},
		{
			"the other one may carry as much",
			rounds([3]float64{4100, 5270, 4520}, [3]float64{2.3, 1.7, 1.8}),
			rounds([3]float64{4180, 4290, 3820}, [3]float64{2.2, 2, 2.4}),
			false,
		},
		{
			"a round in which others had the machine",
			rounds([3]float64{4000, 4010, 3990}, [3]float64{2, 8, 2.1}),
			rounds([3]float64{4000, 3990, 4010}, [3]float64{2, 2.2, 2.1}),
			false,
		},
		{
			"the other one carries half",
			rounds([3]float64{4000, 4010, 3990}, [3]float64{2, 3, 2.5}),
			rounds([3]float64{2000, 2010, 1990}, [3]float64{1.6, 2.4, 1.9}),
			true,
		},
		{
			"alike within little noise",
			rounds([3]float64{4000, 4010, 3990}, [3]float64{2, 2.01, 2}),
			rounds([3]float64{4000, 4010, 3990}, [3]float64{2, 2.01, 2}),
			true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			base, other := Candidate("\x00"), Candidate("\x01")
			r := &running{base: base, current: 5000}
			r.found.Measured = map[Candidate]*Measured{base: test.base, other: test.other}
			if got := r.decided([]Candidate{other, base}); got != test.decided {
				t.Errorf("decided: %v", got)
			}
		})
	}
}

func TestARoundInWhichOthersHadTheMachineChangesNoGain(t *testing.T) {
	r := rounds([3]float64{4000, 1000, 4010}, [3]float64{2.1, 9, 2})
	q := Objective{}.judge(r, 4000)
	if math.Abs(q.latency-2.1) > 1e-9 || math.Abs(q.throughput-4000) > 1e-9 || q.violation > 0 {
		t.Errorf("%+v", q)
	}
}

func TestTenthsOfAMillisecondAreNoGain(t *testing.T) {
	for _, test := range []struct{ base, latency, gain float64 }{
		{0.6, 0.5, 1}, {0.6, 0.7, 1}, {0.6, 0.51, 1}, {0.6, 0.3, 1.5}, {0.6, 0.9, 0.75}, {20.1, 10, 1.99}, {1, 1e6, 1e-6},
	} {
		got := Objective{}.gain(qualities{latency: test.latency}, qualities{latency: test.base})
		if math.Abs(got/test.gain-1) > 0.01 {
			t.Errorf("%v ms in place of %v ms: gain %.3f, want %v", test.latency, test.base, got, test.gain)
		}
	}
}

func TestASearchThatIsInterruptedMeasuresAgainAndDoesNotCountTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		b := &bench{surface: surfaces[1], random: rand.New(rand.NewPCG(1, 1)), noise: 1}
		b.busy = func() time.Duration { // for 10 s of each 30
			if at := time.Since(began) % (30 * time.Second); at >= 20*time.Second {
				return 30*time.Second - at
			}
			return 0
		}
		found := search(t, b, Objective{})
		best, gain, _ := b.grid(Objective{}, found.Best)
		if found.Paused < time.Minute || found.Took > 5*time.Minute || gain < 0.9*best || found.Cut != "" {
			t.Errorf("paused %v, took %v, gain %.2f of %.2f, cut %q", found.Paused, found.Took, gain, best, found.Cut)
		}
	})
}

func TestASearchEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{surface: surfaces[2], random: rand.New(rand.NewPCG(1, 1)), noise: 1}
		began := time.Now()
		found, err := Search{Axes: axes(), Bench: b, Limit: time.Minute}.Run(t.Context())
		if err != nil || found.Cut == "" || time.Since(began) > 80*time.Second {
			t.Errorf("%+v, %v, after %v", found, err, time.Since(began))
		}
	})
}

func TestASearchThatIsGivenUpLeavesNothingOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		b := &bench{surface: surfaces[2], random: rand.New(rand.NewPCG(1, 1)), noise: 1}
		_, err := Search{Axes: axes(), Bench: b, Limit: time.Minute}.Run(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || b.open != 0 {
			t.Errorf("%v, %d are open", err, b.open)
		}
	})
}

// TestACurrentConfigurationThatFailsInTheEndIsAnError has it fail for the first time when the best ones are compared.
func TestACurrentConfigurationThatFailsInTheEndIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{surface: surfaces[0], noise: 1, random: rand.New(rand.NewPCG(1, 1))}
		final := false
		_, err := Search{
			Axes: axes(), Bench: &failing{bench: b, fails: func(c Candidate) bool { return final && c.Changes() == 0 }}, Limit: 5 * time.Minute,
			Tried: func(_ Candidate, phase string) { final = final || phase == "comparison of the best" },
		}.Run(t.Context())
		var excluded *Excluded
		if !errors.As(err, &excluded) || excluded.Reason != "it does not start" {
			t.Errorf("the search ended with %v", err)
		}
	})
}

// failing is a bench some of whose candidates cannot be opened.
type failing struct {
	*bench
	fails func(Candidate) bool
}

func (f *failing) Open(ctx context.Context, c Candidate) (Session, error) {
	if f.fails(c) {
		return nil, &Excluded{Reason: "it does not start"}
	}
	return f.bench.Open(ctx, c)
}

func TestAGainHasAnIntervalWhereItsErrorIsKnown(t *testing.T) {
	f := Found{
		Gains:  map[Candidate]float64{"\x00": 1, "\x01": 1.2, "\x02": 1.5},
		Errors: map[Candidate]float64{"\x00": 0.1, "\x01": math.Log(1.1) / confident, "\x02": unknown},
	}
	for c, want := range map[Candidate][2]float64{"\x00": {}, "\x01": {1.2 / 1.1, 1.2 * 1.1}, "\x02": {}} {
		low, high := f.Interval(c)
		if math.Abs(low-want[0]) > 1e-9 || math.Abs(high-want[1]) > 1e-9 {
			t.Errorf("%q: %g to %g, want %g to %g", c, low, high, want[0], want[1])
		}
	}
}
