package rollout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/tap"
	"github.com/edgewise-ai/edgewise/host"
	"github.com/edgewise-ai/edgewise/scalar"
)

// disk is what survives the end of the process: documents and labels.
type disk struct {
	mu     sync.Mutex
	docs   map[string][]byte
	record *edgewise.Record
	full   bool
}

func newDisk() *disk {
	r := &edgewise.Record{Name: "m", Wanted: true, Labels: []edgewise.Label{{Name: "live", Version: 1}}}
	for n := range int64(3) {
		r.Versions = append(r.Versions, &edgewise.Version{ID: edgewise.ModelID{Name: "m", Version: n + 1}, Model: &edgewise.Model{
			Output: []edgewise.ModelOutput{{Name: "y", DataType: edgewise.FP32}, {Name: "text", DataType: edgewise.Bytes}},
		}})
	}
	return &disk{docs: map[string][]byte{}, record: r}
}

// box is one life of a process on a disk.
type box struct {
	*disk
	t      *testing.T
	splits map[string]manager.Split
	broken map[int64]string // versions that cannot be loaded
	wrong  map[int64]bool   // versions that fail their goldens

	tap      *tap.Tap
	rules    []admin.CompareRule
	busy     atomic.Bool // no core is idle
	shadow   func(ctx context.Context, n int) (values []float64, err error)
	threads  func() map[int]host.Thread // of the candidate; nil: it has none
	answer   func(n int) []float64      // of the candidate to clients; nil: right
	shadowed int                        // requests of the shadow; one at a time
	jump     func(n int) time.Duration  // by which the clock of the wall is wrong; nil: it is right

	alerts  []string
	audit   []string
	effects int           // on the disk and the manager
	dieAt   int           // the effect at which the process ends; 0: it does not
	slow    time.Duration // of a change of the documents
}

func (b *box) dead() bool { return b.dieAt != 0 && b.effects >= b.dieAt }

// effect counts an effect, and tells whether it still takes place.
func (b *box) effect() bool {
	b.effects++
	return !b.dead()
}

var errDead = edgewise.Errorf("test", edgewise.Internal, "the process has ended")

func (b *box) View(fn func(edgewise.DocumentsTx) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fn(tx{docs: b.docs})
}

func (b *box) Update(fn func(edgewise.DocumentsTx) error) error {
	time.Sleep(b.slow)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.effect() {
		return errDead
	}
	if b.full {
		return edgewise.Errorf("test", edgewise.Exhausted, "the disk is full")
	}
	return fn(tx{docs: b.docs})
}

type tx struct {
	edgewise.DocumentsTx
	docs map[string][]byte
}

func (t tx) Get(bucket, key string) []byte { return t.docs[bucket+"/"+key] }

func (t tx) Put(bucket, key string, value []byte) error {
	t.docs[bucket+"/"+key] = slices.Clone(value)
	return nil
}

func (t tx) Delete(bucket, key string) error {
	delete(t.docs, bucket+"/"+key)
	return nil
}

func (t tx) Each(bucket string, fn func(string, []byte) error) error {
	for _, key := range slices.Sorted(maps.Keys(t.docs)) {
		of, key, _ := strings.Cut(key, "/")
		if of != bucket {
			continue
		}
		if err := fn(key, t.docs[bucket+"/"+key]); err != nil {
			return err
		}
	}
	return nil
}

func (b *box) Split(name string, s manager.Split) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.effect() {
		b.splits[name] = s
	}
}

func (b *box) split() manager.Split {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.splits["m"]
}

func (b *box) Await(_ context.Context, id edgewise.ModelID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if reason := b.broken[id.Version]; reason != "" {
		return edgewise.Errorf("test", edgewise.Exhausted, "%s", reason)
	}
	return nil
}

func (b *box) prove(_ context.Context, id edgewise.ModelID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wrong[id.Version] {
		return edgewise.Errorf("test", edgewise.Conflict, "it fails its goldens").WithReason(admin.ReasonGoldens)
	}
	return nil
}

