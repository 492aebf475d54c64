package kserve_test

import (
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// TestClassesOfRowsWithoutElements asks for the classes of an output that a model makes up: no bytes, and rows without
// end.
func TestClassesOfRowsWithoutElements(t *testing.T) {
	answers := make(chan edgewise.Tensor, 1)
	go func() {
		in := edgewise.Tensor{Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{1 << 50, 0}}
		out, err := kserve.Classes{Batched: true}.Top(&in, 3)
		if err != nil {
			t.Error(err)
		}
		answers <- out
	}()
	select {
	case out := <-answers:
		if !out.Shape.Equal(edgewise.Shape{1 << 50, 0}) || len(out.Data) > 0 {
			t.Errorf("shape %v, %d bytes", out.Shape, len(out.Data))
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
}
