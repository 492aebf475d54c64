//go:build cloud

package test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

// large is the size of a model whose rate is measured.
const large = 1 << 30

// rounds is how often each way is measured, by turns.
const rounds = 3

// maxMemory is how much more memory a fetch may take than the program that has only listed, in KiB.
const maxMemory = 64 << 10

// TestTheRateOfALargeModel measures edgewise-fetch and plain readers of the same client by turns. It fails for what does not
// depend on the machine: memory, and bytes that come twice. Decision 0098 has rates.
func TestTheRateOfALargeModel(t *testing.T) {
	s := newS3(t)
	const name = "models/a/1/model.onnx"
	w, err := s.bucket.NewWriter(t.Context(), name, nil)
	must(t, err)
	_, err = io.Copy(w, io.LimitReader(rand.NewChaCha8([32]byte{}), large))
	must(t, errors.Join(err, w.Close()))
	p := startProgram(t, s.env)
	entries, err := p.list(s.urls[0])
	must(t, err)
	t.Logf("the store's list: MD5 %q", entries[0].MD5)
	measure(t, p, s.urls[0], entries, func() io.ReadCloser {
		r, err := s.bucket.NewReader(t.Context(), name, nil)
		must(t, err)
		return r
	})
}

// measure compares the rate of get with those of plain readers, and bounds its memory.
func measure(t *testing.T, p *program, url string, entries []fetch.Entry, open func() io.ReadCloser) {
	t.Helper()
	start := peak(t, p.Process.Pid)
	ways := []struct {
		name string
		once func()
	}{
		{"edgewise-fetch", func() { getOnce(t, p, url, entries) }},
		{"plain", func() { readPlain(t, open(), nil, false) }},
		{"plain, synced", func() { readPlain(t, open(), nil, true) }},
		{"plain, SHA-256", func() { readPlain(t, open(), sha256.New(), false) }},
		{"plain, SHA-256, synced", func() { readPlain(t, open(), sha256.New(), true) }},
	}
	took := make([][]time.Duration, len(ways))
	for range rounds {
		for i, way := range ways {
			begin := time.Now()
			way.once()
			took[i] = append(took[i], time.Since(begin))
		}
	}
	for i, way := range ways {
		text := fmt.Sprintf("%-24s", way.name)
		for round, d := range took[i] {
			text += fmt.Sprintf("  %.2f s (%.2f)", d.Seconds(), took[1][round].Seconds()/d.Seconds())
		}
		t.Log(text)
	}
	grown := peak(t, p.Process.Pid) - start
	t.Logf("memory at the start %d KiB, %d KiB more at most", start, grown)
	if grown > maxMemory {
		t.Errorf("it takes %d KiB of memory, at most %d are allowed", grown, maxMemory)
	}
}

func getOnce(t *testing.T, p *program, url string, entries []fetch.Entry) {
	t.Helper()
	folder := t.TempDir()
	received, err := p.get(url, folder, entries...)
	must(t, err)
	if received != large {
		t.Errorf("%d bytes came of %d", received, large)
	}
	must(t, os.RemoveAll(folder))
}

// readPlain reads an object to a file, as simple programs do, with a digest and a sync at the end where they do that.
func readPlain(t *testing.T, in io.ReadCloser, sum hash.Hash, synced bool) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "plain"))
	must(t, err)
	to := io.Writer(f)
	if sum != nil {
		to = io.MultiWriter(f, sum)
	}
	n, err := io.Copy(to, in)
	if synced {
		err = errors.Join(err, f.Sync())
	}
	must(t, errors.Join(err, f.Close(), in.Close(), os.Remove(f.Name())))
	if n != large {
		t.Errorf("%d bytes", n)
	}
}
