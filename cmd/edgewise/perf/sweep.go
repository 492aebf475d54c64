package perf

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bounds of a sweep.
const (
	MaxSteps       = 64        // steps of one sweep
	MaxConcurrency = 4096      // callers of a closed loop, and connections of an open one
	MaxRate        = 1_000_000 // arrivals a second
	MinRate        = 0.01
)

// Load is one step of a sweep: a closed loop when Concurrency is above 0, else an open loop of Rate arrivals a second.
type Load struct {
	Concurrency int
	Rate        float64
}

// String returns "c=8" or "r=100", the label of the step in tables.
func (l Load) String() string {
	if l.Concurrency > 0 {
		return "c=" + strconv.Itoa(l.Concurrency)
	}
	return "r=" + strconv.FormatFloat(l.Rate, 'f', -1, 64)
}

func (l Load) check() error {
	if l.Concurrency != 0 {
		if l.Concurrency < 1 || l.Concurrency > MaxConcurrency {
			return fmt.Errorf("concurrency %d: want 1 to %d", l.Concurrency, MaxConcurrency)
		}
		return nil
	}
	if !(l.Rate >= MinRate && l.Rate <= MaxRate) {
		return fmt.Errorf("rate %g: want %g to %d requests a second", l.Rate, MinRate, MaxRate)
	}
	return nil
}

// ParseConcurrency reads the steps of a closed loop: a comma-separated list of numbers and ranges. A range is
// FROM:TO (by 1), FROM:TO:STEP (adds STEP) or FROM:TO:Fx (multiplies by F). The end is a step only when the range hits
// it. Errors name what is wrong and the bound.
func ParseConcurrency(text string) ([]Load, error) {
	return parseSweep(text, func(v float64) (Load, error) {
		if v != math.Trunc(v) || v < 1 || v > MaxConcurrency {
			return Load{}, fmt.Errorf("concurrency %g: want a whole number, 1 to %d", v, MaxConcurrency)
		}
		return Load{Concurrency: int(v)}, nil
	})
}

// ParseRates reads the steps of an open loop, written as for ParseConcurrency, in requests a second.
func ParseRates(text string) ([]Load, error) {
	return parseSweep(text, func(v float64) (Load, error) {
		l := Load{Rate: v}
		return l, l.check()
	})
}

func parseSweep(text string, load func(float64) (Load, error)) ([]Load, error) {
	var loads []Load
	for part := range strings.SplitSeq(text, ",") {
		values, err := parseRange(part)
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			l, err := load(v)
			if err != nil {
				return nil, err
			}
			loads = append(loads, l)
		}
		if len(loads) > MaxSteps {
			return nil, fmt.Errorf("%q: more than %d steps", text, MaxSteps)
		}
	}
	return loads, nil
}

// parseRange returns the values of one number or range; never more than MaxSteps+1 of them.
func parseRange(part string) ([]float64, error) {
	fields := strings.Split(strings.TrimSpace(part), ":")
	if len(fields) > 3 {
		return nil, fmt.Errorf("%q: want N, FROM:TO, FROM:TO:STEP or FROM:TO:Fx", part)
	}
	from, err := parseNumber(fields[0])
	if err != nil || len(fields) == 1 {
		return []float64{from}, err
	}
	to, err := parseNumber(fields[1])
	if err != nil {
		return nil, err
	}
	if to < from {
		return nil, fmt.Errorf("range %q: its end is below its beginning", part)
	}
	advance, err := parseAdvance(fields[2:])
	if err != nil {
		return nil, err
	}
	var values []float64
	for v := from; v <= to && len(values) <= MaxSteps; v = advance(v) {
		values = append(values, v)
	}
	return values, nil
}

// parseAdvance reads how a range goes on.
func parseAdvance(fields []string) (func(float64) float64, error) {
	if len(fields) == 0 {
		return func(v float64) float64 { return v + 1 }, nil
	}
	if text, ok := strings.CutSuffix(fields[0], "x"); ok {
		factor, err := parseNumber(text)
		if err == nil && factor <= 1 {
			err = fmt.Errorf("factor %q: want more than 1x", fields[0])
		}
		return func(v float64) float64 { return v * factor }, err
	}
	step, err := parseNumber(fields[0])
	return func(v float64) float64 { return v + step }, err
}

// parseNumber reads a number above 0.
func parseNumber(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q: want a number above 0", text)
	}
	return v, nil
}