func (b *box) Statuses() []edgewise.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []edgewise.Status
	for _, v := range b.record.Versions {
		s := edgewise.Status{ID: v.ID, State: edgewise.StateReady}
		if reason := b.broken[v.ID.Version]; reason != "" {
			s.State, s.Reason = edgewise.StateUnavailable, reason
		}
		list = append(list, s)
	}
	return list
}

func (b *box) Lookup(name string) *edgewise.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name != "m" {
		return nil
	}
	return b.record
}

// told returns the alerts, and the lines of the audit log.
func (b *box) told() (alerts, audit []string) {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.alerts, b.audit
}

func (b *box) live() int64 { return b.Lookup("m").Label("live") }

func (b *box) Changeable(string, string) error { return nil }

func (b *box) SetLabel(_ context.Context, _, _ string, version int64) (admin.LabelMove, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.effect() {
		return admin.LabelMove{}, errDead
	}
	if b.wrong[version] {
		return admin.LabelMove{}, edgewise.Errorf("test", edgewise.Conflict, "goldens fail").WithReason(admin.ReasonGoldens)
	}
	if b.full {
		return admin.LabelMove{}, edgewise.Errorf("test", edgewise.Exhausted, "the disk is full")
	}
	changed := *b.record
	changed.Labels = []edgewise.Label{{Name: "live", Version: version}}
	b.record = &changed
	return admin.LabelMove{}, nil
}

func (b *box) Rollback(ctx context.Context, name, label string) (admin.LabelMove, error) {
	return b.SetLabel(ctx, name, label, 1)
}

// open begins a life. The function that it returns ends it.
func (d *disk) open(t *testing.T) (*box, *Rollouts, func()) {
	b, s := d.boot(t)
	return b, s, run(t, s)
}

// boot reads what the disk holds, and moves nothing.
func (d *disk) boot(t *testing.T) (*box, *Rollouts) {
	b := &box{
		disk: d, t: t,
		splits: map[string]manager.Split{}, broken: map[int64]string{}, wrong: map[int64]bool{}, tap: tap.New(tap.MaxBytes),
	}
	var s *Rollouts
	s = Open(Config{
		Documents: b, Manager: b, Models: b, Prove: b.prove,
		Publish: func(_ string, told any) { // who is told of a rollout finds it so
			want, ok := told.(admin.Rollout)
			if !ok {
				return // of settings
			}
			if got, err := s.Get(want.Model); err != nil || got.Plan.Version != want.Plan.Version || got.State != want.State {
				t.Errorf("told of %q of version %d, found %q of version %d (%v)", want.State, want.Plan.Version, got.State,
					got.Plan.Version, err)
			}
		},
		Tap: b.tap, Infer: b, Idle: func() bool { return !b.busy.Load() },
		Threads: func(id edgewise.ModelID) map[int]host.Thread {
			if b.threads == nil || id.Version != 2 {
				return nil
			}
			return b.threads()
		},
		Rules: func(string) ([]admin.CompareRule, error) { return b.rules, nil },
		Alert: func(_, _, text string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.alerts = append(b.alerts, text)
		},
		Audit: func(e admin.AuditEntry) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.audit = append(b.audit, e.Action+" "+e.Target+", "+e.Detail)
			return nil
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	return b, s
}

// run moves the rollouts until the function that it returns is called.
func run(t *testing.T, s *Rollouts) func() {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		s.Run(ctx)
		close(done)
	}()
	return func() {
		stop()
		<-done
	}
}

// ask sends requests as the manager would, ten a second: of the requests of a second a share goes to the candidate.
func (b *box) ask(s *Rollouts, seconds int, candidate func(n int) (time.Duration, error)) {
	for i := range seconds * 100 {
		time.Sleep(10 * time.Millisecond)
		split, version := b.split(), b.live()
		if split.Live == version && float64((i*37)%100) < split.Share*100 {
			version = split.Version
		}
		took, err := 10*time.Millisecond, error(nil)
		if version == 2 {
			took, err = candidate(i)
		}
		id, req := edgewise.ModelID{Name: "m", Version: version}, edgewise.Request{ID: strconv.Itoa(i)}
		values := right
		if version == 2 && b.answer != nil {
			values = b.answer(i)
		}
		resp := &edgewise.Response{Outputs: []edgewise.Tensor{b.output(values)}}
		began := time.Now()
		if b.jump != nil {
			began = set(began, b.jump(i))
		}
		s.Observe(id, &req, resp, began, took, err)
		b.tap.Offer(tap.Finished{Model: id, Request: req, Err: err, Response: resp, Began: began})
	}
}

// set returns what time.Now would have returned, had the clock of the wall been set: the time since the start of the
// process, which it has as well, is that of now.
func set(now time.Time, by time.Duration) time.Time {
	const nanoseconds = 30 // bits below the seconds of the wall
	*(*uint64)(unsafe.Pointer(&now)) += uint64(by/time.Second) << nanoseconds
	return now
}

var right = []float64{1, 1, 5, 5}

// output is that of an answer: the corners of a box.
func (b *box) output(values []float64) edgewise.Tensor {
	var data []byte
	for _, v := range values {
		data = scalar.AppendFloat(data, edgewise.FP32, v)
	}
	return edgewise.Tensor{Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{1, 4}, Data: data}
}

// Infer answers a request of a shadow.
func (b *box) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	if req.Model != (edgewise.ModelID{Name: "m", Version: 2}) {
		b.t.Errorf("a request of the shadow goes to %v", req.Model)
	}
	if !req.Background {
		b.t.Error("a request of the shadow keeps others waiting")
	}
	b.shadowed++
	values, err := b.shadow(ctx, b.shadowed)
	return &edgewise.Response{Model: req.Model, Outputs: []edgewise.Tensor{b.output(values)}}, err
}

