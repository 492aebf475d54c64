package tuned

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestAPictureIsWellFormedAndNamesItsCurves(t *testing.T) {
	left := chart{across: "rate", up: "p99", curves: []curve{
		{"default", "a", [][2]float64{{10, 2}, {20, 4}}},
		{"<choice> & more", "c", [][2]float64{{10, 1}, {40, 90}}},
		{"nothing answered", "b", nil},
	}}
	got := string(draw("mlp, p99 below 4 ms", left, chart{dots: [][2]float64{{100, 3}}}))
	for d := xml.NewDecoder(strings.NewReader(got)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, got)
		}
	}
	for _, part := range []string{"&lt;choice&gt; &amp; more", "prefers-color-scheme:dark", "nothing answered", "<path class=\"c\" d=\"M"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
	if len(got) > 8<<10 || strings.Contains(got, "NaN") || strings.Contains(got, "Inf") {
		t.Errorf("%d bytes\n%s", len(got), got)
	}
	if empty := string(draw("nothing", chart{}, chart{})); strings.Contains(empty, "NaN") {
		t.Error(empty)
	}
}
