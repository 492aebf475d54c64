package onnx

import (
	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/host"
)

const (
	// smallWeights are the bytes of weights of which a second copy is made without asking.
	smallWeights = 128 << 20
	// spareWeights is how many copies of larger ones there must be room for, so that runs and others have memory, too.
	spareWeights = 4
)

// roomFor returns nil where a second copy of a model's weights may be made, of so many bytes. root is where /proc and
// /sys are. Errors: Exhausted.
func roomFor(weights int64, root string) error {
	if weights <= smallWeights {
		return nil
	}
	if available := host.AvailableMemory(root); available < spareWeights*weights {
		return edgewise.Errorf("onnx.roomFor", edgewise.Exhausted,
			"%d bytes of memory are available, want %d times the weights of %d bytes", available, spareWeights, weights)
	}
	return nil
}
