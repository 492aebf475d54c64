package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/activity"
)

// box is a History with the counters that it reads.
type box struct {
	*History
	counters activity.History
	offset   atomic.Int64 // of the clock of the wall
	logs     *strings.Builder
}

func newBox(folder string) *box {
	b := &box{logs: &strings.Builder{}}
	b.History = New(Config{
		Folder: folder, Take: b.counters.Take, Now: func() time.Time { return time.Now().Add(time.Duration(b.offset.Load())) },
		Logger: slog.New(slog.NewTextHandler(b.logs, nil)),
	})
	return b
}

// start runs the box until the returned function is called.
func (b *box) start(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.Run(ctx) }()
	synctest.Wait()
	return func() { cancel(); <-done }
}

func (b *box) ask(n int, took time.Duration) {
	for range n {
		b.counters.Note(edgewise.ModelID{Name: "cat", Version: 2}, activity.Outcome{
			Took: took, Queue: took / 2, Caller: &edgewise.Principal{Kind: "key", Name: "line"},
		})
	}
}

func read(t *testing.T, h *History, q Query) admin.StoredHistory {
	t.Helper()
	if q.By == "" {
		q.By = ByTotal
	}
	out, err := h.Read(q)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// total is how many requests the steps hold together.
func total(h *admin.StoredHistory) (n float64) {
	for _, s := range h.Series {
		for i, rate := range s.Requests {
			if rate != nil {
				n += *rate * float64(h.Measured[i])
			}
		}
	}
	return n
}

func near(a, b float64) bool { return a-b < 0.001 && b-a < 0.001 }

func TestMinutesAndHoursSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		b := newBox(folder)
		stop := b.start(t)
		time.Sleep(time.Second) // not at the same time as the box
		for range 3 * 60 {
			b.ask(60, time.Millisecond)
			time.Sleep(time.Minute)
		}
		b.ask(30, 10*time.Millisecond) // in the minute that is not over
		time.Sleep(20 * time.Second)
		stop()

		b = newBox(folder)
		defer b.start(t)()
		for _, q := range []Query{{Range: 4 * 3600, Step: 60}, {Range: 4 * 3600, Step: 3600}, {Range: 24 * 3600, Step: 7200}} {
			out := read(t, b.History, q)
			if got := total(&out); !near(got, 180*60+30) {
				t.Errorf("%+v: %v requests", q, got)
			}
		}
		s := read(t, b.History, Query{Range: 4 * 3600, Step: 60, By: ByVersion}).Series[0]
		at := len(s.Requests) - 60
		if s.Model != "cat" || s.Version != 2 || *s.Requests[at] != 1 || *s.P50[at] < 1000 || *s.P99[at] > 1100 ||
			!near(*s.Queue[at], 500) {
			t.Errorf("%+v", s)
		}
		if s.Requests[0] != nil {
			t.Error("a minute before the first start has a rate")
		}
		if s := read(t, b.History, Query{Range: 3600, Step: 60, By: ByCaller}).Series[0]; s.Caller != "key:line" {
			t.Errorf("caller %q", s.Caller)
		}
	})
}

// TestAKillLosesAMinuteAtMost copies the files while the box runs: what a process that is killed leaves behind.
func TestAKillLosesAMinuteAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t.TempDir())
		defer b.start(t)()
		time.Sleep(time.Second / 2)
		for second := range 3700 {
			b.ask(1, time.Millisecond)
			time.Sleep(time.Second)
			if second%97 != 0 {
				continue
			}
			left := t.TempDir()
			copyFolder(t, b.config.Folder, left)
			after := newBox(left)
			stop := after.start(t)
			out := read(t, after.History, Query{Range: 2 * 3600, Step: 60})
			if lost := float64(second+1) - total(&out); lost < -0.01 || lost > 60 {
				t.Fatalf("%v of %d requests are lost", lost, second+1)
			}
			stop()
		}
	})
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func TestAClockThatIsSetLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t.TempDir())
		stop := b.start(t)
		time.Sleep(time.Second)
		minutes := func(n int) {
			for range n * 60 {
				b.ask(1, time.Millisecond)
				time.Sleep(time.Second)
			}
		}
		minutes(90)
		b.offset.Add(-int64(50 * time.Minute)) // these minutes come again
		minutes(10)
		b.offset.Add(int64(3*time.Hour + 7*time.Second))
		minutes(90)
		stop()
		b = newBox(b.config.Folder)
		b.offset.Store(int64(3*time.Hour - 50*time.Minute + 7*time.Second))
		defer b.start(t)()
		for _, q := range []Query{{Range: 12 * 3600, Step: 60}, {Range: 12 * 3600, Step: 3600}} {
			out := read(t, b.History, q)
			if got := total(&out); got < 189*60 || got > 190*60+0.01 {
				t.Errorf("%+v: %v of %v requests", q, got, 190*60)
			}
			for i, rate := range out.Series[0].Requests {
				if rate != nil && (*rate < 0.8 || *rate > 1.2) {
					t.Errorf("step %d: %v requests a second, want 1", i, *rate)
				}
			}
		}
	})
}

