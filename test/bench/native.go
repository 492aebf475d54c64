package main

import (
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
	"github.com/edgewise-ai/edgewise/test/native"
	"github.com/edgewise-ai/edgewise/wasm"
)

// pictureSteps are the steps that are held against native Go.
var pictureSteps = [...]string{"classifier_input", "letterbox", "face_input", "ocr_input", "ocr_lines"}

// collecting lets the garbage collector run while the benchmark's own process does the work, and returns what ends that.
func collecting() func() {
	before := debug.SetGCPercent(100)
	return func() { debug.SetGCPercent(before) }
}

// nativeFigures holds a picture step, from the request's inputs to its outputs, against the same work in Go with the same decoder.
func nativeFigures(name string) measurement {
	return func(dir string, rounds int) (r result, err error) {
		m, err := newSingleMachine(dir)
		if err != nil {
			return r, err
		}
		defer collecting()()
		q, err := questionOf(name)
		if err != nil {
			return r, err
		}
		l, err := loadStep(dir, name, wasm.Fuel, nil)
		if err != nil {
			return r, err
		}
		defer func() { _ = l.Close() }()
		file := element(q.req.Inputs[0])
		work := nativeWork(name, file)
		picture := &native.Picture{}
		sides := []side{
			{"step", func() (sample, error) { return answers(l, q, galleryTime, wholeTime) }},
			{"native Go", func() (sample, error) { return repeat(work, galleryTime) }},
			{"decoding alone", func() (sample, error) {
				return repeat(func() error { return picture.Decode(file) }, galleryTime)
			}},
		}
		for _, s := range sides { // warm
			if _, err := s.run(); err != nil {
				return r, err
			}
		}
		all, err := m.interleave(rounds, sides)
		if err != nil {
			return r, err
		}
		r.Figures = []figure{atMost(name+": step / native Go", all[1].quicker(all[0]), 1.35, "x",
			fmt.Sprintf("%s; %s against %s, of which decoding, the same in both, is %s", q.words, duration(all[0].quick()), duration(all[1].quick()), duration(all[2].quick())))}
		return r, nil
	}
}

// element returns the first element of a BYTES tensor.
func element(t edgewise.Tensor) []byte { return t.Data[4:][:binary.LittleEndian.Uint32(t.Data)] }

// nativeWork does what a step does.
func nativeWork(name string, file []byte) func() error {
	in, lines, quads := &native.Inputs{}, &native.Lines{}, native.Quads(textLines())
	return map[string]func() error{
		"classifier_input": func() error { _, err := in.Classifier(file); return err },
		"letterbox":        func() error { _, _, err := in.Letterbox(file); return err },
		"face_input":       func() error { _, _, err := in.Face(file); return err },
		"ocr_input":        func() error { _, _, _, err := in.Detection(file); return err },
		"ocr_lines":        func() error { _, _, _, err := lines.Cut(file, quads, nil); return err },
	}[name]
}

// repeat does something over and over for a while.
func repeat(work func() error, during time.Duration) (sample, error) {
	var latencies perf.Histogram
	begin := time.Now()
	for now, end := begin, begin.Add(during); now.Before(end); {
		if err := work(); err != nil {
			return sample{}, err
		}
		then := now
		now = time.Now()
		latencies.Record(now.Sub(then))
	}
	return newSample(&latencies, time.Since(begin)), nil
}
