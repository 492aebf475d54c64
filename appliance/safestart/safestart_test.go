package safestart

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

func TestWhichStartIsSafe(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name  string
		was   starts
		boot  string
		safe  bool
		total int
	}{
		{"the first", starts{}, "a", false, 1},
		{"after one that did not end well", starts{Total: 1, InBoot: 1, Boot: "a"}, "a", false, 2},
		{"after two", starts{Total: 2, InBoot: 2, Boot: "a"}, "a", true, 2},
		{"after two losses of power", starts{Total: 2, InBoot: 1, Boot: "b"}, "c", false, 3},
		{"after fifty losses of power", starts{Total: 50, InBoot: 1, Boot: "b"}, "c", false, 51},
		{"after two, and a restart of the machine", starts{Total: 2, InBoot: 2, Boot: "a"}, "b", false, 3},
		{"after three losses of power while a model was loaded", starts{
			Total: 3, InBoot: 1, Boot: "b",
			Loading: []string{"m:1"}, Suspects: map[string]int{"m:1": 2},
		}, "c", false, 4},
		{
			"after four",
			starts{Total: 4, InBoot: 1, Boot: "b", Loading: []string{"m:1"}, Suspects: map[string]int{"m:1": 3}},
			"c", true, 4,
		},
		{"after four, the last with another model", starts{
			Total: 4, InBoot: 1, Boot: "b", Loading: []string{"m:2"},
			Suspects: map[string]int{"m:1": 3},
		}, "c", false, 5},
		{"after a safe one", starts{Total: 2, InBoot: 2, Boot: "a", Safe: true}, "b", true, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			next, safe := tt.was.next(tt.boot, now)
			if safe != tt.safe || next.Total != tt.total || next.Boot != tt.boot || next.Safe != tt.safe {
				t.Errorf("got %+v, safe %v", next, safe)
			}
		})
	}
}

func open(t *testing.T, dir string) *Counter {
	t.Helper()
	return Open(dir, true, slog.New(slog.DiscardHandler))
}

func TestCrashesLeadToASafeStartThatSaysWhichModel(t *testing.T) {
	dir := t.TempDir()
	for range MaxCrashes {
		s := open(t, dir)
		if s.Active() {
			t.Fatal("too early")
		}
		s.Loading(edgewise.ModelID{Name: "good", Version: 1})()
		s.Loading(edgewise.ModelID{Name: "poison", Version: 3}) // and the program dies
	}
	s := open(t, dir)
	shown := s.Describe()
	if !s.Active() || shown == nil || !slices.Equal(shown.Models, []string{"poison:3"}) || shown.Crashes != MaxCrashes ||
		!strings.Contains(shown.Text, "poison:3") {
		t.Fatalf("got %+v", shown)
	}
	s.Succeeded()
	if s = open(t, dir); !s.Active() {
		t.Error("the next start is not safe: nobody has said that it may load models")
	}
	if !s.Leave() || s.Active() || s.Describe() != nil {
		t.Error("it cannot be left")
	}
	s.Loading(edgewise.ModelID{Name: "poison", Version: 3})
	if s = open(t, dir); !s.Active() {
		t.Error("one crash after it was left is not enough")
	}
	s.Leave()
	s.Succeeded()
	if s = open(t, dir); s.Active() {
		t.Error("a start that went well does not end it")
	}
}

func TestWhereStartsAreNotCountedNoneIsSafe(t *testing.T) {
	dir := t.TempDir()
	for range MaxCrashes {
		open(t, dir).Loading(edgewise.ModelID{Name: "poison", Version: 3}) // and the program dies
	}
	for range 2 * maxCuts {
		s := Open(dir, false, slog.New(slog.DiscardHandler))
		s.Loading(edgewise.ModelID{Name: "poison", Version: 3})
		if s.Active() || s.Describe() != nil || s.Leave() {
			t.Fatal("a start is safe")
		}
	}
	Open(dir, false, slog.New(slog.DiscardHandler)).Undo()
	if _, err := os.Stat(filepath.Join(dir, startsFile)); err == nil {
		t.Error("something is remembered")
	}
	if open(t, dir).Active() {
		t.Error("starts that were not counted make the next one safe")
	}
}

func TestAStartThatEndsBeforeItLoadsModelsIsNotCounted(t *testing.T) {
	dir := t.TempDir()
	for range 2 * MaxCrashes {
		open(t, dir).Undo()
	}
	if _, err := os.Stat(filepath.Join(dir, startsFile)); err == nil {
		t.Error("something is remembered of starts that say nothing")
	}
	open(t, dir).Loading(edgewise.ModelID{Name: "poison", Version: 3}) // and the program dies
	open(t, dir).Undo()
	if s := open(t, dir); s.Active() || s.current.Total != 2 || s.current.Suspects["poison:3"] != 1 {
		t.Errorf("the crash before it is not what is remembered: %+v", s.current)
	}
	if s := open(t, dir); !s.Active() {
		t.Error("two crashes do not lead to a safe start")
	} else {
		s.Undo()
	}
	if s := open(t, dir); !s.Active() {
		t.Error("a safe start that was taken back ended the safe starts")
	}
}

func TestAStartGoesWellAfterAWhile(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		go s.AwaitSteady(t.Context())
		time.Sleep(steadyTime - time.Second)
		synctest.Wait()
		if _, err := os.Stat(filepath.Join(dir, startsFile)); err != nil {
			t.Error("it is forgotten too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, err := os.Stat(filepath.Join(dir, startsFile)); err == nil {
			t.Error("it is still counted")
		}
		s.Loading(edgewise.ModelID{Name: "late", Version: 1})
		if _, err := os.Stat(filepath.Join(dir, startsFile)); err == nil {
			t.Error("a later load is counted as part of the start")
		}
	})
}

func TestWhatIsRememberedOfStartsIsBounded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for i := range maxSuspects + 10 {
		s.Loading(edgewise.ModelID{Name: "m", Version: int64(i + 1)})
	}
	if len(s.current.Loading) != maxSuspects {
		t.Errorf("%d versions", len(s.current.Loading))
	}
	for _, damaged := range []string{"{", strings.Repeat(" ", maxStartsBytes+1)} {
		if err := os.WriteFile(filepath.Join(dir, startsFile), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if s := open(t, dir); s.Active() || s.current.Total != 1 {
			t.Errorf("a damaged file: %+v", s.current)
		}
	}
	if got := firstNames([]string{"a", "b", "c", "d", "e"}); got != "a, b, c and 2 more" {
		t.Errorf("got %q", got)
	}
}
