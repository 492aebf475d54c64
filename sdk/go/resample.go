package step

import (
	"math"
	"strconv"
)

// A windowed sinc: 24 zero crossings a side, a Kaiser window, about 90 dB of stop band. All SDKs compute it in the same
// order, so that their answers are the same to the bit. The conversions of products keep a processor from fusing them.
const (
	resampleZeros  = 24
	resampleBeta   = 8.6
	resampleBand   = 0.95
	resamplePhases = 4096 // fractions of a sample of the lower rate at which an output sample may lie; others are rounded
)

// sine: the sine of pi * r is r times this polynomial of r * r, for r from -0.5 to 0.5.
var sine = [11]float64{
	3.141592653589793, -5.16771278004997, 2.5501640398773455, -0.5992645293207921, 0.08214588661112823, -0.0073704309457143504,
	0.00046630280576761255, -2.1915353447830217e-05, 7.952054001475513e-07, -2.2948428997269873e-08, 5.392664662608129e-10,
}

// 1 / (k!)^2 of every other k, from the least on.
var (
	besselEven = [11]float64{
		1.0, 0.25, 0.001736111111111111, 1.9290123456790124e-06, 6.151187326782565e-10, 7.594058428126623e-14, 4.358389823304995e-18,
		1.3157800456783586e-22, 2.2843403570804838e-27, 2.4395962632753253e-32, 1.6894710964510564e-37,
	}
	besselOdd = [11]float64{
		1.0, 0.027777777777777776, 6.944444444444444e-05, 3.936759889140842e-08, 7.594058428126624e-12, 6.276081345559193e-16,
		2.5789288895295828e-20, 5.8479113141260385e-25, 7.904291893012054e-30, 6.757884385804225e-35, 3.8310002187098785e-40,
	}
)

// bessel is the modified Bessel function of the first kind of order zero, by its power series; x is at most
// resampleBeta.
func bessel(x float64) float64 {
	t := float64(x*x) / 4
	u, even, odd := float64(t*t), besselEven[10], besselOdd[10]
	for k := 9; k >= 0; k-- {
		even, odd = float64(even*u)+besselEven[k], float64(odd*u)+besselOdd[k]
	}
	return even + float64(t*odd)
}

// sinc is the sine of pi * t over pi * t; t is less than 2^31 to both sides.
func sinc(t float64) float64 {
	if t == 0 {
		return 1
	}
	whole := math.Floor(t + 0.5)
	r := t - whole
	s, p := float64(r*r), sine[10]
	for k := 9; k >= 0; k-- {
		p = float64(p*s) + sine[k]
	}
	if int32(whole)&1 != 0 {
		r = -r
	}
	return float64(r*p) / float64(math.Pi*t)
}

// resamplePhase writes the taps of one phase, which sum to 1: the value at offset after the half-th of them.
func resamplePhase(taps []float32, offset, cutoff, window float64) {
	half, sum := len(taps)/2, 0.0
	for k := range taps {
		x := float64(k-half+1) - offset
		at, kaiser := x/float64(half), 0.0
		if at >= -1 && at <= 1 {
			kaiser = bessel(float64(resampleBeta*math.Sqrt(1-float64(at*at)))) / window
		}
		tap := float64(sinc(float64(cutoff*x)) * kaiser)
		taps[k] = float32(tap)
		sum += tap
	}
	for k := range taps {
		taps[k] = float32(float64(taps[k]) / sum)
	}
}

// dot is the sum of the products of pairs, in the order in which four vectors of four add them up.
func dot(a, b []float32) float32 {
	var sum [16]float32
	for len(a) >= 32 && len(b) >= 32 {
		for e := range sum {
			sum[e] = sum[e] + float32(a[e]*b[e]) + float32(a[e+16]*b[e+16])
		}
		a, b = a[32:], b[32:]
	}
	for len(a) >= 4 && len(b) >= 4 {
		for e := range 4 {
			sum[e] += float32(a[e] * b[e])
		}
		a, b = a[4:], b[4:]
	}
	var lane [4]float32
	for e := range lane {
		lane[e] = (sum[e] + sum[e+4]) + (sum[e+8] + sum[e+12])
	}
	total := lane[0] + lane[1] + lane[2] + lane[3]
	for e := range a {
		total += float32(a[e] * b[e])
	}
	return total
}

// phasesOf is how many phases there are between two rates: the taps of all of them stay below a megabyte.
func phasesOf(from, to int) int {
	a, b := from, to
	for b != 0 {
		a, b = b, a%b
	}
	return min(to/a, resamplePhases*min(from, to)/from)
}

// filterBank returns the taps of all phases, and how many there are on each side.
func filterBank(from, to, phases int) (bank []float32, half int) {
	cutoff := float64(resampleBand * min(1, float64(to)/float64(from)))
	half = int(math.Ceil(resampleZeros / cutoff))
	bank = make([]float32, (phases+1)*2*half)
	window := bessel(resampleBeta)
	for p := range phases/2 + 1 {
		// The last phases are the first ones, the other way round.
		taps, mirror := bank[p*2*half:][:2*half], bank[(phases-p)*2*half:][:2*half]
		resamplePhase(taps, float64(p)/float64(phases), cutoff, window)
		for k, tap := range taps {
			mirror[2*half-1-k] = tap
		}
	}
	return bank, half
}

// Resample returns the sound at another rate; at its own it is the sound itself. Beyond both ends there is silence.
// limit is the most samples, of four bytes each, that it may make.
func (s Sound) Resample(rate, limit int) (Sound, error) {
	from := s.Rate
	if err := checkRate("the sound has", from); err != nil {
		return Sound{}, err
	}
	if err := checkRate("the sound is brought to", rate); err != nil {
		return Sound{}, err
	}
	count := (len(s.Samples)*rate + from - 1) / from
	if count > limit {
		return Sound{}, tooLong("the sound has "+strconv.Itoa(count)+" samples at "+strconv.Itoa(rate)+" a second", limit)
	}
	if from == rate {
		return s, nil
	}
	phases := phasesOf(from, rate)
	bank, half := filterBank(from, rate, phases)
	to := make([]float32, count)
	for i := range to {
		position := i * from
		part, first := position%rate, position/rate-half+1
		taps := bank[(part*phases+rate/2)/rate*2*half:][:2*half]
		low, high := max(0, -first), min(2*half, len(s.Samples)-first)
		if low < high {
			to[i] = dot(taps[low:high], s.Samples[first+low:first+high])
		}
	}
	return Sound{Rate: rate, Samples: to}, nil
}
