package update

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// seen is a machine whose other slot was started in vain, or holds nothing.
func seen(slot, version string, good bool, next, boot string) Seen {
	return Seen{
		Slot: slot, Version: version, Good: good, Next: next, Boot: boot, Time: noon,
		Other: SeenSlot{Name: map[string]string{"A": "B", "B": "A"}[slot]},
	}
}

// with is a machine as seen, with another slot of that kind.
func (s Seen) with(activated uint32, other SeenSlot) Seen {
	other.Name = s.Other.Name
	s.Activated, s.Other = activated, other
	return s
}

func TestWhatAStartSays(t *testing.T) {
	ran := &Ran{"A", "1.0", "boot1"}
	update := &Pending{"B", "1.1", "1.0", ActionUpdate, "boot1", noon, true}
	cut := &Pending{"B", "1.1", "1.0", ActionUpdate, "boot1", noon, false}
	tests := []struct {
		name    string
		was     History
		now     Seen
		fell    bool
		pending bool
		last    string // error of the last result; "none": there is no result
		runs    string // slot in Ran
		refused []string
	}{
		{"the first start", History{}, seen("A", "1.0", true, "A", "boot1"), false, false, "none", "A", nil},
		{
			"installed and not restarted",
			History{Ran: ran, Pending: update},
			seen("A", "1.0", true, "A", "boot1"), false, true,
			"none", "A", nil,
		},
		{
			"in the new slot, not checked yet",
			History{Ran: ran, Pending: update},
			seen("B", "1.1", false, "A", "boot2"), false,
			true, "none", "A", nil,
		},
		{
			"in the new slot, checked",
			History{Ran: ran, Pending: update, Refused: []string{"1.1", "0.5"}},
			seen("B", "1.1", true, "A", "boot2"), false, false, "", "B",
			[]string{"0.5"},
		},
		{
			"fallen back",
			History{Ran: ran, Pending: update},
			seen("A", "1.0", true, "A", "boot5"), true, false,
			"version 1.1 did not pass its check", "A",
			[]string{"1.1"},
		},
		{
			"fallen back, and not checked yet",
			History{Ran: ran, Pending: update},
			seen("A", "1.0", false, "A", "boot5"), true,
			false, "version 1.1 did not pass its check", "A",
			[]string{"1.1"},
		},
		{
			"a slot that ran well does not start any more",
			History{Ran: &Ran{"B", "1.1", "boot9"}},
			seen("A", "1.0", true, "A", "boot12"), true, false, "none", "A",
			[]string{"1.1"},
		},
		{
			"cut off while it was written",
			History{Ran: ran, Pending: cut},
			seen("A", "1.0", true, "A", "boot2"), false, false,
			"the installation of version 1.1 was cut off by a restart", "A", nil,
		},
		{
			"the other one was chosen",
			History{Ran: ran, Pending: update},
			seen("A", "1.0", true, "B", "boot2").with(0, SeenSlot{Version: "1.1", Good: true, Activated: 1}), false, true,
			"none", "A", nil,
		},
		{"nothing new", History{Ran: ran}, seen("A", "1.0", true, "A", "boot2"), false, false, "none", "A", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			next, fell := tt.was.Look(tt.now)
			last := "none"
			if next.Last != nil {
				last = next.Last.Error
			}
			if fell != tt.fell || (next.Pending != nil) != tt.pending || last != tt.last || next.Ran.Slot != tt.runs ||
				!slices.Equal(next.Refused, tt.refused) {
				t.Errorf("fell %v, next %+v, last %q", fell, next, last)
			}
			if fell != (next.Fallback != nil) {
				t.Errorf("fallback %+v", next.Fallback)
			}
			if again, fell := next.Look(tt.now); fell || again.Last != next.Last {
				t.Errorf("the same start is news a second time: %+v", again)
			}
		})
	}
}

