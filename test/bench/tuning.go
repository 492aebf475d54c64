package main

import (
	"context"
	"runtime"

	"github.com/edgewise-ai/edgewise/test/bench/tuned"
)

// tuningScenarios are those of the table tuning.
func tuningScenarios() (all []scenario) {
	for _, s := range tuned.Scenarios() {
		all = append(all, scenario{"tuning", s.Name, func(r *run) {
			var err error
			r.result, err = s.Measure(context.Background(), r.startBox().client, tuned.Options{
				Repeats: r.repeats, Rounds: r.rounds, Limit: r.limit, Cores: runtime.NumCPU(), Busy: r.busy,
			})
			r.check(err)
		}})
	}
	return all
}
