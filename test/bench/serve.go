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

// serveFigures holds the whole path of a REST request with binary tensors against the raw loop, as the box is by default.
func serveFigures(dir string, rounds int) (result, error) {
	m, err := newMachine(dir)
	if err != nil {
		return result{}, err
	}
	path := filepath.Join(dir, "mobilenetv2.onnx")
	if err := os.WriteFile(path, onnxgen.MobileNetV2(1).Bytes(), 0o644); err != nil {
		return result{}, err
	}
	in := noise(picture)
	limit, err := newRaw(path, in)
	if err != nil {
		return result{}, err
	}
	b, err := startBox(filepath.Join(dir, "data"))
	if err != nil {
		return result{}, err
	}
	defer func() { _ = b.stop() }()
	if err := pushFile(b, "mobilenet", path, ""); err != nil {
		return result{}, err
	}
	clients, err := clientsOf(b, "mobilenet", in, kserve.Binary, anywhere)
	if err != nil {
		return result{}, err
	}
	all, err := m.interleave(rounds, []side{
		{"raw", func() (sample, error) { return limit.loop(2, sampleTime) }},
		{"box", func() (sample, error) { return clients.loop(2, sampleTime) }},
	})
	if err != nil {
		return result{}, err
	}
	return result{Figures: []figure{atLeast("MobileNetV2 over REST, 2 clients / raw loop, 2 callers", all[1].over(all[0]), 0.85, "x",
		fmt.Sprintf("%.0f/s of %.0f/s, %d rounds; more in the engine's table", all[1].rate(), all[0].rate(), rounds))}}, nil
}
