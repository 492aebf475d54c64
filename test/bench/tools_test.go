package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestToolsAreUnderstood reads what the pinned versions have printed, and what is wrong with it when they fail.
func TestToolsAreUnderstood(t *testing.T) {
	vegeta := func(out []byte) (sample, error) { return readVegeta(bytes.NewReader(out), 200*time.Millisecond) }
	golden := map[string][]byte{}
	for _, name := range []string{"wrk.txt", "vegeta.csv", "ghz.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		golden[name] = data
	}
	changed := func(name, old, now string) []byte { return bytes.Replace(golden[name], []byte(old), []byte(now), 1) }
	for _, tc := range []struct {
		name string
		read func([]byte) (sample, error)
		out  []byte
		want sample // zero: it fails
	}{
		{"wrk", readWrk, golden["wrk.txt"], sample{
			rate: 31033.4, requests: 31558, p10: 43e-6, p50: 73e-6, p90: 1671e-6, p99: 41246e-6, p999: 63268e-6,
		}},
		{"wrk with some errors", readWrk, changed("wrk.txt", `"errors":0`, `"errors":1558`), sample{
			rate: 29501, requests: 31558, refused: 0.0494, p10: 43e-6, p50: 73e-6, p90: 1671e-6, p99: 41246e-6, p999: 63268e-6,
		}},
		{"wrk with errors alone", readWrk, changed("wrk.txt", `"errors":0`, `"errors":31558`), sample{}},
		{"wrk without an answer", readWrk, changed("wrk.txt", `"requests":31558`, `"requests":0`), sample{}},
		{"wrk without the line of its script", readWrk, []byte("Running 1s test\n"), sample{}},
		{"vegeta", vegeta, golden["vegeta.csv"], sample{
			rate: 55, requests: 11, p10: 292e-6, p50: 479.5e-6, p90: 1000.4e-6, p99: 11800e-6, p999: 11800e-6,
		}},
		{"vegeta with a refusal", vegeta, changed("vegeta.csv", ",200,", ",503,"), sample{
			rate: 50, requests: 11, refused: 1. / 11, p10: 264.2e-6, p50: 447.9e-6, p90: 923.2e-6, p99: 11800e-6, p999: 11800e-6,
		}},
		{"vegeta with refusals alone", vegeta, bytes.ReplaceAll(golden["vegeta.csv"], []byte(",200,"), []byte(",503,")), sample{}},
		{"vegeta with another format", vegeta, []byte("1,200\n"), sample{}},
		{"vegeta without an answer", vegeta, nil, sample{}},
		{"ghz", readGhz, golden["ghz.json"], sample{
			rate: 400, requests: 40, p10: 0.000193316, p50: 0.000408074, p90: 0.00275053, p99: 0.0669494, p999: 0.0669494,
		}},
		{"ghz with errors alone", readGhz, bytes.ReplaceAll(golden["ghz.json"], []byte(`"OK"`), []byte(`"Unavailable"`)), sample{}},
		{"ghz without an answer", readGhz, []byte(`{"total":1}`), sample{}},
		{"ghz without JSON", readGhz, []byte("Summary:"), sample{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.read(tc.out)
			if (err != nil) != (tc.want == sample{}) {
				t.Fatalf("the error is %v", err)
			}
			for _, v := range [][2]float64{
				{got.rate, tc.want.rate},
				{got.refused, tc.want.refused},
				{got.requests, tc.want.requests},
				{got.p10, tc.want.p10},
				{got.p50, tc.want.p50},
				{got.p90, tc.want.p90},
				{got.p99, tc.want.p99},
				{got.p999, tc.want.p999},
			} {
				if math.Abs(v[0]-v[1]) > 0.01*v[1] {
					t.Errorf("%v is far from %v of %+v", v[0], v[1], tc.want)
				}
			}
		})
	}
}

func TestATailIsHeldAgainstOthersUnderTheSameGenerator(t *testing.T) {
	p := peerModel{name: "tiny", goals: []tailGoal{{"no-op", 1.5}, {"box, isolation none", 1.2}}}
	r := &run{}
	r.tailGoals(p, "binary", [][]string{
		{"1000/s", "no-op", "vegeta"},
		{"1000/s", "no-op", "ours"},
		{"1000/s", "box, isolation none", "vegeta"},
		{"1000/s", childBox, "vegeta"},
		{"1000/s", "Node.js, 2 processes", "vegeta"},
	}, []series{{{p99: 1}}, {{p99: 9}}, {{p99: 2}}, {{p99: 3}}, {{p99: 9}}})
	if len(r.Figures) != 2 || r.Figures[0].Value != 3 || r.Figures[0].Met || r.Figures[1].Value != 1.5 ||
		r.Figures[1].Name != "tiny, binary, 1000/s, vegeta: p99 box, isolation process / box, isolation none" {
		t.Errorf("the figures are %+v", r.Figures)
	}
}
