package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const storedVersions = 1000

// startFigures starts a box on a store with a thousand versions.
func startFigures(dir string, _ int) (result, error) {
	data := filepath.Join(dir, "data")
	if err := fillStore(data); err != nil {
		return result{}, err
	}
	var seconds []float64
	for range 5 {
		b, err := startBox(data)
		if err != nil {
			return result{}, err
		}
		seconds = append(seconds, b.ready.Seconds())
		if err := b.stop(); err != nil {
			return result{}, err
		}
	}
	return result{Figures: []figure{atMost("start with 1,000 versions in the catalog, until ready", median(seconds), 1,
		"s", "median of 5 starts; none of the versions is to be served")}}, nil
}

func fillStore(dir string) error {
	s, err := store.Open(dir, store.Options{SnapshotEvery: -1})
	if err != nil {
		return err
	}
	model := onnxgen.AddSub().Bytes()
	for i := range storedVersions {
		if err := put(s, fmt.Sprintf("model%02d", i%50), append(model[:len(model):len(model)], byte(i), byte(i>>8))); err != nil {
			return err
		}
	}
	return s.Close()
}

// put stores bytes as a version; every one is another blob.
func put(s *store.Store, name string, data []byte) error {
	ctx := context.Background()
	staging, err := s.Begin(ctx, int64(len(data)))
	if err != nil {
		return err
	}
	if _, err := staging.Add(ctx, "model.onnx", int64(len(data)), bytes.NewReader(data)); err != nil {
		return err
	}
	_, err = s.Put(ctx, staging, edgewise.Version{
		ID:    edgewise.ModelID{Name: name},
		Model: &edgewise.Model{Name: name, Platform: "onnxruntime_onnx"}, Origin: "bench",
	})
	return err
}

// idleFigures starts a box without models and lets it rest.
func idleFigures(dir string, _ int) (result, error) {
	b, err := startBox(filepath.Join(dir, "data"))
	if err != nil {
		return result{}, err
	}
	defer func() { _ = b.stop() }()
	time.Sleep(2 * time.Second)
	resident, err := b.resident()
	if err != nil {
		return result{}, err
	}
	return result{Figures: []figure{atMost("resident memory, idle, without models", resident, 60, "MiB",
		fmt.Sprintf("listening after %.0f ms", float64(b.started.Milliseconds())))}}, nil
}
