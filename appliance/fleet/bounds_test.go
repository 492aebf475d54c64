package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"aead.dev/minisign"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

func TestASignatureHasABound(t *testing.T) {
	w, s, source := newWorld(t), newSigner(t), t.TempDir()
	good := text(1, "")
	signed := s.sign(good)
	for size, problem := range map[int]string{MaxSignature: "", MaxSignature + 1: "more than 4096 bytes"} {
		s.put(t, source, good)
		long := append(signed, strings.Repeat("\n", size-len(signed))...)
		if err := os.WriteFile(filepath.Join(source, SignatureFile), long, 0o600); err != nil {
			t.Fatal(err)
		}
		b := w.box(s, "b", source)
		if b.poll(t.Context()); !strings.Contains(b.Status().Problem, problem) || (problem == "") != (b.Status().Problem == "") {
			t.Errorf("%d bytes: %q, want %q", size, b.Status().Problem, problem)
		}
	}
}

func TestTrustedKeysHaveABound(t *testing.T) {
	s := newSigner(t)
	for i := range maxKeys {
		if keys, err := keysIn(s.folder); err != nil || len(keys) != i+1 {
			t.Fatalf("%d keys: %v", i+1, err)
		}
		public, _, err := minisign.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		key, err := public.MarshalText()
		if err == nil {
			err = os.WriteFile(filepath.Join(s.folder, fmt.Sprintf("k%d.pub", i)), key, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := keysIn(s.folder); err == nil || !strings.Contains(err.Error(), "has 101 keys NAME.pub: want 1 to 100") {
		t.Errorf("101 keys: %v", err)
	}
}

// reports writes reports of boxes of the group canary, in one of which cat is done, and returns their folder.
func reports(t *testing.T, source, document string, count int) string {
	t.Helper()
	folder := filepath.Join(source, "reports", "canary")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		report, err := json.Marshal(admin.FleetReport{
			Format: 1, Box: fmt.Sprint(i), Fleet: "shops", Serial: 1, Digest: digestOf([]byte(document)),
			Wishes: []admin.Wish{{Model: "cat", Label: "live", Reference: ref("1"), State: admin.WishDone}},
		})
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, fmt.Sprintf("box-%d.json", i)), report, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// staged is a document whose second stage waits for the reports of the first.
func staged(source string) string {
	return text(1, twoGroups+`, "report": {"url": "`+filepath.Join(source, "reports")+`"}`+
		entry("1", `, "stages": [{"group": "canary"}, {"group": "all"}]`))
}

// TestReportsOfAGroupHaveABound has a stage that stays closed where not all reports can be read: one of those that are left out
// could say that the version was taken back.
func TestReportsOfAGroupHaveABound(t *testing.T) {
	tests := []struct {
		name   string
		count  int
		size   int // of the first of them; 0: what it has
		reason string
	}{
		{"the most", maxReports, 0, ""},
		{"one more", maxReports + 1, 0, "has more than 100 reports"},
		{"the largest", 1, maxReport, ""},
		{"one byte more", 1, maxReport + 1, "more than 262144 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, s, source := newWorld(t), newSigner(t), t.TempDir()
			s.put(t, source, staged(source))
			first := filepath.Join(reports(t, source, staged(source), tt.count), "box-0.json")
			if tt.size > 0 {
				was, err := os.ReadFile(first)
				if err == nil {
					err = os.WriteFile(first, append(was, strings.Repeat(" ", tt.size-len(was))...), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			got := w.box(s, "b", source).turn(t.Context()).Wishes[0]
			if open := got.State == admin.WishDone; open != (tt.reason == "") || !strings.Contains(got.Reason, tt.reason) {
				t.Errorf("%+v, want %q", got, tt.reason)
			}
		})
	}
}

// TestTheLargestDocumentMakesAReportThatIsRead fills a document, fails all of it for long reasons, and reads the report.
func TestTheLargestDocumentMakesAReportThatIsRead(t *testing.T) {
	d := &Document{Fleet: strings.Repeat("f", edgewise.MaxNameBytes), Serial: maxSerial}
	r := admin.FleetReport{
		Format: 1, Box: strings.Repeat("ü", 63), Version: "10.10.10", Time: time.Now(), Fleet: d.Fleet, Serial: d.Serial,
		Digest: digestOf(nil), State: admin.FleetConverged, Problem: brief(strings.Repeat("<", 2*maxReason)),
	}
	for i := range maxModels {
		r.Wishes = append(r.Wishes, admin.Wish{
			Model: fmt.Sprintf("m%0*d", edgewise.MaxNameBytes-1, i), Label: strings.Repeat("l", edgewise.MaxNameBytes),
			Reference: fmt.Sprintf("oci://%s@sha256:%064d", strings.Repeat("r", 501), i), Version: 1 << 53, State: admin.WishTakenBack,
			Next: admin.FleetRollout, Reason: strings.Repeat("<", 2*maxReason),
		})
	}
	if _, err := shorten(&r); err != nil {
		t.Fatal(err)
	}
	r.Time = time.Now()
	if text, err := json.Marshal(r); err != nil || len(text) > maxReport || r.Wishes[0].Reason != "" {
		t.Errorf("a report of %d bytes, more than %d: %v", len(text), maxReport, err)
	}
	r.Wishes = r.Wishes[:10]
	r.Wishes[3].Reason = strings.Repeat("ü", maxReason)
	if _, err := shorten(&r); err != nil || len(r.Wishes[3].Reason) > maxReason || !utf8.ValidString(r.Wishes[3].Reason) ||
		len(r.Wishes[3].Reason) < maxReason-8 {
		t.Errorf("a reason of %d bytes: %v", len(r.Wishes[3].Reason), err)
	}
}

// slow is a place that does not answer until it is given up.
type slow struct {
	t     *testing.T
	asked []time.Time
	left  []time.Duration
}

func (s *slow) wait(ctx context.Context) error {
	begun := time.Now()
	s.asked = append(s.asked, begun)
	<-ctx.Done()
	s.left = append(s.left, time.Since(begun))
	return edgewise.Errorf("slow", edgewise.Unavailable, "it does not answer")
}

func (s *slow) Files(ctx context.Context, _ string, _ func(string) bool, _ int, _ int64) (map[string][]byte, error) {
	return nil, s.wait(ctx)
}

func (s *slow) Put(ctx context.Context, _, _ string, _ []byte) error { return s.wait(ctx) }

func TestWaitsForOthersHaveBounds(t *testing.T) {
	w, s, source := newWorld(t), newSigner(t), t.TempDir()
	s.put(t, source, text(1, `, "report": {"url": "oci://registry.example/reports"}`+entry("1", "")))
	synctest.Test(t, func(t *testing.T) {
		place := &slow{t: t}
		b := w.box(s, "b", source)
		b.config.Remote = place
		b.turn(t.Context()) // the report is not taken
		b.config.Fleet.Source = "oci://registry.example/fleet"
		b.poll(t.Context())
		b.config.Install = func(ctx context.Context, _, _ string) (*edgewise.Version, error) { return nil, place.wait(ctx) }
		if err := b.install(t.Context(), &b.current.document.Models[0]); err == nil {
			t.Error("it is installed")
		}
		if got, want := fmt.Sprint(place.left), fmt.Sprint([]time.Duration{time.Minute, 2 * time.Minute, time.Hour}); got != want {
			t.Errorf("a report, a poll and a version are given up after %s, want %s", got, want)
		}
	})
}

// TestPollsAreSpread looks at when boxes ask: the first time within a minute, or a quarter of the interval when that is shorter, then
// a quarter of the interval earlier or later.
func TestPollsAreSpread(t *testing.T) {
	for _, interval := range []time.Duration{2 * time.Second, 5 * time.Minute, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w, s, place := newWorld(t), newSigner(t), &refusing{}
			ctx, cancel := context.WithCancel(t.Context())
			f := w.box(s, "b", "oci://registry.example/fleet")
			f.config.Fleet.Interval, f.config.Remote = interval, place
			begun := time.Now()
			go f.Run(ctx)
			time.Sleep(100 * interval)
			cancel()
			synctest.Wait()
			if first := place.asked[0].Sub(begun); first > min(interval/4, time.Minute) {
				t.Errorf("every %v: first after %v", interval, first)
			}
			shortest, longest := time.Duration(1<<62), time.Duration(0)
			for i, at := range place.asked[1:] {
				pause := at.Sub(place.asked[i])
				shortest, longest = min(shortest, pause), max(longest, pause)
			}
			if shortest < interval*3/4 || longest > interval*5/4+1 || longest-shortest < interval/8 {
				t.Errorf("every %v: pauses from %v to %v in %d", interval, shortest, longest, len(place.asked))
			}
		})
	}
}

// refusing is a source that is away.
type refusing struct{ asked []time.Time }

func (r *refusing) Files(context.Context, string, func(string) bool, int, int64) (map[string][]byte, error) {
	r.asked = append(r.asked, time.Now())
	return nil, edgewise.Errorf("refusing", edgewise.Unavailable, "it is away")
}

func (*refusing) Put(context.Context, string, string, []byte) error { return nil }

func TestAVersionThatDoesNotLoadIsGivenUpAfterFiveAttempts(t *testing.T) {
	w, s, source := newWorld(t), newSigner(t), t.TempDir()
	s.put(t, source, text(1, entry("1", "")))
	w.bad["1"] = edgewise.Errorf("load", edgewise.Invalid, "it does not load")
	b := w.box(s, "b", source)
	for attempt := 1; attempt <= maxAttempts; attempt++ {
		got := b.turn(t.Context()).Wishes[0]
		want := admin.WishFailed
		if attempt == maxAttempts {
			want = admin.WishTakenBack
		}
		if got.State != want {
			t.Fatalf("after attempt %d it is %+v", attempt, got)
		}
		if f := b.failures["cat/live"]; attempt < maxAttempts {
			f.until = time.Time{} // its pause is over
			b.failures["cat/live"] = f
		}
	}
}