func fine(int) (time.Duration, error) { return 10 * time.Millisecond, nil }

func failing(n int) (time.Duration, error) {
	if n%3 == 0 {
		return 0, errFailed
	}
	return fine(n)
}

func testPlan() admin.RolloutPlan {
	watch := int64(60)
	return admin.RolloutPlan{
		Version: 2, WatchSeconds: &watch,
		Stages: []admin.RolloutStage{{Percent: 10, Requests: 100}, {Percent: 50, Seconds: 20}},
	}
}

func start(t *testing.T, s *Rollouts) {
	t.Helper()
	if _, err := s.Start(t.Context(), "m", testPlan()); err != nil {
		t.Fatal(err)
	}
}

func state(t *testing.T, s *Rollouts) string {
	t.Helper()
	r, err := s.Get("m")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %d %g%%", r.State, r.Stage, r.Percent)
}

func TestAGoodVersionGoesLiveStageByStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s, stop := newDisk().open(t)
		defer stop()
		start(t, s)
		for _, test := range []struct {
			seconds int
			want    string
			split   manager.Split
			live    int64
		}{
			{5, "running 0 10%", manager.Split{Live: 1, Version: 2, Share: 0.1}, 1},
			{10, "running 1 50%", manager.Split{Live: 1, Version: 2, Share: 0.5}, 1},
			{20, "watching 1 100%", manager.Split{Live: 2, Version: 1}, 2},
			{70, "done 1 100%", manager.Split{}, 2},
		} {
			b.ask(s, test.seconds, fine)
			if got := state(t, s); got != test.want || b.split() != test.split || b.live() != test.live {
				t.Errorf("after %d s more: %s, split %+v, live %d, want %s", test.seconds, got, b.split(), b.live(), test.want)
			}
		}
		if alerts, audit := b.told(); len(alerts) > 0 || !slices.Equal(audit, []string{"rollout.done m, version 2: version 2 stays live"}) {
			t.Errorf("alerts %q, audit %q", alerts, audit)
		}
	})
}

func TestAVersionThatFailsIsTakenBackWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s, stop := newDisk().open(t)
		defer stop()
		start(t, s)
		for range 100 {
			if b.ask(s, 1, failing); b.split().Share == 0 {
				break
			}
		}
		if got := state(t, s); got != "rolled_back 0 0%" || b.live() != 1 || b.split() != (manager.Split{}) {
			t.Errorf("%s, live %d, split %+v", got, b.live(), b.split())
		}
		r, _ := s.Get("m")
		alerts, _ := b.told()
		if len(alerts) != 1 || !strings.Contains(alerts[0], "error rate") || !strings.Contains(r.Reason, "requests to the candidate failed") ||
			r.Evidence[0].Value < r.Evidence[0].Bound {
			t.Errorf("alerts %q, reason %q, evidence %+v", alerts, r.Reason, r.Evidence)
		}
	})
}

// TestAClockThatIsSetChangesNoRollout has requests come while somebody sets the clock.
func TestAClockThatIsSetChangesNoRollout(t *testing.T) {
	now := time.Now()
	if wrong := set(now, -time.Hour); wrong.Sub(now) != 0 || wrong.Unix() != now.Unix()-3600 {
		t.Fatalf("%v and %v", now, wrong)
	}
	for name, jump := range map[string]func(n int) time.Duration{
		"back":       func(n int) time.Duration { return -time.Duration(n/500) * time.Hour },
		"forward":    func(n int) time.Duration { return time.Duration(n/500) * 24 * time.Hour },
		"to and fro": func(n int) time.Duration { return time.Duration(n%3-1) * time.Hour },
	} {
		for version, candidate := range map[string]func(int) (time.Duration, error){"good": fine, "bad": failing} {
			t.Run(name+", "+version, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b, s, stop := newDisk().open(t)
					defer stop()
					b.jump = jump
					start(t, s)
					b.ask(s, 5, candidate)
					r, _ := s.Get("m")
					if version == "good" && (r.State != admin.RolloutRunning || r.Stage != 0 || r.Candidate.Requests != 50) {
						t.Errorf("after 5 s of 10: %+v", r)
					}
					b.ask(s, 40, candidate)
					want := map[string]string{"good": admin.RolloutWatching, "bad": admin.RolloutBack}[version]
					if r, _ := s.Get("m"); r.State != want {
						t.Errorf("%+v, want %s", r, want)
					}
				})
			})
		}
	}
}

func TestASplitEndsWithItsRolloutAlsoWithASlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s, stop := newDisk().open(t)
		defer stop()
		b.slow = 3 * interval
		start(t, s)
		b.ask(s, 30, failing)
		if got := state(t, s); got != "rolled_back 0 0%" || b.split() != (manager.Split{}) {
			t.Errorf("%s, split %+v", got, b.split())
		}
	})
}

func TestAVersionThatFailsOnceItIsLiveIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s, stop := newDisk().open(t)
		defer stop()
		start(t, s)
		b.ask(s, 40, fine)
		if got := state(t, s); got != "watching 1 100%" {
			t.Fatal(got)
		}
		b.disk.mu.Lock()
		b.full = true // nothing can be stored, and no label can be moved
		b.disk.mu.Unlock()
		b.ask(s, 20, failing)
		if got := state(t, s); got != "reverting 1 100%" || b.split().Version != 1 || b.split().Share != 1 {
			t.Errorf("with a full disk: %s, split %+v", got, b.split())
		}
		b.disk.mu.Lock()
		b.full = false
		b.disk.mu.Unlock()
		time.Sleep(2 * retryAfter)
		if got := state(t, s); got != "rolled_back 1 0%" || b.live() != 1 || b.split() != (manager.Split{}) {
			t.Errorf("%s, live %d, split %+v", got, b.live(), b.split())
		}
	})
}

