package fault

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/rollout"
	"github.com/edgewise-ai/edgewise/store"
	"github.com/edgewise-ai/edgewise/store/documents"
)

var rolloutKills = flag.Int("fault.rollouts", 15, "how often a process that rolls versions out is killed")

// rolloutEnv names the data folder to a child process that rolls versions out.
const rolloutEnv = "EDGEWISE_FAULT_ROLLOUT_DIR"

// rolled is a box without models on a real disk: labels and documents are stored, and versions are numbers. It says what
// takes effect.
type rolled struct {
	*store.Store
	documents *documents.Documents
	said      io.Writer

	mu    sync.Mutex // guards split
	split manager.Split
}

func openRolled(dir string, said io.Writer) (*rolled, error) {
	s, err := store.Open(dir, store.Options{SnapshotEvery: -1})
	if err != nil {
		return nil, err
	}
	d, err := documents.Open(dir, documents.Options{SnapshotEvery: -1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &rolled{Store: s, documents: d, said: said}, nil
}

func (r *rolled) close() error { return errors.Join(r.documents.Close(), r.Store.Close()) }

func (r *rolled) rollouts() *rollout.Rollouts {
	return rollout.Open(rollout.Config{
		Documents: r.documents, Manager: r, Models: r, Publish: func(string, any) {}, Alert: func(_, _, _ string) {},
		Prove: func(context.Context, edgewise.ModelID) error { return nil },
		Audit: func(admin.AuditEntry) error { return nil }, Logger: slog.New(slog.DiscardHandler),
		Interval: time.Millisecond,
	})
}

// Split says from which version requests are sent to which.
func (r *rolled) Split(_ string, s manager.Split) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.split = s
	fmt.Fprintf(r.said, "split %d %d %g\n", s.Live, s.Version, s.Share)
}

func (r *rolled) Await(context.Context, edgewise.ModelID) error { return nil }

func (r *rolled) Statuses() []edgewise.Status {
	var list []edgewise.Status
	for _, v := range r.Lookup("m").Versions {
		list = append(list, edgewise.Status{ID: v.ID, State: edgewise.StateReady})
	}
	return list
}

func (r *rolled) Lookup(name string) *edgewise.Record {
	record, err := r.Record(name)
	if err != nil {
		return nil
	}
	return record
}

func (r *rolled) Changeable(string, string) error { return nil }

func (r *rolled) SetLabel(ctx context.Context, name, label string, version int64) (admin.LabelMove, error) {
	l, err := r.Store.SetLabel(ctx, name, label, version)
	return admin.LabelMove{Label: l}, err
}

func (r *rolled) Rollback(ctx context.Context, name, label string) (admin.LabelMove, error) {
	l, err := r.Store.Rollback(ctx, name, label)
	return admin.LabelMove{Label: l}, err
}

// version stores a version of the model that rollouts are about.
func (r *rolled) version(ctx context.Context, content string) error {
	staging, err := r.Begin(ctx, -1)
	if err != nil {
		return err
	}
	if _, err := staging.Add(ctx, "model.onnx", int64(len(content)), strings.NewReader(content)); err != nil {
		return err
	}
	_, err = r.Put(ctx, staging, edgewise.Version{
		ID: edgewise.ModelID{Name: "m"}, Model: &edgewise.Model{Name: "m"}, Origin: "test",
	})
	return err
}

// rollForever rolls a version out, and another one in its place, again and again: what is live answers well, one in
// three candidates does not, and every second one that becomes live is taken back.
func rollForever(dir string, seed uint64) error {
	r, err := openRolled(dir, os.Stdout)
	if err != nil {
		return err
	}
	s := r.rollouts()
	fmt.Println("open")
	go s.Run(context.Background())
	random := rand.New(rand.NewPCG(seed, 3))
	for {
		shown, err := s.Get("m")
		if err != nil || !shown.Active() {
			live := r.Lookup("m").Label(edgewise.LiveLabel)
			watch := int64(1)
			plan := admin.RolloutPlan{Version: 3 - live, WatchSeconds: &watch, Stages: []admin.RolloutStage{
				{Percent: 10, Requests: 30}, {Percent: 50, Requests: 30},
			}}
			if _, err := s.Start(context.Background(), "m", plan); err != nil {
				return err
			}
			fmt.Println("started")
			continue
		}
		if shown.State == admin.RolloutWatching {
			end := []func(context.Context, string) (admin.Rollout, error){s.Stop, s.Back}[random.IntN(2)]
			if _, err := end(context.Background(), "m"); err != nil && edgewise.KindOf(err) != edgewise.Conflict {
				return err
			}
		}
		bad := random.IntN(3) == 0
		for range 200 {
			answer(r, s, random, bad)
		}
		time.Sleep(time.Millisecond)
	}
}

// answer sends a request as a manager does.
func answer(r *rolled, s *rollout.Rollouts, random *rand.Rand, bad bool) {
	r.mu.Lock()
	split := r.split
	r.mu.Unlock()
	version := r.Lookup("m").Label(edgewise.LiveLabel)
	var err error
	if split.Live == version && random.Float64() < split.Share {
		if version = split.Version; bad {
			err = errors.New("failed")
		}
	}
	s.Observe(edgewise.ModelID{Name: "m", Version: version}, &edgewise.Request{}, nil, time.Now(), time.Millisecond, err)
}

// reached is how far a rollout had come when a split took effect.
type reached struct {
	split manager.Split
	level int // 0: none; 1: its versions are loaded; 2 and 3: its stages; 4: promoted
}

// next is what a split comes to after another one.
func (r reached) next(s manager.Split) reached {
	switch {
	case s == (manager.Split{}) || s.Share == 1: // ended, or going back
		return reached{s, 0}
	case s.Share == 0 && s.Live == r.split.Version && s.Version == r.split.Live || s.Share == 0 && s == r.split && r.level == 4:
		return reached{s, 4}
	case s.Share == 0:
		return reached{s, 1}
	case s.Share < 0.5:
		return reached{s, 2}
	}
	return reached{s, 3}
}

// TestAKilledRolloutGoesOnOrBackAndNeverForward kills a child at random moments. What takes effect is at most one step
// further than what took effect before, also in the next life, and no version is live that had not passed the stages.
func TestAKilledRolloutGoesOnOrBackAndNeverForward(t *testing.T) {
	random := rand.New(rand.NewPCG(chosenSeed(t), 5))
	dir := t.TempDir()
	r, err := openRolled(dir, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"one", "two"} {
		if err := r.version(t.Context(), content); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.SetLabel(t.Context(), "m", edgewise.LiveLabel, 1); err != nil {
		t.Fatal(err)
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	found, at := map[string]int{}, reached{}
	for n := range *rolloutKills {
		for line := range bytes.Lines(killRollout(t, dir, random)) {
			var s manager.Split
			if _, err := fmt.Sscanf(string(line), "split %d %d %g", &s.Live, &s.Version, &s.Share); err != nil {
				continue
			}
			before := at
			if at = at.next(s); at.level > before.level+1 {
				t.Errorf("cycle %d: from %+v to %+v", n, before, at)
			}
		}
		r, err := openRolled(dir, io.Discard)
		if err != nil {
			t.Fatalf("cycle %d: %v", n, err)
		}
		live := r.Lookup("m").Label(edgewise.LiveLabel)
		if at.level > 0 && at.level < 3 && live != at.split.Live || at.level == 3 && !at.split.Has(live) {
			t.Errorf("cycle %d: version %d is live after %+v", n, live, at)
		}
		if shown, err := r.rollouts().Get("m"); err == nil {
			found[shown.State]++
		}
		if err := r.close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kills, found in %v", *rolloutKills, found)
	if *rolloutKills >= 60 && len(found) < 4 {
		t.Errorf("the kills came at the wrong moments: %v", found)
	}
}

// killRollout runs a child for a random time, and returns what it said.
func killRollout(t *testing.T, dir string, random *rand.Rand) []byte {
	t.Helper()
	child := exec.Command(os.Args[0], fmt.Sprintf("-fault.seed=%d", random.Uint64()|1))
	child.Env = append(os.Environ(), rolloutEnv+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	first := make([]byte, 1) // it is open when it says the first word
	if _, err := io.ReadFull(out, first); err != nil {
		t.Fatalf("the child did not begin: %v", err)
	}
	kill := time.AfterFunc(time.Duration(random.Int64N(int64(200*time.Millisecond))), func() { _ = child.Process.Kill() })
	_, _ = said.Write(first)
	if _, err := io.Copy(&said, out); err != nil {
		t.Fatal(err)
	}
	kill.Stop()
	_ = child.Wait()
	if child.ProcessState.Exited() {
		t.Fatalf("the child ended by itself: %v", child.ProcessState)
	}
	return said.Bytes()
}
