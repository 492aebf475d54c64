//go:build wasip1

// Command sound reads the sound, brings it to rate unless that is 0, and cuts it into frames: package sdk's test of the
// sound helpers.
package main

import (
	"errors"

	step "github.com/edgewise-ai/edgewise/sdk/go"
)

const description = `{"name": "sound", "version": "1.0.0", "inputs": [{"name": "sound", "datatype": "BYTES", "shape": [1]}],
  "outputs": [{"name": "rate", "datatype": "INT32", "shape": [1]}, {"name": "samples", "datatype": "FP32", "shape": [-1]},
    {"name": "frames", "datatype": "FP32", "shape": [-1]}],
  "parameters": [{"name": "rate"}, {"name": "limit"}, {"name": "width"}, {"name": "hop"}, {"name": "before"}, {"name": "after"}]}`

func cut(inputs step.List) (step.List, error) {
	_, files, err := step.InputBytes(inputs, "sound")
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, errors.New("no sound"))
	}
	var numbers [6]int
	for i, name := range []string{"rate", "limit", "width", "hop", "before", "after"} {
		n, err := step.IntParameter(name, 0, 0, 1<<32-1)
		if err != nil {
			return nil, err
		}
		numbers[i] = int(n)
	}
	rate, limit := numbers[0], numbers[1]
	sound, err := step.ReadSound(files[0], limit)
	if err == nil && rate != 0 {
		sound, err = sound.Resample(rate, limit)
	}
	if err != nil {
		return nil, err
	}
	frames, err := sound.Frames(numbers[2], numbers[3], numbers[4], numbers[5], limit)
	if err != nil {
		return nil, err
	}
	return step.List{step.Of("rate", []int32{int32(sound.Rate)}), step.Of("samples", sound.Samples), step.Of("frames", frames)}, nil
}

//go:wasmexport edgewise_process
func process(inputs uint32) uint32 { return step.Run(inputs, cut) }

//go:wasmexport edgewise_describe
func describe() uint32 { return step.Describe(description) }

func main() {}