func TestARolloutDoesNotGoForwardWithoutRequestsOrDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s, stop := newDisk().open(t)
		defer stop()
		start(t, s)
		time.Sleep(time.Hour)
		if got := state(t, s); got != "running 0 10%" {
			t.Error(got)
		}
		b.disk.mu.Lock()
		b.full = true
		b.disk.mu.Unlock()
		b.ask(s, 60, fine)
		if got := state(t, s); got != "running 0 10%" || b.split().Share != 0.1 {
			t.Errorf("%s, split %+v", got, b.split())
		}
	})
}

func TestACandidateThatCannotAnswerIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s, stop := newDisk().open(t)
		defer stop()
		b.broken[2] = "too large"
		if _, err := s.Start(t.Context(), "m", testPlan()); edgewise.KindOf(err) != edgewise.Exhausted || b.split() != (manager.Split{}) {
			t.Errorf("%v, split %+v", err, b.split())
		}
		delete(b.broken, 2)
		start(t, s)
		b.ask(s, 5, fine)
		b.disk.mu.Lock()
		b.broken[2] = "its process has ended"
		b.disk.mu.Unlock()
		time.Sleep(2 * interval)
		if r, _ := s.Get("m"); r.State != admin.RolloutBack || !strings.Contains(r.Reason, "its process has ended") {
			t.Errorf("%+v", r)
		}
	})
}

func TestACandidateThatFailsItsGoldensGetsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s, stop := newDisk().open(t)
		defer stop()
		b.wrong[2] = true
		_, err := s.Start(t.Context(), "m", testPlan())
		if edgewise.KindOf(err) != edgewise.Conflict || b.split() != (manager.Split{}) {
			t.Errorf("%v, split %+v", err, b.split())
		}
		delete(b.wrong, 2)
		start(t, s)
		b.ask(s, 10, fine)
		b.disk.mu.Lock()
		b.wrong[2] = true // there is a new golden
		b.disk.mu.Unlock()
		b.ask(s, 60, fine)
		if r, _ := s.Get("m"); r.State != admin.RolloutBack || !strings.Contains(r.Reason, "goldens fail") || b.live() != 1 {
			t.Errorf("%+v", r)
		}
	})
}

func TestARolloutEndsWhenOthersChangeItsModel(t *testing.T) {
	for name, change := range map[string]func(b *box){
		"label": func(b *box) { _, _ = b.SetLabel(b.t.Context(), "m", "live", 3) },
		"deleted": func(b *box) {
			b.mu.Lock()
			defer b.mu.Unlock()
			changed := *b.record
			changed.Versions = changed.Versions[:1]
			b.record = &changed
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, s, stop := newDisk().open(t)
				defer stop()
				start(t, s)
				b.ask(s, 5, fine)
				change(b)
				time.Sleep(2 * interval)
				if r, _ := s.Get("m"); r.State != admin.RolloutReplaced || b.split() != (manager.Split{}) {
					t.Errorf("%+v, split %+v", r, b.split())
				}
			})
		})
	}
}

func TestPeopleMoveARollout(t *testing.T) {
	ctx := context.Background()
	promote := func(s *Rollouts) (admin.Rollout, error) { return s.Promote(ctx, "m") }
	stop := func(s *Rollouts) (admin.Rollout, error) { return s.Stop(ctx, "m") }
	back := func(s *Rollouts) (admin.Rollout, error) { return s.Back(ctx, "m") }
	again := func(s *Rollouts) (admin.Rollout, error) { return s.Start(ctx, "m", testPlan()) }
	for name, test := range map[string]struct {
		before int // seconds of requests
		move   func(s *Rollouts) (admin.Rollout, error)
		want   string
		live   int64
		kind   edgewise.Kind
	}{
		"promote":          {5, promote, "watching 0 100%", 2, 0},
		"stop":             {5, stop, "stopped 0 0%", 1, 0},
		"roll back":        {5, back, "rolled_back 0 0%", 1, 0},
		"stop the watch":   {40, stop, "stopped 1 0%", 2, 0},
		"roll back live":   {40, back, "rolled_back 1 0%", 1, 0},
		"promote live":     {40, promote, "watching 1 100%", 2, edgewise.Conflict},
		"a second rollout": {5, again, "running 0 10%", 1, edgewise.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, s, end := newDisk().open(t)
				defer end()
				start(t, s)
				b.ask(s, test.before, fine)
				_, err := test.move(s)
				if got := state(t, s); got != test.want || b.live() != test.live || err != nil && edgewise.KindOf(err) != test.kind {
					t.Errorf("%s, live %d, %v", got, b.live(), err)
				}
				if alerts, _ := b.told(); len(alerts) > 0 {
					t.Errorf("alerts %q", alerts)
				}
			})
		})
	}
}