// TestAnUpdateFromAStick follows updates that were made without this program.
func TestAnUpdateFromAStick(t *testing.T) {
	before := History{
		Ran: &Ran{"A", "1.0", "boot1"}, Activated: map[string]uint32{"A": 0, "B": 0},
		Refused: []string{"1.1", "0.5"},
	}
	newer := SeenSlot{Version: "1.1", Good: true, Activated: 1}
	tried := SeenSlot{Version: "1.1", Activated: 1}
	old := SeenSlot{Good: true}
	tests := []struct {
		name  string
		was   History
		looks []Seen
		fell  bool
		ran   Ran
		last  *Result
	}{
		{
			"it waits for a restart", before,
			[]Seen{seen("A", "1.0", true, "B", "boot1").with(0, newer)},
			false,
			Ran{"A", "1.0", "boot1"},
			nil,
		},
		{
			"the restart came before anybody looked", before,
			[]Seen{seen("B", "1.1", false, "A", "boot2").with(1, old)},
			false,
			Ran{"A", "1.0", "boot1"},
			nil,
		},
		{
			"and it passes its check", before,
			[]Seen{seen("B", "1.1", false, "A", "boot2").with(1, old), seen("B", "1.1", true, "B", "boot2").with(1, old)},
			false,
			Ran{"B", "1.1", "boot2"},
			&Result{ActionUpdate, "1.1", "1.0", noon, ""},
		},
		{
			"somebody looked before the restart", before,
			[]Seen{seen("A", "1.0", true, "B", "boot1").with(0, newer), seen("B", "1.1", true, "B", "boot2").with(1, old)},
			false,
			Ran{"B", "1.1", "boot2"},
			&Result{ActionUpdate, "1.1", "1.0", noon, ""},
		},
		{
			"it does not start", before,
			[]Seen{seen("A", "1.0", false, "A", "boot5").with(0, tried)},
			true,
			Ran{"A", "1.0", "boot5"},
			&Result{ActionUpdate, "1.1", "1.0", noon, "version 1.1 did not pass its check"},
		},
		{
			"it does not start, and somebody looked before", before,
			[]Seen{seen("A", "1.0", true, "B", "boot1").with(0, newer), seen("A", "1.0", false, "A", "boot5").with(0, tried)},
			true,
			Ran{"A", "1.0", "boot5"},
			&Result{ActionUpdate, "1.1", "1.0", noon, "version 1.1 did not pass its check"},
		},
		{
			"it was taken back by hand", before,
			[]Seen{seen("A", "1.0", true, "A", "boot1").with(1, tried)},
			false,
			Ran{"A", "1.0", "boot1"},
			nil,
		},
		{
			"of a program that did not count",
			History{Ran: before.Ran},
			[]Seen{seen("A", "1.0", true, "A", "boot2").with(4, SeenSlot{Version: "0.9", Activated: 3})},
			false,
			Ran{"A", "1.0", "boot2"},
			nil,
		},
		{
			"the other slot was chosen in the menu", before,
			[]Seen{seen("B", "0.9", true, "A", "boot2").with(0, old)},
			false,
			Ran{"B", "0.9", "boot2"},
			nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, fell := tt.was, false
			for _, now := range tt.looks {
				h, fell = h.Look(now)
			}
			if fell != tt.fell || fell != (h.Fallback != nil) || *h.Ran != tt.ran || (h.Last == nil) != (tt.last == nil) ||
				tt.last != nil && *h.Last != *tt.last {
				t.Errorf("fell %v, %+v, ran %+v, last %+v", fell, h, h.Ran, h.Last)
			}
			if fell && (h.Fallback.Slot != "B" || h.Fallback.Since != "boot1" || h.Refused[len(h.Refused)-1] != "1.1") {
				t.Errorf("the failed start is %+v, refused %q", h.Fallback, h.Refused)
			}
			if again, fell := h.Look(tt.looks[len(tt.looks)-1]); fell || !again.Equal(h) {
				t.Errorf("the same is news a second time: %+v", again)
			}
		})
	}
}

