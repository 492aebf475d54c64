package rollout

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/compare"
	"github.com/edgewise-ai/edgewise/appliance/tap"
	"github.com/edgewise-ai/edgewise/host"
)

// Bounds of a shadow.
const (
	shadowQueue = 16                     // requests that wait for the candidate
	shadowTime  = 30 * time.Second       // of one request to it
	watchedTime = 20 * time.Second       // of this, at the end, in which its threads are watched
	idleTime    = 200 * time.Millisecond // for which a request waits until cores are idle
	idleEvery   = 2 * time.Millisecond   // between two looks at them
	maxWorst    = 4                      // differences that are kept
	maxAnswer   = 8 << 10                // bytes of the tensors of an answer that is kept
	maxReason   = 1 << 10                // bytes of an error that is kept
)

// shadow sends requests that the live version has answered to the candidate as well, and compares the answers.
type shadow struct {
	trial   *trial
	model   string
	percent float64
	rules   []admin.CompareRule
	infer   edgewise.Inferer
	idle    func() bool
	threads func(id edgewise.ModelID) map[int]host.Thread

	ctx    context.Context // ends with the shadow
	cancel context.CancelFunc
	sub    *tap.Subscription
}

// openShadow begins the shadow of a rollout, if its plan has one.
func (s *Rollouts) openShadow(r *rollout, shown *admin.Rollout) {
	plan := shown.Plan.Shadow
	if plan == nil || r.shadow.Load() != nil {
		return
	}
	rules, err := s.config.Rules(shown.Model)
	if err != nil {
		r.trial.fail(err.Error())
		return
	}
	h := &shadow{
		trial: r.trial, model: shown.Model, percent: plan.Percent, rules: rules, infer: s.config.Infer, idle: s.config.Idle,
		threads: s.config.Threads,
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.sub = s.config.Tap.Subscribe(tap.Subscriber{Wants: h.wants, Receive: h.receive, Queue: shadowQueue})
	r.shadow.Store(h)
	if r.gone.Load() {
		r.closeShadow()
	}
}

// closeShadow ends the shadow of a rollout, if it has one. No answer is compared after it.
func (r *rollout) closeShadow() {
	h := r.shadow.Swap(nil)
	if h == nil {
		return
	}
	h.cancel()
	h.sub.Close()
	_, dropped := h.sub.Counts()
	r.trial.missed(dropped)
}

// wants takes the share of the answered requests to the live version.
func (h *shadow) wants(id edgewise.ModelID, err error) bool {
	return err == nil && id.Name == h.model && id.Version == h.trial.live && 100*rand.Float64() < h.percent
}

// receive sends one request to the candidate. One of a sequence is left out: it means nothing without those before it.
func (h *shadow) receive(f *tap.Finished) {
	if f.Request.Sequence.Active() {
		return
	}
	if !h.awaitIdle() {
		h.trial.missed(1)
		return
	}
	req := f.Request
	req.Model = edgewise.ModelID{Name: h.model, Version: h.trial.candidate}
	req.Arrived, req.Timeout, req.Priority, req.Background = time.Time{}, 0, 0, true
	resp, err := h.ask(&req)
	if err != nil && !ofTheCandidate(err) {
		h.trial.missed(1)
		return
	}
	defer resp.Release()
	h.trial.compared(time.Now(), h.difference(f, resp, err))
	if err == nil {
		h.trial.paired(f.Response, resp)
	}
}

// ask sends a request to the candidate. That it has not answered in time is its own error only if it was not for want of
// a core, which it gets after all others.
func (h *shadow) ask(req *edgewise.Request) (*edgewise.Response, error) {
	ctx, cancel := context.WithTimeout(h.ctx, shadowTime)
	answered, hung := make(chan struct{}), make(chan bool)
	go func() { hung <- h.hangs(ctx, req.Model, answered) }()
	resp, err := h.infer.Infer(ctx, req)
	close(answered)
	defer cancel()
	if <-hung && err != nil {
		err = edgewise.Errorf("rollout.ask", edgewise.Internal, "no answer within %v, though no thread of the candidate waited "+
			"for a core", shadowTime)
	}
	return resp, err
}

// hangs tells whether the candidate has not answered before ctx had its deadline, with threads that ran or slept.
func (h *shadow) hangs(ctx context.Context, id edgewise.ModelID, answered <-chan struct{}) bool {
	select {
	case <-answered:
		return false
	case <-ctx.Done():
		return false
	case <-time.After(shadowTime - watchedTime):
	}
	before := h.threads(id)
	select {
	case <-answered:
		return false
	case <-ctx.Done():
	}
	after := h.threads(id)
	return h.ctx.Err() == nil && len(before) > 0 && len(after) > 0 && !host.Starved(before, after, watchedTime)
}

// awaitIdle waits until cores are idle, and tells whether they are.
func (h *shadow) awaitIdle() bool {
	for end := time.Now().Add(idleTime); !h.idle(); {
		select {
		case <-h.ctx.Done():
			return false
		case <-time.After(idleEvery):
		}
		if time.Now().After(end) {
			return false
		}
	}
	return h.ctx.Err() == nil
}

// ofTheCandidate tells whether an error says something about a version, and not about what the machine has room for.
func ofTheCandidate(err error) bool {
	switch edgewise.KindOf(err) {
	case edgewise.Busy, edgewise.Unavailable, edgewise.Exhausted, edgewise.Deadline, edgewise.Canceled:
		return false
	}
	return true
}

// difference returns how the candidate's answer, or its error, differs from that of the live version; nil: it agrees.
func (h *shadow) difference(f *tap.Finished, resp *edgewise.Response, err error) *admin.RolloutDifference {
	d := &admin.RolloutDifference{Time: f.Began.UTC(), Request: f.Request.ID, Live: kserve.ShortAnswer(f.Response, maxAnswer)}
	if err != nil {
		text := err.Error()
		d.Error, d.Part = strings.ToValidUTF8(text[:min(len(text), maxReason)], ""), 1
		return d
	}
	found := compare.Answers(h.rules, f.Response.Outputs, resp.Outputs)
	if found.Agrees {
		return nil
	}
	d.Candidate = kserve.ShortAnswer(resp, maxAnswer)
	for _, out := range found.Outputs {
		if out.Agrees {
			continue
		}
		part := 1.0 // of an output that cannot be compared
		if out.Different > 0 {
			part = float64(out.Different) / float64(max(out.Compared, 1))
		}
		d.Part = max(d.Part, part)
		d.Outputs = append(d.Outputs, out)
	}
	return d
}

// shadowed is what a shadow has measured. It is stored.
type shadowed struct {
	Compared  uint64                    `json:"compared"`
	Disagreed uint64                    `json:"disagreed"`
	Dropped   uint64                    `json:"dropped"`
	Worst     []admin.RolloutDifference `json:"worst"` // is replaced and not changed
	Differ    evidence                  `json:"differ"`
}

// missed counts requests of the shadow that were not compared.
func (t *trial) missed(n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.m.Shadow.Dropped += n
}

// compared counts an answer of the candidate to a request of the shadow; d says how it differs, nil: it does not.
func (t *trial) compared(at time.Time, d *admin.RolloutDifference) {
	t.mu.Lock()
	first := t.addCompared(at, d) && t.breach == "" && t.judge()
	t.mu.Unlock()
	if first {
		t.breached()
	}
}

// addCompared is compared with t.mu held, and tells whether the evidence has grown.
func (t *trial) addCompared(at time.Time, d *admin.RolloutDifference) bool {
	if !t.counting || t.watch != nil {
		return false
	}
	m := &t.m.Shadow
	m.Compared++
	if t.share == 0 {
		t.m.Stage++ // of a stage without other requests
	}
	if d != nil {
		m.Disagreed++
		worst := append(slices.Clone(m.Worst), *d)
		slices.SortStableFunc(worst, func(a, b admin.RolloutDifference) int { return cmp.Compare(b.Part, a.Part) })
		m.Worst = worst[:min(len(worst), maxWorst)]
	}
	return m.Differ.rate(at, t.disagree, d != nil)
}

// shown describes what a shadow has measured.
func (m *shadowed) shown() *admin.RolloutComparison {
	return &admin.RolloutComparison{
		Compared: m.Compared, Disagreed: m.Disagreed, Dropped: m.Dropped,
		Worst: append([]admin.RolloutDifference{}, m.Worst...),
	}
}

// explain says why a rollout goes back.
func (m *shadowed) explain() string {
	text := fmt.Sprintf("disagreement: %d of %d answers of the candidate differ from those of the version before it",
		m.Disagreed, m.Compared)
	if len(m.Worst) > 0 && len(m.Worst[0].Outputs) > 0 {
		out := m.Worst[0].Outputs[0]
		return fmt.Sprintf("%s; output %q: %s", text, out.Output, out.Reason)
	}
	return text
}
