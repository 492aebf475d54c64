package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

const jsonFloats = 150_000

// jsonFigures holds the parser of JSON tensors against encoding/json on the same body.
func jsonFigures(_ string, rounds int) (result, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // both sides with a collector, as in a server
	body := jsonBody()
	decoder := kserve.NewDecoder(kserve.Limits{})
	ours := func() error {
		r, err := decoder.Infer(edgewise.ModelID{Name: "m"}, body, -1)
		if err == nil {
			r.Release()
		}
		return err
	}
	standard := func() error {
		var request struct {
			Inputs []struct {
				Name, Datatype string
				Shape          []int64
				Data           []float32
			}
		}
		return json.Unmarshal(body, &request)
	}
	var ratios, own, theirs []float64
	for range rounds {
		a, err := fastest(ours)
		if err != nil {
			return result{}, err
		}
		b, err := fastest(standard)
		if err != nil {
			return result{}, err
		}
		ratios, own, theirs = append(ratios, b/a), append(own, a), append(theirs, b)
	}
	mb := float64(len(body)) / 1e6
	return result{Figures: []figure{atLeast("JSON tensor of 150,000 floats: encoding/json's time / ours", median(ratios), 5, "x",
		fmt.Sprintf("%.0f MB/s against %.0f MB/s, %.1f ms against %.1f ms", mb/median(own), mb/median(theirs), 1e3*median(own), 1e3*median(theirs)))}}, nil
}

func jsonBody() []byte {
	r := rand.New(rand.NewPCG(3, 4))
	body := []byte(`{"inputs":[{"name":"x","shape":[1,150000],"datatype":"FP32","data":[`)
	for i := range jsonFloats {
		if i > 0 {
			body = append(body, ',')
		}
		body = strconv.AppendFloat(body, float64(r.Float32()), 'g', -1, 32)
	}
	return append(body, "]}]}"...)
}

// fastest returns the seconds of the fastest of ten runs.
func fastest(run func() error) (float64, error) {
	best := time.Hour
	for range 10 {
		begin := time.Now()
		if err := run(); err != nil {
			return 0, err
		}
		best = min(best, time.Since(begin))
	}
	return best.Seconds(), nil
}
