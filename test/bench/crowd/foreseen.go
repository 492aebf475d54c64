package crowd

import "time"

// Foresight is what a policy has that knows all later requests: what the box has, beside that knowledge.
type Foresight struct {
	memory int64   // for models, in bytes
	taken  []int64 // by each model, while it is loaded
	loaded []int   // the models that are loaded before the first request
}

// Foreseen is the share of requests that find their model loaded by that policy. The one is given up for which its bytes
// times the requests until its next one make the most. Requests come when they came to the box, loads take as long as
// those of the same model did there, and who comes meanwhile does not find it loaded, as in Summarize. atOnce is the
// share if loads took no time.
func (f Foresight) Foreseen(all []Asking) (share, atOnce float64) {
	const never = 2
	next, last := make([]int, len(all)), map[int]int{}
	for i := len(all) - 1; i >= 0; i-- {
		next[i] = never * len(all)
		if n, ok := last[all[i].model]; ok {
			next[i] = n
		}
		last[all[i].model] = i
	}
	loaded, used := map[int]int{}, int64(0)
	for _, m := range f.loaded {
		loaded[m], used = never*len(all), used+f.taken[m]
		if n, ok := last[m]; ok {
			loaded[m] = n
		}
	}
	takes, there, found, soon := loadTimes(all), map[int]time.Time{}, 0, 0
	for i, a := range all {
		m := a.model
		if _, ok := loaded[m]; ok {
			soon++
			if !a.begin.Before(there[m]) {
				found++
			}
			loaded[m] = next[i]
			continue
		}
		for used += f.taken[m]; used > f.memory && len(loaded) > 0; {
			worst, product := -1, -1.0
			for other, at := range loaded {
				if p := float64(at-i) * float64(f.taken[other]); p > product {
					worst, product = other, p
				}
			}
			used -= f.taken[worst]
			delete(loaded, worst)
		}
		loaded[m], there[m] = next[i], a.begin.Add(takes(m))
	}
	return float64(found) / float64(len(all)), float64(soon) / float64(len(all))
}

// loadTimes returns how long the loads of each model took: the middle of those of all models where it had none.
func loadTimes(all []Asking) func(model int) time.Duration {
	of, sum, n := map[int][]float64{}, []float64(nil), 0
	for _, a := range all {
		if a.wake > 0 {
			of[a.model], sum = append(of[a.model], a.wake.Seconds()), append(sum, a.wake.Seconds())
			n++
		}
	}
	middle := func(seconds []float64) time.Duration {
		return time.Duration(quantiles(seconds).P50 * float64(time.Second))
	}
	usual := middle(sum)
	return func(model int) time.Duration {
		if list := of[model]; len(list) > 0 {
			return middle(list)
		}
		return usual
	}
}
