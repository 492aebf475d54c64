package runner

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

func TestALoanCrossesWithoutACopy(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	data, free := i.AllocBody(4000)
	if len(data) != 4000 || cap(data) != 4000 || uintptr(unsafe.Pointer(&data[0]))%alignment != 0 {
		t.Fatalf("%d bytes, room for %d, at %p", len(data), cap(data), data)
	}
	a, b := floats("a", 1000), floats("b", 10)
	a.Data = append(data[:0], a.Data...)
	if !i.OwnsBody(a.Data) || !i.OwnsBody(a.Data[100:200]) || i.OwnsBody(b.Data) || i.OwnsBody(nil) {
		t.Errorf("owned: %v, a part of it %v, other memory %v, nothing %v", i.OwnsBody(a.Data), i.OwnsBody(a.Data[100:200]),
			i.OwnsBody(b.Data), i.OwnsBody(nil))
	}
	for range 5 {
		if err := echo(i, a, b); err != nil {
			t.Fatal(err)
		}
	}
	if s := i.Stats(); s.CopiedIn != 5*40 {
		t.Errorf("%d bytes were copied, want those of the tensor beside the borrow", s.CopiedIn)
	}
	free()
	if i.OwnsBody(data) {
		t.Error("owned after it was returned")
	}
}

func TestLoansAreBounded(t *testing.T) {
	c := setUp(fakeOptions{})
	c.MaxArena = 16 << 20
	i := load(t, c, t.TempDir())
	const size = 600_000 // of which each takes a block of 1 MiB
	var back []func()
	for range 10 {
		if data, free := i.AllocBody(size); data != nil {
			back = append(back, free)
		}
	}
	if len(back) != 4 {
		t.Errorf("%d borrowed of 1 MiB, want a quarter of the shared memory", len(back))
	}
	if err := echo(i, floats("a", 1<<20)); err != nil {
		t.Errorf("a run beside them: %v", err)
	}
	back[0]()
	if data, free := i.AllocBody(size); data == nil {
		t.Error("no memory is borrowed after memory was returned")
	} else {
		back[0] = free
	}
	for _, free := range back {
		free()
	}
	for _, n := range []int{0, -1, 5 << 20} {
		if data, _ := i.AllocBody(n); data != nil {
			t.Errorf("%d bytes are borrowed", n)
		}
	}
}

// A run takes the shortest block and makes it as long as its outputs. When those of borrowed were among them, the next
// borrow found none of its length and made one more, up to the bound of all shared memory.
func TestLoansBetweenRunsWithLongerOutputsMakeNoEverMoreBlocks(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	batch, giveBack, err := i.Alloc(1_200_000)
	if err != nil {
		t.Fatal(err)
	}
	defer giveBack()
	both := floats("a", 300_000)
	both.Data = append(batch[:0], both.Data...)
	var early int64
	for n := range 40 {
		_, free := i.AllocBody(600_000)
		free()
		if err := echo(i, both); err != nil {
			t.Fatal(err)
		}
		if n == 5 {
			early = i.arena.size
		}
	}
	if i.arena.size > early {
		t.Errorf("%d bytes of blocks after 40 runs, %d after 6", i.arena.size, early)
	}
}

func TestShelvesGiveWayToOtherLengthsAndToRuns(t *testing.T) {
	c := setUp(fakeOptions{})
	c.MaxArena = 16 << 20
	i := load(t, c, t.TempDir())
	for _, n := range []int{100_000, 600_000, 1_500_000, 3 << 20, 100_000} { // in all more than the 4 MiB that may be borrowed
		data, free := i.AllocBody(n)
		if data == nil {
			t.Fatalf("%d bytes cannot be borrowed while nothing else is", n)
		}
		free()
		if i.arena.borrowedBytes > 4<<20 {
			t.Errorf("%d bytes are kept for borrowed", i.arena.borrowedBytes)
		}
	}
	if err := echo(i, floats("a", 3<<20)); err != nil { // which takes all of the 16 MiB
		t.Errorf("a run that needs what is on the shelf: %v", err)
	}
}

func TestALoanOutlivesTheChildAndTheInstance(t *testing.T) {
	instance, err := New(setUp(fakeOptions{})).Load(t.Context(), version(), t.TempDir(), edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	i := instance.(*Instance)
	a := floats("a", 1000)
	data, free := i.AllocBody(4000)
	a.Data = append(data[:0], a.Data...)
	if err := echo(i, a); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(i.Stats().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the model does not come back", func() bool { return echo(i, a) == nil })
	if s := i.Stats(); s.CopiedIn != 0 {
		t.Errorf("%d bytes were copied to the new child", s.CopiedIn)
	}
	late, lateFree := i.AllocBody(4000)
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	copy(late, a.Data) // a body that is still arriving
	if late[0] != a.Data[0] {
		t.Error("the memory does not keep what is written")
	}
	if more, _ := i.AllocBody(4000); more != nil {
		t.Error("memory of a closed instance can be borrowed")
	}
	free()
	lateFree()
}
