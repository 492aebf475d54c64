package history

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/activity"
)

// memory is a file in memory.
type memory struct {
	data []byte
	fail func(offset int64) error // nil: writes succeed
}

func (m *memory) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(m.data).ReadAt(p, at)
}
func (m *memory) Close() error         { return nil }
func (m *memory) Truncate(int64) error { return nil }

// WriteAt writes all, or the first half of it when it fails.
func (m *memory) WriteAt(p []byte, at int64) (int, error) {
	var err error
	if m.fail != nil {
		if err = m.fail(at); err != nil {
			p = p[:len(p)/2]
		}
	}
	if need := int(at) + len(p); need > len(m.data) {
		m.data = append(m.data, make([]byte, need-len(m.data))...)
	}
	return copy(m.data[at:], p), err
}

func frameOf(n int) []byte { return make([]byte, headBytes+n) }

// numbers are those of the frames that a ring has.
func numbers(r *ring) (list []uint64) {
	for _, f := range r.frames {
		list = append(list, f.number)
	}
	return list
}

func TestAScanFindsWhatARingHas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &memory{}
		const limit = 1 << 20
		r := scan(m, 0, limit)
		for range rapid.IntRange(1, 60).Draw(t, "frames") {
			if err := r.add(frameOf(rapid.IntRange(0, 100_000).Draw(t, "size")), head{start: 7}); err != nil {
				t.Fatal(err)
			}
		}
		if len(m.data) > limit {
			t.Fatalf("the file has %d bytes", len(m.data))
		}
		again := scan(m, int64(len(m.data)), limit)
		kept := numbers(again)
		for _, n := range numbers(r) {
			if !slices.Contains(kept, n) {
				t.Errorf("frame %d is lost: %v of %v", n, kept, numbers(r))
			}
		}
		if again.next != r.next || again.number != r.number {
			t.Errorf("the next frame is %d at %d, want %d at %d", again.number, again.next, r.number, r.next)
		}
		for i, n := range kept[1:] {
			if n <= kept[i] {
				t.Errorf("frames %v", kept)
			}
		}
	})
}

func TestDamageCostsTheDamagedFramesOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &memory{}
		r := scan(m, 0, minuteBytes)
		for range 40 {
			if err := r.add(frameOf(rapid.IntRange(0, 5000).Draw(t, "size")), head{}); err != nil {
				t.Fatal(err)
			}
		}
		from := rapid.IntRange(0, len(m.data)-1).Draw(t, "from")
		to := min(len(m.data), from+rapid.IntRange(1, 20_000).Draw(t, "length"))
		for i := from; i < to; i++ {
			m.data[i] ^= 0xA5
		}
		found := numbers(scan(m, int64(len(m.data)), minuteBytes))
		for _, p := range r.frames {
			damaged := int64(from) < p.offset+p.size && p.offset < int64(to)
			if slices.Contains(found, p.number) == damaged {
				t.Errorf("frame %d, damaged %v: %v", p.number, damaged, found)
			}
		}
	})
}

func TestAWriteThatFailsCostsItselfOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &memory{}
		r := scan(m, 0, 64<<10)
		var written []uint64
		for attempt := range 200 {
			m.fail = nil
			if rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
				m.fail = func(int64) error { return errBroken }
			}
			frame := frameOf(rapid.IntRange(0, 3000).Draw(t, "size"))
			for i := range frame {
				frame[i] = byte(attempt)
			}
			if err := r.add(frame, head{start: int64(attempt)}); err == nil {
				written = append(written, r.number)
			} else if m.fail == nil {
				t.Fatal(err)
			}
		}
		m.fail = nil
		for _, p := range r.frames {
			if r.read(p, nil) == nil {
				t.Errorf("frame %d cannot be read", p.number)
			}
		}
		again := scan(m, int64(len(m.data)), 64<<10)
		if last := uint64(len(written)); again.number != last || !slices.Equal(last5(numbers(r)), last5(written)) {
			t.Errorf("written %v, kept %v", written, numbers(again))
		}
	})
}

func last5(list []uint64) []uint64 { return list[max(0, len(list)-5):] }

