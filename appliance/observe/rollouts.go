package observe

import "strconv"

// Rollout is the state of a rollout in progress.
type Rollout struct {
	Model     string
	Candidate int64
	State     string
	Stage     int                // from 1 on
	Share     float64            // of the requests that go to the candidate
	Evidence  map[string]float64 // by condition, of its bound
}

// collectRollouts sends the state of the rollouts in progress.
func (c *collector) collectRollouts(to sink) {
	if c.source.Rollouts == nil {
		return
	}
	for _, r := range c.source.Rollouts() {
		of := to.with("model", r.Model).with("version", strconv.FormatInt(r.Candidate, 10))
		of.with("state", r.State).gauge("edgewise_rollout_stage", "Stage of a rollout in progress.", float64(r.Stage))
		of.gauge("edgewise_rollout_share", "Part of the requests that goes to the candidate of a rollout.", r.Share)
		for condition, value := range r.Evidence {
			of.with("condition", condition).gauge("edgewise_rollout_evidence",
				"Evidence against the candidate of a rollout, of the bound at which it is taken back.", value)
		}
	}
}
