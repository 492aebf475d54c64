package onnx

import (
	"io"
	"os"
	"testing"

	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
)

// control is the page of this process: the fake driver is loaded once.
var control *fakegpu.Control

func TestMain(m *testing.M) {
	os.Exit(fakegpu.Main(m, func(c *fakegpu.Control) { control = c }))
}

// retain makes a context of the fake device, which is as it is at first but for words. finish closes what was made in
// it, and looks that nothing is left and nothing was misused.
func retain(t testing.TB, words map[fakegpu.Word]int64) (ctx *cuda.Ctx, finish func(io.Closer)) {
	t.Helper()
	control.Reset()
	for w, v := range words {
		control.Set(w, v)
	}
	check := control.Careful(t)
	ctx, err := open(fakegpu.Build(t, "libcuda"))
	if err != nil {
		t.Fatal(err)
	}
	return ctx, func(c io.Closer) {
		t.Helper()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		check()
	}
}

// open retains the first device of a driver.
func open(path string) (*cuda.Ctx, error) {
	driver, err := cuda.Open([]string{path})
	if err != nil {
		return nil, err
	}
	device, err := driver.GetDevice(0)
	if err != nil {
		return nil, err
	}
	return device.Retain()
}
