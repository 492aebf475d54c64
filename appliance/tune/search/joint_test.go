package search

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// pair is a model of two parts, in virtual time: value 5 of one part alone is the slowest, and of both parts the fastest.
type pair struct{ at Candidate }

func (p pair) Open(ctx context.Context, c Candidate) (Session, error) {
	time.Sleep(time.Second)
	return pair{c}, ctx.Err()
}

func (p pair) Quiet(ctx context.Context) error { return ctx.Err() }
func (p pair) Memory() int64                   { return 1 }
func (p pair) Close()                          {}

func (p pair) Saturate(ctx context.Context, d time.Duration) (Estimate, error) {
	time.Sleep(d)
	return Estimate{100, 99, 101}, ctx.Err()
}

func (p pair) Offer(ctx context.Context, rate float64, d time.Duration, _ int) (Point, error) {
	time.Sleep(d)
	ms := 20 + float64(p.at.At(0)+p.at.At(1))
	if p.at == "\x05\x05" {
		ms = 10
	}
	return Point{Rate: rate, P50: Estimate{ms, ms, ms}, P99: Estimate{ms, ms, ms}, Requests: int(rate * d.Seconds())}, ctx.Err()
}

func TestWhatOnlyBothPartsTogetherGainIsFoundWhereThereIsTime(t *testing.T) {
	all := []Candidate{"\x01\x01", "\x02\x02", "\x03\x03", "\x04\x04", "\x05\x05"}
	for _, test := range []struct {
		name  string
		joint []Candidate
		limit time.Duration
		best  Candidate
		tried bool
	}{
		{"five minutes", all, searchTime, "\x05\x05", true},
		{"half a minute", all, 30 * time.Second, "\x00\x00", false},
		{"one axis after another", nil, searchTime, "\x00\x00", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, tried := time.Now(), false
				found, err := Search{
					Axes:  []Axis{{"first: cores", make([]string, 6)}, {"second: cores", make([]string, 6)}},
					Joint: test.joint, Bench: pair{}, Limit: test.limit,
					Tried: func(_ Candidate, phase string) { tried = tried || phase == "together" },
				}.Run(t.Context())
				if err != nil || found.Best != test.best || tried != test.tried || time.Since(began) > test.limit {
					t.Errorf("%+v in %v, joint ones tried: %v, %v", found, time.Since(began), tried, err)
				}
			})
		})
	}
}
