package appliance

import (
	"errors"
	"log/slog"
	"net"
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
		{"after three losses of power while a model was loaded", starts{Total: 3, InBoot: 1, Boot: "b", Loading: []string{"m:1"}, Suspects: map[string]int{"m:1": 2}}, "c", false, 4},
		{"after four", starts{Total: 4, InBoot: 1, Boot: "b", Loading: []string{"m:1"}, Suspects: map[string]int{"m:1": 3}}, "c", true, 4},
		{"after four, the last with another model", starts{Total: 4, InBoot: 1, Boot: "b", Loading: []string{"m:2"}, Suspects: map[string]int{"m:1": 3}}, "c", false, 5},
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

func open(t *testing.T, dir string) *safeStart {
	t.Helper()
	return openSafeStart(dir, slog.New(slog.DiscardHandler))
}

func TestCrashesLeadToASafeStartThatSaysWhichModel(t *testing.T) {
	dir := t.TempDir()
	for range maxCrashes {
		s := open(t, dir)
		if s.Active() {
			t.Fatal("too early")
		}
		s.loading(edgewise.ModelID{Name: "good", Version: 1})()
		s.loading(edgewise.ModelID{Name: "poison", Version: 3}) // and the program dies
	}
	s := open(t, dir)
	shown := s.show()
	if !s.Active() || shown == nil || !slices.Equal(shown.Models, []string{"poison:3"}) || shown.Crashes != maxCrashes || !strings.Contains(shown.Text, "poison:3") {
		t.Fatalf("got %+v", shown)
	}
	s.wentWell()
	if s = open(t, dir); !s.Active() {
		t.Error("the next start is not safe: nobody has said that it may load models")
	}
	if !s.leave() || s.Active() || s.show() != nil {
		t.Error("it cannot be left")
	}
	s.loading(edgewise.ModelID{Name: "poison", Version: 3})
	if s = open(t, dir); !s.Active() {
		t.Error("one crash after it was left is not enough")
	}
	s.leave()
	s.wentWell()
	if s = open(t, dir); s.Active() {
		t.Error("a start that went well does not end it")
	}
}

func TestAStartThatEndsBeforeItLoadsModelsIsNotCounted(t *testing.T) {
	dir := t.TempDir()
	for range 2 * maxCrashes {
		open(t, dir).undo()
	}
	if _, err := os.Stat(filepath.Join(dir, startsFile)); err == nil {
		t.Error("something is remembered of starts that say nothing")
	}
	open(t, dir).loading(edgewise.ModelID{Name: "poison", Version: 3}) // and the program dies
	open(t, dir).undo()
	if s := open(t, dir); s.Active() || s.now.Total != 2 || s.now.Suspects["poison:3"] != 1 {
		t.Errorf("the crash before it is not what is remembered: %+v", s.now)
	}
	if s := open(t, dir); !s.Active() {
		t.Error("two crashes do not lead to a safe start")
	} else {
		s.undo()
	}
	if s := open(t, dir); !s.Active() {
		t.Error("a safe start that was taken back ended the safe starts")
	}
}

// TestNoMistakeOfTheConfigurationLeadsToASafeStart starts a box at a port that is taken, and with a certificate that is not there.
func TestNoMistakeOfTheConfigurationLeadsToASafeStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	c := testConfig(t)
	for range maxCrashes {
		wrong := c
		wrong.HTTP.Address = taken.Addr().String()
		a, _ := newApp(t, wrong)
		if err := a.Run(t.Context(), nil, Hooks{}); err == nil {
			t.Fatal("it runs at a port that is taken")
		}
		wrong = c
		wrong.GRPC.TLSCertificate, wrong.GRPC.TLSKey = "nowhere.pem", "nowhere.pem"
		if _, err := New(wrong, slog.New(slog.DiscardHandler)); err == nil {
			t.Fatal("it runs without its certificate")
		}
	}
	if a, _ := newApp(t, c); a.safe.Active() {
		t.Error("the box leaves its models out")
	} else {
		a.safe.undo()
		_ = errors.Join(a.closeBox(), a.store.Close())
	}
}

func TestAStartGoesWellAfterAWhile(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		go s.settled(t.Context())
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
		s.loading(edgewise.ModelID{Name: "late", Version: 1})
		if _, err := os.Stat(filepath.Join(dir, startsFile)); err == nil {
			t.Error("a later load is counted as part of the start")
		}
	})
}

func TestWhatIsRememberedOfStartsIsBounded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for i := range maxSuspects + 10 {
		s.loading(edgewise.ModelID{Name: "m", Version: int64(i + 1)})
	}
	if len(s.now.Loading) != maxSuspects {
		t.Errorf("%d versions", len(s.now.Loading))
	}
	for _, damaged := range []string{"{", strings.Repeat(" ", maxStartsBytes+1)} {
		if err := os.WriteFile(filepath.Join(dir, startsFile), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if s := open(t, dir); s.Active() || s.now.Total != 1 {
			t.Errorf("a damaged file: %+v", s.now)
		}
	}
	if got := list([]string{"a", "b", "c", "d", "e"}); got != "a, b, c and 2 more" {
		t.Errorf("got %q", got)
	}
}