func TestIdleMinutesAreZeroAndStoppedOnesAreEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t.TempDir())
		stop := b.start(t)
		time.Sleep(10 * time.Minute)
		stop()
		time.Sleep(10 * time.Minute)
		defer b.start(t)()
		time.Sleep(10*time.Minute - time.Second)
		out := read(t, b.History, Query{Range: 1800, Step: 60})
		for i, rate := range out.Series[0].Requests[:29] { // the last minute is not over
			if ran := i < 10 || i >= 20; (rate != nil) != ran || ran && *rate != 0 {
				t.Errorf("minute %d: %v", i, rate)
			}
		}
	})
}

func TestYesterdayIsTheSameTimeOfTheDayBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t.TempDir())
		defer b.start(t)()
		time.Sleep(time.Second)
		for hour := range 48 {
			b.ask(hour*36, time.Millisecond)
			time.Sleep(time.Hour)
		}
		today := read(t, b.History, Query{Range: 24 * 3600, Step: 3600})
		before := read(t, b.History, Query{Range: 24 * 3600, Step: 3600, Ago: 24 * 3600})
		for i := range 23 { // the last step is the hour that has begun
			if !near(*today.Series[0].Requests[i], float64(25+i)/100) || !near(*before.Series[0].Requests[i], float64(1+i)/100) {
				t.Errorf("hour %d: %v and %v", i, *today.Series[0].Requests[i], *before.Series[0].Requests[i])
			}
		}
	})
}

// sample has times as a busy model has them: most near 4 ms, and a long tail.
func sample(model int, random *rand.Rand) activity.Sample {
	s := activity.Sample{
		Model: edgewise.ModelID{Name: fmt.Sprintf("inspection-model-%d", model), Version: 7}, Caller: "key:line-3-camera",
		Requests: 3000,
	}
	for range 3000 {
		s.Times[min(activity.TimeBuckets-1, int(150+8*random.NormFloat64()))]++
	}
	for range 20 {
		s.Times[150+random.IntN(150)]++
	}
	return s
}

// month writes the frames of a box with 50 busy models that has run for a month into a folder, and returns the samples
// of a minute of it. Each minute is the same, and so is each hour.
func month(t *testing.T, folder string) []activity.Sample {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var minute, hour []activity.Sample
	for model := range 50 {
		minute = append(minute, sample(model, random))
		hour = append(hour, minute[model])
	}
	for range 29 {
		for model := range hour {
			more := sample(model, random)
			hour[model].Requests += more.Requests
			hour[model].Times.Merge(&more.Times)
		}
	}
	now := time.Now()
	fill := func(name string, limit int64, samples []activity.Sample, slot time.Duration, slots int, upTo uint64) *ring {
		r, err := openRing(filepath.Join(folder, name), limit)
		if err != nil {
			t.Fatal(err)
		}
		frame := make([]byte, headBytes)
		for i := range samples {
			frame = appendRecord(frame, &samples[i])
		}
		for ; slots > 0 && err == nil; slots-- {
			start := now.Add(-time.Duration(slots) * slot)
			err = r.add(frame, head{start: start.Unix(), seconds: uint32(slot / time.Second), upTo: upTo})
		}
		if err != nil || r.file.Close() != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return r
	}
	minutes := fill("minutes.ring", minuteBytes, minute, Minute, 3*24*60, 0)
	fill("hours.ring", coarseBytes, hour, Hour, 31*24, minutes.number)
	return minute
}