// TestAKilledBoxNeverGoesForward ends the process at each effect on the disk and on the manager, of a version that goes
// live and of one that is taken back after that.
func TestAKilledBoxNeverGoesForward(t *testing.T) {
	rank := map[string]int{admin.RolloutRunning: 0, admin.RolloutPromoting: 10, admin.RolloutWatching: 20, admin.RolloutReverting: 30}
	kills := 0
	for at := 2; ; at++ {
		died := false
		synctest.Test(t, func(t *testing.T) {
			d := newDisk()
			b, s, stop := d.open(t)
			b.dieAt = at
			if _, err := s.Start(t.Context(), "m", testPlan()); err != nil {
				stop()
				died = true
				return
			}
			b.ask(s, 45, fine)
			b.ask(s, 20, failing)
			time.Sleep(5 * time.Second)
			b.mu.Lock()
			died = b.dead()
			b.mu.Unlock()
			before, _ := s.Get("m")
			stop()
			live := d.record.Label("live")
			again, s := d.boot(t)
			r, err := s.Get("m")
			defer run(t, s)()
			if err != nil {
				return // not even its start was stored
			}
			reached := rank[before.State] + before.Stage
			if before.Active() && r.Active() && rank[r.State]+r.Stage > reached && r.State != admin.RolloutReverting {
				t.Errorf("killed at effect %d in %s %d: goes on in %s %d", at, before.State, before.Stage, r.State, r.Stage)
			}
			if live == 2 && rank[r.State] < rank[admin.RolloutPromoting] && r.Active() {
				t.Errorf("killed at effect %d: version 2 is live in %s", at, r.State)
			}
			again.ask(s, 100, failing)
			time.Sleep(2 * retryAfter)
			if r, _ := s.Get("m"); r.Active() || d.record.Label("live") != 1 {
				t.Errorf("killed at effect %d: a bad version ends in %s, live %d", at, r.State, d.record.Label("live"))
			}
		})
		if !died {
			break
		}
		kills++
	}
	if kills < 10 {
		t.Errorf("only %d moments were tried", kills)
	}
}

func TestPlansOutOfBoundsAreInvalid(t *testing.T) {
	minus, much := int64(-1), 21.0
	for field, alter := range map[string]func(p *admin.RolloutPlan){
		"stages":               func(p *admin.RolloutPlan) { p.Stages[0].Percent = 100 },
		"sticky":               func(p *admin.RolloutPlan) { p.Sticky = "parameter:" },
		"watch_seconds":        func(p *admin.RolloutPlan) { p.WatchSeconds = &minus },
		"false_alarm_percent":  func(p *admin.RolloutPlan) { p.FalseAlarmPercent = &much },
		"latency_microseconds": func(p *admin.RolloutPlan) { p.LatencyMicroseconds = &minus },
	} {
		p := testPlan()
		alter(&p)
		err := complete(&p)
		if about, ok := errors.AsType[*edgewise.Error](err); !ok || about.Kind != edgewise.Invalid || about.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	p := admin.RolloutPlan{Version: 2, Stages: []admin.RolloutStage{{Percent: 20, Requests: 1}, {Percent: 10, Requests: 1}}}
	if err := complete(&p); err == nil {
		t.Error("stages that go down are valid")
	}
}
