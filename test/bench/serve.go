package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const (
	sampleTime = 1200 * time.Millisecond
	probeTime  = 400 * time.Millisecond
	realCores  = 1.7 // two callers over one, below which the two cores are one
)

// serveFigures holds the whole path of a REST request with binary tensors against the raw loop.
func serveFigures(dir string, rounds int) ([]figure, error) {
	path := filepath.Join(dir, "mobilenetv2.onnx")
	if err := os.WriteFile(path, onnxgen.MobileNetV2(1).Bytes(), 0o644); err != nil {
		return nil, err
	}
	in := picture()
	limit, err := newRaw(path, in, "output")
	if err != nil {
		return nil, err
	}
	b, err := startBox(filepath.Join(dir, "data"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.stop() }()
	if err := pushFile(b, "mobilenet", path); err != nil {
		return nil, err
	}
	var figures []figure
	for _, clients := range []int{1, 2, 4, 16} {
		f, err := servedOverRaw(b, limit, in, clients, rounds)
		if err != nil {
			return nil, err
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// picture is a random image as the model takes it.
func picture() edgewise.Tensor {
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 0, 4*3*224*224)
	for range 3 * 224 * 224 {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(r.Float32()))
	}
	return edgewise.Tensor{Name: "input", Type: edgewise.FP32, Shape: edgewise.Shape{1, 3, 224, 224}, Data: data}
}

func pushFile(b *box, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	sent := false
	up := edgewise.Upload{Model: name, Size: info.Size(), Next: func() (string, int64, io.Reader, error) {
		if sent {
			return "", 0, nil, io.EOF
		}
		sent = true
		return "model.onnx", info.Size(), f, nil
	}}
	_, err = b.client.Push(context.Background(), up, true, nil)
	return err
}

// servedOverRaw measures rounds of raw, served, raw, and keeps those with two real cores.
func servedOverRaw(b *box, limit *raw, in edgewise.Tensor, clients, rounds int) (figure, error) {
	body, jsonSize, err := kserve.AppendInferRequest(nil, &edgewise.Request{Inputs: []edgewise.Tensor{in}}, kserve.Binary, kserve.Binary)
	if err != nil {
		return figure{}, err
	}
	headers := fmt.Sprintf("Content-Type: application/octet-stream\r\n%s: %d\r\n", kserve.HeaderLength, jsonSize)
	callers := min(clients, 2)
	var ratios, raws, serveds []float64
	for attempt := 0; len(ratios) < rounds && attempt < 3*rounds; attempt++ {
		before, err := limit.rate(callers, sampleTime)
		if err != nil {
			return figure{}, err
		}
		served, err := rate(clients, sampleTime, func(int) (func() error, error) {
			c, err := newCaller(b.address, "/v2/models/mobilenet/infer", headers, body)
			if err != nil {
				return nil, err
			}
			return c.call, nil
		})
		if err != nil {
			return figure{}, err
		}
		after, err := limit.rate(callers, sampleTime)
		if err != nil {
			return figure{}, err
		}
		ok, err := twoCores(limit)
		if err != nil {
			return figure{}, err
		}
		if !ok || math.Abs(before-after) > 0.1*before {
			continue
		}
		ratios, raws, serveds = append(ratios, 2*served/(before+after)), append(raws, (before+after)/2), append(serveds, served)
	}
	if len(ratios) < 3 {
		return figure{}, errors.New("the machine never had two real cores for long enough: try again")
	}
	goal := 0.0
	if clients == 2 {
		goal = 0.85
	}
	name := fmt.Sprintf("MobileNetV2 over REST, %d clients / raw loop, %d callers", clients, callers)
	return atLeast(name, median(ratios), goal, "x", fmt.Sprintf("%.0f/s of %.0f/s, %d rounds", median(serveds), median(raws), len(ratios))), nil
}

// twoCores tells whether two callers are nearly twice as fast as one at this moment.
func twoCores(limit *raw) (bool, error) {
	one, err := limit.rate(1, probeTime)
	if err != nil {
		return false, err
	}
	two, err := limit.rate(2, probeTime)
	return two >= realCores*one, err
}
