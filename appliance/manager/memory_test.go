package manager

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// sized makes each version take 60 of 100 bytes.
func sized(gap bool) Config {
	return Config{Memory: 100, Footprint: func(context.Context, *edgewise.Version) (Footprint,
		error,
	) {
		return Footprint{Bytes: 60, Gap: gap}, nil
	}}
}

func settled(t *testing.T, m *Manager) {
	t.Helper()
	if err := m.Settle(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutRoomForTwoTheNewVersionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, loader := start(t, sized(false))
		m.Want(live(2, 1))
		settled(t, m)
		m.Replace(live(2, 1), 2)
		err := m.Await(t.Context(), edgewise.ModelID{Name: "m", Version: 2})
		want := "it takes about 60 bytes of memory, and 40 of the 100 bytes for models are free"
		if err == nil || edgewise.KindOf(err) != edgewise.Exhausted || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if got := answer(t, m, 0); got != 1 || len(loader.loads) != 1 {
			t.Errorf("answered by version %d after loads of %v", got, loader.loads)
		}
	})
}

// TestMemoryIsLookedAtWhileAVersionIsLoaded is for the race detector: what a version takes is read from its first moment.
func TestMemoryIsLookedAtWhileAVersionIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sized(false)
		look := make(chan func(), 1)
		c.Measured = func(edgewise.ModelID, int64) {}
		c.Footprint = func(context.Context, *edgewise.Version) (Footprint, error) {
			go (<-look)()
			return Footprint{Bytes: 60}, nil
		}
		m, _ := start(t, c)
		look <- func() { m.look(false) }
		m.Want(live(1, 1))
		settled(t, m)
	})
}

// TestWithoutRoomForTwoALeavingVersionGoesFirstWhereItMay replaces a version that is not stored any more.
func TestWithoutRoomForTwoALeavingVersionGoesFirstWhereItMay(t *testing.T) {
	for _, gap := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m, _ := start(t, sized(gap))
			m.Want(live(1, 1))
			settled(t, m)
			next := live(2, 2)
			next.Versions, next.Leaving = next.Versions[1:], []int64{1}
			m.Want(next)
			err := m.Settle(t.Context(), "m")
			if want := map[bool]int64{true: 2, false: 1}[gap]; answer(t, m, 0) != want || (err == nil) != gap {
				t.Errorf("gap %v: answered by version %d, %v", gap, answer(t, m, 0), err)
			}
		})
	}
}

func TestWithoutRoomForTwoASwapMayLeaveAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := start(t, sized(true))
		m.Want(live(3, 1))
		settled(t, m)
		m.Replace(live(3, 1), 2)
		synctest.Wait()
		_, err := m.Infer(t.Context(), &edgewise.Request{Model: edgewise.ModelID{Name: "m"}})
		if err == nil || edgewise.KindOf(err) != edgewise.Unavailable ||
			!strings.Contains(err.Error(), "too little memory for both") {
			t.Errorf("in the gap: %v", err)
		}
		if err := m.Await(t.Context(), edgewise.ModelID{Name: "m", Version: 2}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Infer(t.Context(), &edgewise.Request{Model: edgewise.ModelID{Name: "m"}}); edgewise.KindOf(err) != edgewise.Unavailable {
			t.Errorf("before the label moves the new version answers requests that do not name it: %v", err)
		}
		if got := answer(t, m, 2); got != 2 {
			t.Errorf("version %d answers a request that names version 2", got)
		}
		m.Want(live(3, 2))
		settled(t, m)
		if got := answer(t, m, 0); got != 2 {
			t.Errorf("answered by version %d", got)
		}
		m.Want(live(3, 2), 3) // a label beside live: it may not cost the live version
		if err := m.Await(t.Context(), edgewise.ModelID{Name: "m", Version: 3}); err == nil ||
			edgewise.KindOf(err) != edgewise.Exhausted {
			t.Errorf("a version for another label: %v", err)
		}
		if got := answer(t, m, 0); got != 2 {
			t.Errorf("answered by version %d", got)
		}
	})
}

