package perf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSweepsAreListsAndRanges(t *testing.T) {
	for _, c := range []struct {
		text string
		want []int
	}{
		{"1", []int{1}},
		{"1,2,4,8", []int{1, 2, 4, 8}},
		{"1:16:2x", []int{1, 2, 4, 8, 16}},
		{"1:20:2x", []int{1, 2, 4, 8, 16}},
		{"2:4", []int{2, 3, 4}},
		{"1:10:4,64", []int{1, 5, 9, 64}},
		{"4096", []int{4096}},
		{" 3 , 5:5 ", []int{3, 5}},
	} {
		loads, err := ParseConcurrency(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
		}
		var got []int
		for _, l := range loads {
			got = append(got, l.Concurrency)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q: %s", c.text, diff)
		}
	}
}

func TestRatesMayBeFractions(t *testing.T) {
	loads, err := ParseRates("0.5,100:300:100,1000000")
	want := []Load{{Rate: 0.5}, {Rate: 100}, {Rate: 200}, {Rate: 300}, {Rate: 1e6}}
	if diff := cmp.Diff(want, loads); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestSweepsOutOfBoundsAreRefused(t *testing.T) {
	concurrency := func(text string) error { _, err := ParseConcurrency(text); return err }
	rates := func(text string) error { _, err := ParseRates(text); return err }
	for _, c := range []struct {
		name, text, want string
		parse            func(string) error
	}{
		{"zero callers", "0", "above 0", concurrency},
		{"too many callers", "4097", "1 to 4096", concurrency},
		{"a fraction of a caller", "1.5", "whole number", concurrency},
		{"range that leads to a fraction", "1:2:1.5x", "whole number", concurrency},
		{"backwards", "8:1", "below its beginning", concurrency},
		{"factor one", "1:8:1x", "more than 1x", concurrency},
		{"too many steps", "1:65", "more than 64 steps", concurrency},
		{"endless range", "1:4096", "more than 64 steps", concurrency},
		{"four fields", "1:2:3:4", "want N", concurrency},
		{"empty", "", "above 0", concurrency},
		{"empty element", "1,,2", "above 0", concurrency},
		{"no number", "many", "above 0", concurrency},
		{"not a number", "NaN", "above 0", rates},
		{"infinite", "Inf", "above 0", rates},
		{"rate too low", "0.009", "0.01 to 1000000", rates},
		{"rate too high", "1000001", "0.01 to 1000000", rates},
	} {
		if err := c.parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func FuzzSweepsNeverPassTheirBounds(f *testing.F) {
	for _, seed := range []string{"1:16:2x", "1:4096:64", "0.01:0.02:0.0000001", "1e308:1e309:9x", "1,2,3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string) ([]Load, error){ParseConcurrency, ParseRates} {
			loads, err := parse(text)
			if err != nil {
				continue
			}
			if len(loads) == 0 || len(loads) > MaxSteps {
				t.Errorf("%q: %d steps", text, len(loads))
			}
			for _, l := range loads {
				if err := l.check(); err != nil {
					t.Errorf("%q: %v", text, err)
				}
			}
		}
	})
}
