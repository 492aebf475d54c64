package sched

import (
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// wanted returns the outputs that jobs of one batch want, each once; in the order of the jobs' own list when they have the
// same.
func wanted(jobs []*job) []string {
	same := func(j *job) bool { return slices.Equal(j.want, jobs[0].want) }
	if !slices.ContainsFunc(jobs, func(j *job) bool { return !same(j) }) {
		return jobs[0].want
	}
	var all []string
	for _, j := range jobs {
		for _, name := range j.want {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// choose leaves each job the outputs that it wants, in its own order. It has those of want.
func choose(jobs []*job, want []string) {
	for _, j := range jobs {
		if slices.Equal(j.want, want) {
			continue
		}
		all := j.outputs
		j.outputs = make([]edgewise.Tensor, len(j.want))
		for i, name := range j.want {
			at := slices.IndexFunc(all, func(t edgewise.Tensor) bool { return t.Name == name })
			j.outputs[i] = all[at]
		}
	}
}
