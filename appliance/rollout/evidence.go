package rollout

import (
	"math"
	"slices"
	"time"
)

// evidence is a test martingale against the claim that the candidate is no worse: a stake of 1, of which parts are bet
// on the ways in which it may be worse, and the rest is kept. While the claim holds the expected value never rises, so
// the chance that it ever reaches 1/a is at most a, whenever and however often it is looked at (Ville's inequality).
// Decision 0081 has the reasons.
//
// A trial is a yes or a no, of which yes has at most a known chance p while the claim holds. A part that is bet on the
// odds ratio r is multiplied by r/(p*r+1-p) at a yes and by 1/(p*r+1-p) at a no. Of a gain that is 0 at most on average
// while the claim holds, and never below -worst, a part is multiplied by 1+f*gain/worst.
type evidence struct {
	Kept  float64   `json:"kept"`
	Parts []float64 `json:"parts"` // one for each odds ratio
	Last  int64     `json:"last"`  // the window of time of the latest trial, or of the latest yes

	odds []float64 // or the fractions f that are bet on gains
}

// errorOdds are the odds ratios that are bet on against errors, up to nothing but errors.
func errorOdds() []float64 { return []float64{1.5, 2, 4, 16, 64, 1024} }

// slowOdds are those against slow requests.
func slowOdds() []float64 { return []float64{1.2, 1.5, 2, 4} }

// fractions are those of what can be lost at once that are bet on gains: high ones win soon from a large difference, low
// ones from a small one that scatters.
func fractions() []float64 { return []float64{0.9, 0.3, 0.1, 0.03, 0.01, 0.003} }

// most keeps a part finite.
const most = 1e200

// window is how long what has one cause may take, such as the end of a process with requests in flight: of these, one
// counts.
const window = 50 * time.Millisecond

func newEvidence(odds []float64) evidence {
	return evidence{Kept: 1, Parts: make([]float64, len(odds)), Last: math.MinInt64, odds: odds}
}

// resume returns stored evidence for odds, new evidence where it is for others.
func (e evidence) resume(odds []float64) evidence {
	if len(e.Parts) != len(odds) || slices.ContainsFunc(append(e.Parts, e.Kept), func(x float64) bool {
		return !(x >= 0 && x <= most)
	}) {
		return newEvidence(odds)
	}
	e.odds = odds
	return e
}

// stake bets a part of what is kept, in equal parts on each odds ratio. Stakes that come later find a candidate that
// turns bad later, for which earlier ones are spent.
func (e *evidence) stake(part float64) {
	part = min(part, e.Kept)
	e.Kept -= part
	for i := range e.Parts {
		e.Parts[i] += part / float64(len(e.Parts))
	}
}

// compare counts an event of which a share goes to the candidate by chance. The first of a window counts. It tells
// whether the evidence has grown.
func (e *evidence) compare(at time.Time, share float64, candidate bool) bool {
	if !e.fresh(at) {
		return false
	}
	e.trial(share, candidate)
	return candidate
}

// rate counts a trial of which yes has at most the chance p. The first yes of a window counts. It tells whether the
// evidence has grown.
func (e *evidence) rate(at time.Time, p float64, yes bool) bool {
	if yes && !e.fresh(at) {
		return false
	}
	e.trial(p, yes)
	return yes
}

// fresh tells whether a time is in another window than the one before.
func (e *evidence) fresh(at time.Time) bool {
	now := at.UnixNano() / int64(window)
	before := e.Last
	e.Last = now
	return now != before
}

func (e *evidence) trial(p float64, yes bool) {
	if p <= 0 || p >= 1 {
		return
	}
	for i, r := range e.odds {
		factor := 1 / (p*r + 1 - p)
		if yes {
			factor *= r
		}
		e.Parts[i] = min(e.Parts[i]*factor, most)
	}
}

// bet counts a gain, and tells whether the evidence has grown.
func (e *evidence) bet(gain, worst float64) bool {
	for i, f := range e.odds {
		e.Parts[i] = min(e.Parts[i]*(1+f*gain/worst), most)
	}
	return gain > 0
}

// value returns what the stake has become.
func (e *evidence) value() float64 {
	sum := e.Kept
	for _, part := range e.Parts {
		sum += part
	}
	return sum
}

// upperBound returns what the chance of an event is below, but for one case in a thousand, after it came k times of n.
func upperBound(k, n uint64) float64 {
	if n == 0 {
		return 1
	}
	l, x := math.Log(1000), float64(k) // Chernoff
	return min(1, (x+l+math.Sqrt(l*l+2*x*l))/float64(n))
}