func TestMoreThanAFrameHoldsIsSplit(t *testing.T) {
	m := &memory{}
	r := scan(m, 0, minuteBytes)
	var samples []activity.Sample
	for i := range 3000 {
		s := activity.Sample{Model: edgewise.ModelID{Name: fmt.Sprint("m", i), Version: 1}, Requests: 1}
		for bucket := range 100 {
			s.Times[bucket] = 200
		}
		samples = append(samples, s)
	}
	if err := write(r, samples, head{seconds: 60, upTo: 9}); err != nil {
		t.Fatal(err)
	}
	r = scan(m, int64(len(m.data)), minuteBytes)
	count, seconds := 0, uint32(0)
	for i, p := range r.frames {
		seconds += p.seconds
		if last := i == len(r.frames)-1; (p.upTo == 9) != last {
			t.Errorf("frame %d of %d is up to %d", i, len(r.frames), p.upTo)
		}
		for records := (reader{rest: r.read(p, nil)}); ; count++ {
			if _, ok := records.next(); !ok {
				break
			}
		}
	}
	if count != len(samples) || seconds != 60 || len(r.frames) < 2 {
		t.Errorf("%d records of %d s in %d frames", count, seconds, len(r.frames))
	}
}

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := activity.Sample{
			Model:  edgewise.ModelID{Name: rapid.StringN(0, 50, 255).Draw(t, "model"), Version: rapid.Int64Min(1).Draw(t, "version")},
			Caller: rapid.StringN(0, 50, 255).Draw(t, "caller"), Requests: rapid.Uint64().Draw(t, "requests"),
			Failed: rapid.Uint64().Draw(t, "failed"), Refused: rapid.Uint64().Draw(t, "refused"),
			Queue: time.Duration(rapid.Int64Range(0, 1<<50).Draw(t, "queue")) * time.Microsecond,
		}
		for range rapid.IntRange(0, 20).Draw(t, "buckets") {
			want.Times[rapid.IntRange(0, activity.TimeBuckets-1).Draw(t, "bucket")] = rapid.Uint64().Draw(t, "count")
		}
		records := reader{rest: appendRecord(nil, &want)}
		v, ok := records.next()
		if !ok {
			t.Fatal("the record is damaged")
		}
		var s sums
		s.add(&v)
		if got := s.sample(edgewise.ModelID{Name: string(v.model), Version: v.version}, string(v.caller)); got != want {
			t.Errorf("%+v\nwant %+v", got, want)
		}
	})
}

// TestADamagedCoarseFileIsWrittenAgain removes each of the files, and both.
func TestADamagedCoarseFileIsWrittenAgain(t *testing.T) {
	for _, gone := range [][]string{{"hours.ring"}, {"minutes.ring"}, {"hours.ring", "minutes.ring"}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBox(t.TempDir())
			hours := func(n int) {
				defer b.start(t)()
				time.Sleep(time.Second)
				for range n * 60 {
					b.ask(60, time.Millisecond)
					time.Sleep(time.Minute)
				}
			}
			hours(4)
			for _, name := range gone {
				if err := os.WriteFile(filepath.Join(b.config.Folder, name), []byte("no ring"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			hours(2)
			defer b.start(t)()
			want := 6 * 3600.0
			if len(gone) == 2 {
				want = 2 * 3600
			}
			if out := read(t, b.History, Query{Range: 8 * 3600, Step: 3600}); !near(total(&out), want) {
				t.Errorf("without %v: %v requests, want %v", gone, total(&out), want)
			}
		})
	}
}

func FuzzARingOfAnyBytes(f *testing.F) {
	m := &memory{}
	r := scan(m, 0, 1<<20)
	s := activity.Sample{Model: edgewise.ModelID{Name: "cat", Version: 1}, Caller: "key:a", Requests: 3}
	s.Times[9], s.Times[200] = 2, 1
	for range 3 {
		if err := write(r, []activity.Sample{s, s}, head{seconds: 60}); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(m.data)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, sealed := range [][]byte{data, sealedCopy(data)} {
			m := &memory{data: slices.Clone(sealed)}
			h := New(Config{})
			h.minutes, h.hours = scan(m, int64(len(m.data)), 1<<20), scan(m, int64(len(m.data)), 1<<20)
			all := merger{split: series.whole, found: map[series]*sums{}}
			for _, p := range h.minutes.frames {
				all.merge(h.minutes, p)
			}
			_ = h.condense(time.Unix(0, 0))
			if err := write(h.minutes, []activity.Sample{s}, head{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// sealedCopy makes a frame of bytes, so that the fuzzer reaches the records.
func sealedCopy(data []byte) []byte {
	frame := append(frameOf(0), data[:min(len(data), maxFrame-headBytes)]...)
	seal(frame, head{number: 1})
	return frame
}
