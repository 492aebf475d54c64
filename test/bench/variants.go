package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// variant is another network that is held against the raw loop and the floor, which run the same network on the same
// bytes.
type variant struct {
	name  string // in figures
	model *onnxgen.Model
	in    edgewise.Tensor
}

// ofPixels takes pictures as they come from a camera or a decoder: a byte a colour, 150 kB instead of 602, made into
// numbers inside the network.
func ofPixels() variant {
	return variant{"MobileNetV2 of UINT8 pixels", onnxgen.Pixels(onnxgen.MobileNetV2(1)), pixels()}
}

// heavier takes the same bytes as MobileNetV2 and runs for 7 ms where that takes 4.
func heavier() variant {
	return variant{"MobileNetV2 with the width multiplier 1.3", onnxgen.MobileNetV2Wide(1), noise(picture)}
}

// variantFigures is largeFigures for such a network, without Node.js.
func variantFigures(of func() variant, clients int) measurement {
	return func(dir string, rounds int) (r result, err error) {
		v := of()
		path, in := filepath.Join(dir, "variant.onnx"), v.in
		if err := os.WriteFile(path, v.model.Bytes(), 0o644); err != nil {
			return r, err
		}
		m, err := newMachine(dir)
		if err != nil {
			return r, err
		}
		limit, err := newRaw(path, in)
		if err != nil {
			return r, err
		}
		modes, err := startModes(dir, anywhere, path, "", in)
		defer func() { stopModes(modes) }()
		if err != nil {
			return r, err
		}
		floor, address, err := startFloor(dir, path, in)
		if err != nil {
			return r, err
		}
		defer func() { _ = floor.cmd.Process.Kill() }()
		least := *modes[0].clients
		least.address = address
		sides := []side{
			{"raw loop, a caller a core", func() (sample, error) { return limit.loop(min(clients, 2), sampleTime) }},
			{"floor: bare sockets, a thread a client, no protocol", func() (sample, error) { return least.loop(clients, sampleTime) }},
		}
		for _, of := range modes {
			sides = append(sides, side{"box, isolation " + of.name, func() (sample, error) { return of.clients.loop(clients, sampleTime) }})
		}
		all, err := m.interleave(rounds, sides)
		if err != nil {
			return r, err
		}
		for i, of := range modes {
			r.Figures = append(r.Figures, variantFigure(v.name, clients, of.name, all[0], all[1], all[2+i]))
		}
		r.Grids = []grid{latencies(v.name+", REST with binary tensors, "+count(clients), "ms", 1e3, sides, all)}
		return r, nil
	}
}

func variantFigure(name string, clients int, isolation string, raw, floor, box series) figure {
	if clients == 1 {
		added := box.added(raw)
		return atMost(fmt.Sprintf("%s, one client, isolation %s: added p50 / raw p50", name, isolation), 100*added/raw.p50(), 1.5, "%",
			fmt.Sprintf("%.0f us over %.2f ms; the floor adds %.0f us", 1e6*added, 1e3*raw.p50(), 1e6*floor.added(raw)))
	}
	return atLeast(fmt.Sprintf("%s, %d clients, isolation %s: box / raw loop, 2 callers", name, clients, isolation), box.over(raw), 0.9, "x",
		fmt.Sprintf("%.0f/s of %.0f/s; the floor reaches %.3f", box.rate(), raw.rate(), floor.over(raw)))
}

// pixels returns a tensor of pixels: smooth, with some noise, as photographs are.
func pixels() edgewise.Tensor {
	const side = 224
	rough := noise(edgewise.Shape{side, side, 3}).Data
	data := make([]byte, side*side*3)
	for i := range data {
		data[i] = byte(i/(3*side)/2 + i/3%side/4 + int(rough[4*i+1]&15))
	}
	return edgewise.Tensor{Name: "pixels", Type: edgewise.Uint8, Shape: edgewise.Shape{1, side, side, 3}, Data: data}
}
