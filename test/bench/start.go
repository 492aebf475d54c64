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
func startFigures(r *run) {
	r.fillStore(filepath.Join(r.dir, "data"))
	var seconds []float64
	for range 5 {
		b := r.startBox()
		seconds = append(seconds, b.ready.Seconds())
		r.check(b.stop())
	}
	r.report(atMost("start with 1,000 versions in the catalog, until ready", median(seconds), 1, "s",
		"median of 5 starts; none of the versions is to be served"))
}

// fillStore stores versions, of which every one is another blob.
func (r *run) fillStore(dir string) {
	s, err := store.Open(dir, store.Options{SnapshotEvery: -1})
	r.check(err)
	ctx, model := context.Background(), onnxgen.AddSub().Bytes()
	for i := range storedVersions {
		name, data := fmt.Sprintf("model%02d", i%50), append(model[:len(model):len(model)], byte(i), byte(i>>8))
		staging, err := s.Begin(ctx, int64(len(data)))
		r.check(err)
		_, err = staging.Add(ctx, "model.onnx", int64(len(data)), bytes.NewReader(data))
		r.check(err)
		_, err = s.Put(ctx, staging, edgewise.Version{
			ID:    edgewise.ModelID{Name: name},
			Model: &edgewise.Model{Name: name, Platform: "onnxruntime_onnx"}, Origin: "bench",
		})
		r.check(err)
	}
	r.check(s.Close())
}

// idleFigures starts a box without models and lets it rest.
func idleFigures(r *run) {
	b := r.startBox()
	time.Sleep(2 * time.Second)
	resident, err := b.resident()
	r.check(err)
	r.report(atMost("resident memory, idle, without models", resident, 60, "MiB",
		fmt.Sprintf("listening after %.0f ms", float64(b.started.Milliseconds()))))
}