// TestAMonthOfFiftyBusyModelsTakesLittle lets a box whose files are full go on for three hours.
func TestAMonthOfFiftyBusyModelsTakesLittle(t *testing.T) {
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	synctest.Test(t, func(t *testing.T) {
		const passed = 3 * time.Hour
		b := newBox(t.TempDir())
		minute := month(t, b.config.Folder)
		b.config.Take = func() []activity.Sample { return minute }
		before := used()
		stop := b.start(t)
		time.Sleep(passed + time.Second)
		if took := used() - before; took > passed/100 {
			t.Errorf("%v of processor time in %v, more than 1 %% of a core", took, passed)
		} else {
			t.Logf("%v of processor time for a start and %v", took, passed)
		}
		size := int64(0)
		for _, name := range []string{"minutes.ring", "hours.ring"} {
			info, err := os.Stat(filepath.Join(b.config.Folder, name))
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
		if size < 40e6 || size >= 50e6 {
			t.Errorf("the files take %d bytes", size)
		}
		for _, q := range []Query{{Range: 30 * 24 * 3600, Step: 3600, By: ByModel}, {Range: 2 * 24 * 3600, Step: 120, By: ByModel}} {
			out := read(t, b.History, q)
			for i, seconds := range out.Measured[:len(out.Measured)-1] { // the last step has begun
				if seconds != q.Step {
					t.Fatalf("step %d of %+v has %d seconds", i, q, seconds)
				}
			}
			if len(out.Series) != 50 {
				t.Errorf("%d series", len(out.Series))
			}
		}
		stop()
	})
}

func TestAFolderThatCannotBeUsedCostsTheHistoryOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		b := newBox(path)
		stop := b.start(t)
		b.ask(1, time.Millisecond)
		time.Sleep(2 * time.Minute)
		if out := read(t, b.History, Query{Range: 3600, Step: 60}); total(&out) != 0 {
			t.Errorf("%+v", out)
		}
		stop()
		if !strings.Contains(b.logs.String(), "the history is not kept") {
			t.Errorf("the log says %q", b.logs)
		}
	})
}

func TestQueriesOutOfBoundsAreInvalid(t *testing.T) {
	h := New(Config{})
	for _, q := range []Query{
		{Range: 3600, Step: 30, By: ByTotal},
		{Range: 3600, Step: 90, By: ByTotal},
		{Range: 3630, Step: 60, By: ByTotal},
		{Range: 40 * 24 * 3600, Step: 3600 * 24, By: ByTotal},
		{Range: 26 * 3600, Step: 60, By: ByTotal},
		{Range: 3600, Step: 60, Ago: 61, By: ByTotal},
		{Range: 3600, Step: 60, Ago: -60, By: ByTotal},
		{Range: 7 * 24 * 3600, Step: 600, By: ByTotal},
		{Range: 3600, Step: 60, By: "day"},
		{Range: 3600, Step: 60},
		{By: ByTotal},
	} {
		if _, err := h.Read(q); edgewise.KindOf(err) != edgewise.Invalid {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestASeriesMoreThanTheBoundIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t.TempDir())
		defer b.start(t)()
		for model := range MaxSeries + 3 {
			for range model + 1 {
				b.counters.Note(edgewise.ModelID{Name: fmt.Sprint("m", model), Version: 1}, activity.Outcome{Took: 1})
			}
		}
		time.Sleep(2 * time.Minute)
		out := read(t, b.History, Query{Range: 3600, Step: 60, By: ByModel})
		if len(out.Series) != MaxSeries || out.LeftOut != 3 {
			t.Errorf("%d series, %d left out", len(out.Series), out.LeftOut)
		}
		for _, s := range out.Series {
			if s.Model == "m0" || s.Model == "m2" {
				t.Errorf("%s is in the answer", s.Model)
			}
		}
	})
}

func TestCSVHasALineForEachStepWithRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t.TempDir())
		defer b.start(t)()
		b.ask(6, time.Millisecond)
		time.Sleep(2 * time.Minute)
		out := read(t, b.History, Query{Range: 3600, Step: 60, By: ByVersion})
		var text strings.Builder
		if err := WriteCSV(&text, &out); err != nil {
			t.Fatal(err)
		}
		want := "time,model,version,caller,measured_seconds,requests_per_second,errors_per_second,refused_per_second," +
			"p50_us,p95_us,p99_us,queue_us\n2000-01-01T00:00:00Z,cat,2,,60,0.1,0,0,1023,1023,1023,500\n"
		if text.String() != want {
			t.Errorf("%s\nwant\n%s", text.String(), want)
		}
	})
}

// BenchmarkMinute measures what keeping a minute of 50 models with two callers each takes.
func BenchmarkMinute(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	var samples []activity.Sample
	for model := range 100 {
		samples = append(samples, sample(model, random))
	}
	h := New(Config{Folder: b.TempDir(), Take: func() []activity.Sample { return samples }, Logger: slog.Default()})
	h.open()
	defer h.close()
	for b.Loop() {
		h.keep(time.Minute)
	}
}

var errBroken = errors.New("broken disk")
