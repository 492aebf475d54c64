package runner

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// grouped is a Config by which all versions share a process.
func grouped() Config {
	c := setUp(fakeOptions{})
	c.Group = func(*edgewise.Version) string { return "g" }
	return c
}

// join loads one more version.
func join(b *Backend, name, dir string) (*Instance, error) {
	v := &edgewise.Version{
		ID:    edgewise.ModelID{Name: name, Version: 1},
		Model: &edgewise.Model{Name: name, Platform: "fake"},
	}
	i, err := b.Load(context.Background(), v, dir, edgewise.Device{})
	if err != nil {
		return nil, err
	}
	return i.(*Instance), nil
}

// pairOf loads two versions of a group.
func pairOf(t *testing.T) (b *Backend, one, other *Instance) {
	t.Helper()
	b = New(grouped())
	one, err := join(b, "one", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if other, err = join(b, "other", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	return b, one, other
}

func closeAll(t *testing.T, list ...*Instance) {
	t.Helper()
	for _, i := range list {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMembersOfAGroupShareAProcessAndMissNothingWhileOthersComeAndGo(t *testing.T) {
	b := New(grouped())
	one, err := join(b, "one", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for {
				if err := echo(one, floats("a", 3000), floats("b", 7)); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range 5 {
		before := one.Stats().PID
		other, err := join(b, "other", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := echo(other, floats("a", 50_000)); err != nil {
			t.Error(err)
		}
		p, _ := one.Process()
		if q, _ := other.Process(); p.PID != q.PID || p.PID == before || p.Group != "g" || q.Group != "g" {
			t.Errorf("%+v and %+v, before: %d", p, q, before)
		}
		closeAll(t, other)
		if now := one.Stats().PID; now != p.PID {
			t.Errorf("process %d instead of %d after a member has left", now, p.PID)
		}
	}
	close(stop)
	group.Wait()
	if s := one.Stats(); s.Crashes != 0 {
		t.Errorf("%+v", s)
	}
	closeAll(t, one)
	if len(b.groups) != 0 {
		t.Errorf("groups are left: %v", b.groups)
	}
}

func TestACrashOfOneMemberIsOneOfAllAndAllComeBack(t *testing.T) {
	_, one, other := pairOf(t)
	defer closeAll(t, one, other)
	before := one.Stats().PID
	var group sync.WaitGroup
	group.Go(func() {
		_, err := other.Run(context.Background(), nil, []string{"stuck"}, edgewise.RunOptions{})
		if err == nil ||
			err.Error() != `model "other" version 1: the process of its group "g" died (signal: segmentation fault) while running` ||
			edgewise.KindOf(err) != edgewise.Unavailable {
			t.Errorf("a run of another member got %v", err)
		}
	})
	eventually(t, "a run in flight", func() bool { return other.inFlight() == 1 })
	err := fails(t, one, "crash", edgewise.Unavailable)
	if !strings.Contains(err.Error(), `the process of its group "g" died (signal: segmentation fault)`) {
		t.Error(err)
	}
	group.Wait()
	for _, i := range []*Instance{one, other} {
		eventually(t, "a restart", func() bool { return echo(i, floats("a", 5)) == nil })
		if s := i.Stats(); s.PID == before || s.PID != one.Stats().PID || s.Crashes != 1 {
			t.Errorf("%+v", s)
		}
	}
}

func TestAGroupThatKeepsCrashingIsQuarantinedAndFoundedAnew(t *testing.T) {
	b, one, other := pairOf(t)
	for n := range 5 {
		eventually(t, "a restart", func() bool { return one.Stats().PID != 0 })
		fails(t, one, "crash", edgewise.Unavailable)
		eventually(t, "the count of a crash", func() bool { return other.Stats().Crashes == int64(n+1) })
	}
	want := `the process of its group "g" died 5 times within 10m0s, the last time with: signal: segmentation fault; ` +
		`it is not started again before the model is loaded again`
	for _, i := range []*Instance{one, other} {
		<-i.Ended()
		if p, _ := i.Process(); p.Reason != want || p.PID != 0 || p.Crashes != 5 {
			t.Errorf("%+v", p)
		}
	}
	again, err := join(b, "one", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := echo(again, floats("a", 5)); err != nil {
		t.Error(err)
	}
	closeAll(t, one, other)
	if err := echo(again, floats("a", 5)); err != nil {
		t.Errorf("after the end of the group before: %v", err)
	}
	closeAll(t, again)
}

func TestALoadThatFailsLeavesTheOthersOfItsGroupAlone(t *testing.T) {
	b, one, other := pairOf(t)
	defer closeAll(t, one, other)
	before := one.Stats().PID
	bad := t.TempDir()
	if err := os.WriteFile(filepath.Join(bad, "crash"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := join(b, "third", bad)
	if err == nil ||
		err.Error() != `model "third" version 1: the process of its group "g" died (signal: segmentation fault) while loading` {
		t.Error(err)
	}
	for _, i := range []*Instance{one, other} {
		if err := echo(i, floats("a", 5)); err != nil {
			t.Error(err)
		}
		if s := i.Stats(); s.PID != before || s.Crashes != 0 {
			t.Errorf("%+v, the process was %d", s, before)
		}
	}
}

func TestAMemberThatCannotBeLoadedAgainIsNamed(t *testing.T) {
	b := New(grouped())
	dir := t.TempDir()
	one, err := join(b, "one", dir)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, one)
	if err := os.WriteFile(filepath.Join(dir, "refuse"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = join(b, "other", t.TempDir())
	if err == nil || err.Error() != `model "one" version 1, which shares the process of its group "g", cannot be `+
		`loaded again: told to refuse` {
		t.Error(err)
	}
	if err := echo(one, floats("a", 5)); err != nil {
		t.Error(err)
	}
}

func TestAGroupsProcessEndsWithItsLastMember(t *testing.T) {
	cycle := func(b *Backend) {
		one, err := join(b, "one", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		other, err := join(b, "other", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []*Instance{one, other} {
			if err := echo(i, floats("a", 5)); err != nil {
				t.Error(err)
			}
		}
		p, err := one.alive()
		if err != nil {
			t.Fatal(err)
		}
		closeAll(t, one)
		closeAll(t, other)
		<-p.Dead()
	}
	b := New(grouped())
	cycle(b)
	before := openFiles(t)
	for range 10 {
		cycle(b)
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d open files, %d before", after, before)
	}
}

// TestARunThatMeetsARestartEntersTheChildOrSaysWhyThereIsNone: the child may come and go between any two steps of it.
func TestARunThatMeetsARestartEntersTheChildOrSaysWhyThereIsNone(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	p, err := i.alive()
	if err != nil {
		t.Fatal(err)
	}
	put := func(p *process, reason string) {
		i.group.mu.Lock()
		defer i.group.mu.Unlock()
		i.group.replace(p, reason)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range 20_000 {
			put(nil, "it is away")
			put(p, "")
		}
	}()
	for entered, missed := 0, 0; ; {
		select {
		case <-over:
			if p.users.Wait(); entered == 0 || missed == 0 {
				t.Errorf("%d runs have met the child, and %d have missed it", entered, missed)
			}
			return
		default:
		}
		got, err := i.enter(t.Context())
		switch {
		case got == p && err == nil:
			p.users.Done()
			entered++
		case got == nil && edgewise.KindOf(err) == edgewise.Unavailable && strings.HasSuffix(err.Error(), ": it is away"):
			missed++
		default:
			t.Fatalf("got %v, %v", got, err)
		}
		runtime.Gosched()
	}
}
