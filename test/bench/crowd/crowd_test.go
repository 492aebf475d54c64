package crowd

import (
	"math"
	"testing"
	"time"
)

// inTurn are requests that come one after the other, a second apart.
func inTurn(models ...int) (all []Asking) {
	start := time.Now()
	for i, m := range models {
		begin := start.Add(time.Duration(i) * time.Second)
		all = append(all, Asking{model: m, begin: begin, end: begin})
	}
	return all
}

func TestWhatIsNeededLastIsGivenUpFirst(t *testing.T) {
	for _, c := range []struct {
		name   string
		asked  []int
		taken  []int64
		memory int64
		loaded []int
		want   float64
	}{
		{"all fit", []int{0, 1, 0, 1}, []int64{1, 1}, 2, nil, 0.5},
		{"all fit, and one is loaded before", []int{0, 1, 0, 1}, []int64{1, 1}, 2, []int{1}, 0.75},
		{"one fits", []int{0, 1, 0, 1}, []int64{1, 1}, 1, nil, 0},
		{"what is loaded before takes memory, too", []int{0, 0, 0, 0}, []int64{1, 1}, 1, []int{1}, 0.75},
		{"the one that is asked for later goes", []int{0, 1, 2, 0, 2, 0, 1}, []int64{1, 1, 1}, 2, nil, 3. / 7},
		{"the large one goes", []int{0, 1, 2, 1, 2, 0}, []int64{4, 1, 1}, 5, nil, 2. / 6},
	} {
		got, atOnce := Foresight{c.memory, c.taken, c.loaded}.Foreseen(inTurn(c.asked...))
		if math.Abs(got-c.want) > 1e-9 || got != atOnce {
			t.Errorf("%s: %v, and %v at once, want %v", c.name, got, atOnce, c.want)
		}
	}
}

// TestWhoComesDuringALoadDoesNotFindTheModelLoaded has loads of model 0 take 1.5 s, and of model 1 nothing that is known.
func TestWhoComesDuringALoadDoesNotFindTheModelLoaded(t *testing.T) {
	all := inTurn(0, 0, 0, 1, 1, 1)
	all[0].wake = 1500 * time.Millisecond
	got, atOnce := Foresight{memory: 2, taken: []int64{1, 1}}.Foreseen(all)
	if want := 2. / 6; math.Abs(got-want) > 1e-9 || math.Abs(atOnce-4./6) > 1e-9 {
		t.Errorf("%v, and %v at once, want %v", got, atOnce, want)
	}
}

func TestATenthHasATenthOfTheSizesAndOfTheirMemory(t *testing.T) {
	full, tenth := NewWorkload(1, 1, 1), NewWorkload(1, 1, 10)
	for i := range full.sizes {
		if full.sizes[i]/10 != tenth.sizes[i] {
			t.Errorf("model %d: %d and %d bytes", i, full.sizes[i], tenth.sizes[i])
		}
	}
	if a, b := (Plan{Scale: 1}).room(), (Plan{Scale: 10}).room(); a != 3<<30 || b != a/10+modelsAtOnce*processBytes*9/10 {
		t.Errorf("%d and %d bytes for models", a, b)
	}
	if (Plan{Scale: 1}).Settings() != nil {
		t.Error("at full size the box finds its bound out")
	}
}

func TestTheWorkloadIsTheSameEachTime(t *testing.T) {
	w, v := NewWorkload(1, 1000, 1), NewWorkload(1, 1000, 1)
	of := map[int]int{}
	for i, m := range w.Asked {
		if v.Asked[i] != m {
			t.Fatalf("request %d is to %d and to %d", i, m, v.Asked[i])
		}
		of[m]++
	}
	if of[0] < 2*of[3] || of[3] < of[39] {
		t.Errorf("the models are asked %v", of)
	}
	for i, n := range w.sizes {
		if n < leastBytes || n > mostBytes || n != v.sizes[i] {
			t.Errorf("model %d has %d bytes", i, n)
		}
	}
}

func TestRequestsAreToldApartByWhetherAModelIsLoadedMeanwhile(t *testing.T) {
	start := time.Now()
	at := func(begin, end int, wake time.Duration) Asking {
		second := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
		return Asking{begin: second(begin), end: second(end), wake: wake}
	}
	woken := at(1, 9, time.Second)
	woken.model = 7
	queued := at(2, 9, 0)
	queued.model = 7
	s := Summarize([]Asking{at(0, 1, 0), woken, at(2, 4, 0), at(8, 11, 0), at(10, 14, 0), queued})
	if s.Woke.N != 2 || s.Hits.N != 4 || s.Beside.N != 2 || s.Alone.N != 2 || s.Alone.Max != 4 || s.Beside.Max != 3 {
		t.Errorf("%+v", s)
	}
}
