package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const sampleTime = 700 * time.Millisecond

// picture is the shape of an image for an image network.
var picture = edgewise.Shape{1, 3, 224, 224}

// serveFigures holds the whole path of a REST request with binary tensors against the raw loop, with models in the
// box's own process and in child processes, as the box is by default.
func serveFigures(dir string, rounds int) (result, error) {
	m, err := newMachine(dir)
	if err != nil {
		return result{}, err
	}
	path := filepath.Join(dir, "mobilenetv2.onnx")
	if err := os.WriteFile(path, onnxgen.MobileNetV2(1).Bytes(), 0o644); err != nil {
		return result{}, err
	}
	limit, err := newRaw(path, noise(picture))
	if err != nil {
		return result{}, err
	}
	sides := []side{{"raw", func() (sample, error) { return limit.loop(2, sampleTime) }}}
	modes := []string{"none", "process"}
	for _, isolation := range modes {
		b, err := startBox(filepath.Join(dir, isolation), "engine.isolation="+isolation)
		if err != nil {
			return result{}, err
		}
		defer func() { _ = b.stop() }()
		if err := pushFile(b, "mobilenet", path, ""); err != nil {
			return result{}, err
		}
		clients, err := clientsOf(b, "mobilenet", noise(picture), kserve.Binary, anywhere)
		if err != nil {
			return result{}, err
		}
		sides = append(sides, side{isolation, func() (sample, error) { return clients.loop(2, sampleTime) }})
	}
	all, err := m.interleave(rounds, sides)
	if err != nil {
		return result{}, err
	}
	var r result
	for i, isolation := range modes {
		served := all[1+i]
		r.Figures = append(r.Figures, atLeast(fmt.Sprintf("MobileNetV2 over REST, 2 clients, isolation %s / raw loop, 2 "+
			"callers", isolation), served.over(all[0]), 0.85, "x",
			fmt.Sprintf("%.0f/s of %.0f/s, %d rounds; more in the engine's table", served.rate(), all[0].rate(), rounds)))
	}
	return r, nil
}
