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
		{"the first start", History{}, Seen{"A", "1.0", true, "A", "boot1", noon}, false, false, "none", "A", nil},
		{"installed and not restarted", History{Ran: ran, Pending: update}, Seen{"A", "1.0", true, "A", "boot1", noon}, false, true, "none", "A", nil},
		{"in the new slot, not checked yet", History{Ran: ran, Pending: update}, Seen{"B", "1.1", false, "A", "boot2", noon}, false, true, "none", "A", nil},
		{"in the new slot, checked", History{Ran: ran, Pending: update, Refused: []string{"1.1", "0.5"}}, Seen{"B", "1.1", true, "A", "boot2", noon}, false, false, "", "B", []string{"0.5"}},
		{"fallen back", History{Ran: ran, Pending: update}, Seen{"A", "1.0", true, "A", "boot5", noon}, true, false, "version 1.1 did not pass its check, or was not started", "A", []string{"1.1"}},
		{"fallen back, and not checked yet", History{Ran: ran, Pending: update}, Seen{"A", "1.0", false, "A", "boot5", noon}, true, false, "version 1.1 did not pass its check, or was not started", "A", []string{"1.1"}},
		{"a slot that ran well does not start any more", History{Ran: &Ran{"B", "1.1", "boot9"}}, Seen{"A", "1.0", true, "A", "boot12", noon}, true, false, "none", "A", []string{"1.1"}},
		{"cut off while it was written", History{Ran: ran, Pending: cut}, Seen{"A", "1.0", true, "A", "boot2", noon}, false, false, "the installation of version 1.1 was cut off by a restart", "A", nil},
		{"nothing new", History{Ran: ran}, Seen{"A", "1.0", true, "A", "boot2", noon}, false, false, "none", "A", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			next, fell := tt.was.Look(tt.now)
			last := "none"
			if next.Last != nil {
				last = next.Last.Error
			}
			if fell != tt.fell || (next.Pending != nil) != tt.pending || last != tt.last || next.Ran.Slot != tt.runs || !slices.Equal(next.Refused, tt.refused) {
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

func TestAGoodUpdateEndsWhatWasSaidOfAFailedOne(t *testing.T) {
	h := History{Ran: &Ran{"A", "1.0", "b1"}, Fallback: &Failed{Slot: "B", Version: "1.1"}, Refused: []string{"1.1"}, Pending: &Pending{Slot: "B", Version: "1.2", Boot: "b1", Written: true}}
	next, _ := h.Look(Seen{"B", "1.2", true, "A", "b2", noon})
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
	if next, _ := h.Look(Seen{"A", "1.0", true, "A", "b1", noon}); next.Pending.Written {
		t.Error("it is not written yet")
	}
	if next, _ := h.Look(Seen{"A", "1.0", true, "B", "b1", noon}); !next.Pending.Written || h.Pending.Written {
		t.Errorf("got %+v of %+v", next.Pending, h.Pending)
	}
}