func TestAFailureInTheGapBringsTheOldVersionBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, loader := start(t, sized(true))
		m.Want(live(2, 1))
		settled(t, m)
		loader.broken[2] = errors.New("no")
		m.Replace(live(2, 1), 2)
		if err := m.Await(t.Context(), edgewise.ModelID{Name: "m", Version: 2}); err == nil {
			t.Error("a broken version is ready")
		}
		m.Want(live(2, 1))
		settled(t, m)
		if got := answer(t, m, 0); got != 1 {
			t.Errorf("answered by version %d", got)
		}
	})
}

func TestAVersionThatIsRefusedInTheGapGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := start(t, sized(true))
		m.Want(live(2, 1))
		settled(t, m)
		m.Replace(live(2, 1), 2)
		if err := m.Await(t.Context(), edgewise.ModelID{Name: "m", Version: 2}); err != nil {
			t.Fatal(err)
		}
		m.Want(live(2, 1))
		settled(t, m)
		if got := answer(t, m, 0); got != 1 {
			t.Errorf("answered by version %d", got)
		}
	})
}

func TestMemoryOfADrainingVersionIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := start(t, sized(false))
		m.Want(live(1, 1))
		settled(t, m)
		h, err := m.acquire(edgewise.ModelID{Name: "m"})
		if err != nil {
			t.Fatal(err)
		}
		m.Forget("m")
		other := &edgewise.Record{
			Name: "o", Wanted: true, Labels: []edgewise.Label{{Name: "live", Version: 1}},
			Versions: []*edgewise.Version{{ID: edgewise.ModelID{Name: "o", Version: 1}, Model: &edgewise.Model{}}},
		}
		m.Want(other)
		time.AfterFunc(10*time.Second, h.release)
		begin := time.Now()
		if err := m.Settle(t.Context(), "o"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < 11*time.Second {
			t.Errorf("loaded after %v, before the memory was there", took)
		}
	})
}

// TestRequestsAreServedWhileALoadBlocks holds that loads run on goroutines of their own.
func TestRequestsAreServedWhileALoadBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, loader := start(t, Config{})
		m.Want(live(2, 1))
		settled(t, m)
		stuck := make(chan struct{})
		m.config.Load = func(ctx context.Context, v *edgewise.Version) (*Loaded, error) {
			<-stuck
			return loader.load(ctx, v)
		}
		m.Want(live(2, 2))
		begin := time.Now()
		for range 100 {
			if got := answer(t, m, 0); got != 1 {
				t.Errorf("answered by version %d", got)
			}
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("100 requests of 10ms took %v", took)
		}
		close(stuck)
		settled(t, m)
		if got := answer(t, m, 0); got != 2 {
			t.Errorf("answered by version %d", got)
		}
	})
}

// resizer keeps the numbers of instances that it was given.
type resizer struct {
	fakeServable
	counts []int32
}

func (r *resizer) Resize(m *edgewise.Model) { r.counts = append(r.counts, m.InstanceGroup[0].Count) }

func TestInstanceGroupsChangeInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, loads := &resizer{fakeServable: fakeServable{t: t, id: edgewise.ModelID{Name: "m", Version: 1}}}, 0
		m, _ := start(t, Config{})
		m.config.Load = func(context.Context, *edgewise.Version) (*Loaded, error) {
			loads++
			time.Sleep(time.Second)
			return &Loaded{Servable: r, Resize: r.Resize}, nil
		}
		with := func(count int32) *edgewise.Record {
			record := live(1, 1)
			record.Versions[0].Model = &edgewise.Model{InstanceGroup: []edgewise.InstanceGroup{{Count: count}}}
			return record
		}
		m.Want(with(1))
		m.Want(with(2)) // while it loads
		settled(t, m)
		m.Want(with(4))
		settled(t, m)
		v, _, err := m.Version(edgewise.ModelID{Name: "m"})
		if err != nil || v.Model.InstanceGroup[0].Count != 4 {
			t.Errorf("version %+v, %v", v, err)
		}
		if loads != 1 || len(r.counts) != 2 || r.counts[0] != 2 || r.counts[1] != 4 {
			t.Errorf("%d loads, instances %v", loads, r.counts)
		}
	})
}