func TestAGoodUpdateEndsWhatWasSaidOfAFailedOne(t *testing.T) {
	h := History{
		Ran: &Ran{"A", "1.0", "b1"}, Fallback: &Failed{Slot: "B", Version: "1.1"}, Refused: []string{"1.1"},
		Pending: &Pending{Slot: "B", Version: "1.2", Boot: "b1", Written: true},
	}
	next, _ := h.Look(seen("B", "1.2", true, "A", "b2"))
	if next.Fallback != nil || next.Last == nil || next.Last.Error != "" {
		t.Errorf("got %+v", next)
	}
}

func TestRefusedVersionsAreBounded(t *testing.T) {
	var h History
	for i := range maxRefused + 5 {
		h.fail("B", string(rune('a'+i)), "", Seen{})
	}
	if len(h.Refused) != maxRefused || h.Refused[maxRefused-1] != string(rune('a'+maxRefused+4)) {
		t.Errorf("got %q", h.Refused)
	}
}

func TestAHistoryIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.json")
	if h, err := ReadHistory(path); err != nil || !h.Equal(History{}) {
		t.Errorf("nothing there: %+v, %v", h, err)
	}
	h := History{Ran: &Ran{"A", "1.0", "b"}, Last: &Result{ActionUpdate, "1.0", "0.9", noon, ""}}
	if err := h.Write(path); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadHistory(path); err != nil || !got.Equal(h) {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadHistory(path); err == nil {
		t.Error("a damaged file is read")
	}
}

func TestCompare(t *testing.T) {
	inOrder := []string{"0.1.0~rc1", "0.1.0", "0.1.0+next", "0.1.1", "0.2", "0.10", "1.0-1", "1.0-2", "1.0a", "1:0.5"}
	for i, a := range inOrder {
		for j, b := range inOrder {
			if got := Compare(a, b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("Compare(%q, %q) = %d", a, b, got)
			}
		}
	}
	if Compare("1.01", "1.1") != 0 || Compare("0:1.0", "1.0") != 0 {
		t.Error("leading zeros count")
	}
}

func TestCompareIsAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.StringMatching(`([0-9]:)?[0-9][0-9a-z.+~]{0,6}(-[0-9a-z.~]{1,3})?`)
		a, b, c := v.Draw(t, "a"), v.Draw(t, "b"), v.Draw(t, "c")
		if Compare(a, b) != -Compare(b, a) && Compare(a, b)*Compare(b, a) >= 0 && Compare(a, b) != 0 {
			t.Fatalf("Compare(%q, %q) has no mirror", a, b)
		}
		if Compare(a, b) <= 0 && Compare(b, c) <= 0 && Compare(a, c) > 0 {
			t.Fatalf("%q <= %q <= %q and not %[1]q <= %[3]q", a, b, c)
		}
	})
}

func TestIdentify(t *testing.T) {
	tests := []struct {
		name, packaging, release string
		want                     Packaging
	}{
		{"a folder", "", "ID=debian\n", Packaging{Folder, ""}},
		{"the package", "package 1.2.3\n", "ID=debian\nVERSION_ID=\"12\"\n", Packaging{Package, "1.2.3"}},
		{"the image", "package 1.2.3\n", "ID=edgewise\nVERSION_ID=\"1.2.4\"\n", Packaging{Image, "1.2.4"}},
		{"a container", "container 1.2.3\n", "", Packaging{Container, "1.2.3"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{packagingFile: tt.packaging, "os-release": tt.release} {
				if text != "" {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := Identify(filepath.Join(dir, "edgewise"), filepath.Join(dir, "os-release")); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestAnInstallationThatNobodyWaitedFor(t *testing.T) {
	h := History{Pending: &Pending{Slot: "B", Version: "1.1", Boot: "b1"}}
	if next, _ := h.Look(seen("A", "1.0", true, "A", "b1")); next.Pending.Written {
		t.Error("it is not written yet")
	}
	if next, _ := h.Look(seen("A", "1.0", true, "B", "b1")); !next.Pending.Written || h.Pending.Written {
		t.Errorf("got %+v of %+v", next.Pending, h.Pending)
	}
}
