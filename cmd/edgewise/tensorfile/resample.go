package tensorfile

import "math"

const (
	resampleZeros = 24  // zero crossings of the sinc on each side: the length of the filter
	resampleBeta  = 8.6 // of the Kaiser window: about 90 dB of stop band attenuation
	resampleBand  = 0.95
)

// Resample returns the sound at another rate, band-limited: what the lower of the two rates cannot carry is filtered
// out, the rest keeps its amplitude. It keeps the beginning in place. rate is 1 or more; at the sound's own rate the
// sound itself is returned.
//
// The filter is a sinc under a Kaiser window, one set of taps for each of the rate/gcd phases. The taps of all of them are
// bounded by a megabyte: phases beyond maxPhases to a sample of the lower rate share the nearest one.
func (s Sound) Resample(rate int) Sound {
	if rate == s.Rate || len(s.Samples) == 0 {
		return Sound{Rate: rate, Samples: s.Samples}
	}
	step := float64(s.Rate) / float64(rate)
	out := make([]float32, int(math.Ceil(float64(len(s.Samples))/step)))
	bank := newFilterBank(s.Rate, rate)
	for i := range out {
		out[i] = bank.at(s.Samples, int64(i)*int64(s.Rate), int64(rate))
	}
	return Sound{Rate: rate, Samples: out}
}

const maxPhases = 4096

// filterBank holds the taps for each fraction of a sample at which an output sample may lie.
type filterBank struct {
	phases int
	half   int         // taps on each side
	taps   [][]float32 // of each phase, 2*half, summing to 1
}

func newFilterBank(from, to int) *filterBank {
	phases := min(to/gcd(from, to), maxPhases*min(from, to)/from)
	cutoff := resampleBand * min(1, float64(to)/float64(from))
	bank := &filterBank{phases: phases, half: int(math.Ceil(resampleZeros / cutoff)), taps: make([][]float32, phases+1)}
	for p := range bank.taps {
		bank.taps[p] = bank.phase(float64(p)/float64(phases), cutoff)
	}
	return bank
}

func (b *filterBank) phase(offset, cutoff float64) []float32 {
	weights, sum := make([]float64, 2*b.half), 0.0
	for k := range weights {
		x := float64(k-b.half+1) - offset
		weights[k] = sinc(cutoff*x) * kaiser(x/float64(b.half))
		sum += weights[k]
	}
	taps := make([]float32, len(weights))
	for k, w := range weights {
		taps[k] = float32(w / sum)
	}
	return taps
}

// at returns the value at position over rate, in samples. Beyond both ends there is silence.
func (b *filterBank) at(samples []float32, position, rate int64) float32 {
	whole, part := int(position/rate), position%rate
	taps := b.taps[(part*int64(b.phases)+rate/2)/rate]
	sum := float32(0)
	first := whole - b.half + 1
	for k := max(0, -first); k < len(taps) && first+k < len(samples); k++ {
		sum += taps[k] * samples[first+k]
	}
	return sum
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	return math.Sin(math.Pi*x) / (math.Pi * x)
}

// kaiser is the Kaiser window over -1..1.
func kaiser(x float64) float64 {
	if x < -1 || x > 1 {
		return 0
	}
	return bessel(resampleBeta*math.Sqrt(1-x*x)) / bessel(resampleBeta)
}

// bessel is the modified Bessel function of the first kind of order zero, by its power series.
func bessel(x float64) float64 {
	sum, term := 1.0, 1.0
	for k := 1.0; term > 1e-12*sum; k++ {
		term *= x * x / (4 * k * k)
		sum += term
	}
	return sum
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
