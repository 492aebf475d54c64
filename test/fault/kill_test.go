package fault

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/store"
	"github.com/google/go-cmp/cmp"
)

var (
	cycles = flag.Int("fault.cycles", 60, "how often the child is killed")
	seed   = flag.Uint64("fault.seed", 0, "replays a run; 0 takes a new seed")
)

// childEnv names the data folder to a child process.
const childEnv = "EDGEWISE_FAULT_DIR"

func TestMain(m *testing.M) {
	flag.Parse()
	if dir := os.Getenv(childEnv); dir != "" {
		if err := changeForever(dir, *seed, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if dir := os.Getenv(rolloutEnv); dir != "" {
		if err := rollForever(dir, *seed); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// chosenSeed is the seed of this run, and how to run it again.
func chosenSeed(t *testing.T) uint64 {
	t.Helper()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay with -fault.seed=%d -fault.cycles=%d", *seed, *cycles)
	return *seed
}

// TestKilledStoreKeepsWhatItAcknowledged kills a child that changes a store, at random moments, and compares what is
// left with what the child had been told.
func TestKilledStoreKeepsWhatItAcknowledged(t *testing.T) {
	k := &killer{dir: t.TempDir(), window: shortWindow, random: rand.New(rand.NewPCG(chosenSeed(t), 1)), state: newState()}
	for n := range *cycles {
		k.cycle(t, n)
	}
	t.Logf("%d kills: %d changes acknowledged, %d of the changes in flight took effect and %d did not, %d kills while "+
		"opening or between changes",
		*cycles, k.acknowledged, k.tookEffect, k.vanished, k.idle)
	if *cycles >= 60 && (k.acknowledged == 0 || k.vanished+k.tookEffect == 0) {
		t.Errorf("the kills came at the wrong moments: nothing was tried")
	}
}

// shortWindow is within what time a child is killed, where changes take no longer.
const shortWindow = 60 * time.Millisecond

type killer struct {
	dir    string
	random *rand.Rand
	window time.Duration // grows until changes are acknowledged within it: a busy disk takes its time
	state  *state        // what must be there

	acknowledged, tookEffect, vanished, idle int
}

func (k *killer) cycle(t *testing.T, n int) {
	t.Helper()
	before := k.acknowledged
	output := k.runAndKill(t)
	pending := k.replay(t, output)
	if k.acknowledged == before {
		k.window = min(2*k.window, 10*time.Second)
	} else {
		k.window = max(k.window/2, shortWindow)
	}
	s, err := store.Open(k.dir, store.Options{SnapshotEvery: -1})
	if err != nil {
		t.Fatalf("cycle %d: %v", n, err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Errorf("cycle %d: %v", n, err)
		}
	}()
	got := stateOf(s.Records())
	k.compare(t, n, got, pending)
	checkWhole(t, n, k.dir, s)
}

// runAndKill starts a child, kills it within the window after its start or after its store is open, and returns what it
// said.
func (k *killer) runAndKill(t *testing.T) []byte {
	t.Helper()
	child := exec.Command(os.Args[0], fmt.Sprintf("-fault.seed=%d", k.random.Uint64()|1))
	child.Env = append(os.Environ(), childEnv+"="+k.dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(out)
	var said []byte
	if k.random.IntN(4) > 0 {
		if said, err = reader.ReadBytes('\n'); err != nil {
			t.Fatalf("the child did not open its store: %v", err)
		}
	}
	kill := time.AfterFunc(time.Duration(1+k.random.Int64N(int64(k.window))), func() { _ = child.Process.Kill() })
	rest, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	kill.Stop()
	_ = child.Wait()
	if child.ProcessState.Exited() {
		t.Fatalf("the child ended by itself: %v", child.ProcessState)
	}
	return append(said, rest...)
}

// replay applies what was acknowledged and returns the change that was begun last and not acknowledged, if any.
func (k *killer) replay(t *testing.T, output []byte) (pending *change) {
	t.Helper()
	for line := range bytes.Lines(output) {
		verb, rest, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		switch string(verb) {
		case "open":
		case "try":
			c := new(change)
			if err := json.Unmarshal(rest, c); err != nil {
				if !bytes.HasSuffix(line, []byte("\n")) {
					return nil // killed while saying so: nothing was begun
				}
				t.Fatalf("line %q: %v", line, err)
			}
			pending = c
		case "done":
			k.state.apply(pending)
			k.acknowledged++
			pending = nil
		default:
			t.Fatalf("the child said %q", line)
		}
	}
	return pending
}

// compare fails unless got is the acknowledged state, or that with the pending change applied whole.
func (k *killer) compare(t *testing.T, n int, got *state, pending *change) {
	t.Helper()
	before := cmp.Diff(k.state.models, got.models)
	if pending == nil {
		k.idle++
		if before != "" {
			t.Fatalf("cycle %d: the store is not as acknowledged:\n%s", n, before)
		}
		return
	}
	if before == "" {
		k.vanished++
		return
	}
	k.state.apply(pending)
	if after := cmp.Diff(k.state.models, got.models); after != "" {
		t.Fatalf("cycle %d: %+v is neither done nor undone; against the state without it:\n%s\nagainst the state with it:\n%s",
			n, *pending, before, after)
	}
	k.tookEffect++
}

// checkWhole reads every byte and looks for anything that no version names.
func checkWhole(t *testing.T, n int, dir string, s *store.Store) {
	t.Helper()
	report, err := s.Verify(context.Background())
	if err != nil || !report.OK() {
		t.Fatalf("cycle %d: %v\n%s", n, err, report)
	}
	usage, err := s.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if got := len(list(t, dir, "blobs", "*", "*")); got != int(usage.Blobs) {
		t.Errorf("cycle %d: %d files in blobs, %d are named", n, got, usage.Blobs)
	}
	if got := len(list(t, dir, "models", "*", "*")); got != report.Versions {
		t.Errorf("cycle %d: %d version folders, %d versions", n, got, report.Versions)
	}
	if got := len(list(t, dir, "models", "*", "*", "*")); got != 2*report.Versions {
		t.Errorf("cycle %d: %d things in %d version folders: want a manifest and the files in each", n, got, report.Versions)
	}
	left := append(list(t, dir, "staging", "*"), list(t, dir, "snapshots", "*.tmp")...)
	if left = append(left, list(t, dir, "*.new")...); len(left) > 0 {
		t.Errorf("cycle %d: left behind: %v", n, left)
	}
	for _, r := range s.Records() {
		for _, v := range r.Versions {
			if _, err := s.Dir(v.ID); err != nil {
				t.Errorf("cycle %d: %v", n, err)
			}
		}
	}
}

func list(t *testing.T, parts ...string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return found
}
