package cuda_test

import (
	"os"
	"testing"

	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
)

// The fake is one library for the whole process, so its state is too: one control page, and a fault that sticks has to
// have a process of its own.
var control *fakegpu.Control

func TestMain(m *testing.M) {
	os.Exit(fakegpu.Main(m, func(c *fakegpu.Control) { control = c }))
}

func driver(t *testing.T) *cuda.Driver {
	t.Helper()
	control.Reset()
	d, err := cuda.Open([]string{fakegpu.Build(t, "libcuda")})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// retain makes a context, and checks at the end of the test that nothing of it is left and nothing was misused.
func retain(t *testing.T) *cuda.Ctx {
	t.Helper()
	d, err := driver(t).GetDevice(0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Retain()
	if err != nil {
		t.Fatal(err)
	}
	check := control.Careful(t)
	t.Cleanup(func() {
		control.Reset()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		check()
	})
	return c
}

func closing(t *testing.T, c interface{ Close() error }) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// made fails the test on an error and closes what was made at its end.
func made[T interface{ Close() error }](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		closing(t, v)
		return v
	}
}

func alloc(t *testing.T, c *cuda.Ctx, n int64) cuda.DevicePtr {
	t.Helper()
	p, err := c.MemAlloc(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.MemFree(p); err != nil {
			t.Error(err)
		}
	})
	return p
}
