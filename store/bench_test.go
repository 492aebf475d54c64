package store

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// benchBytes is the size of the file that the upload benchmark moves.
const benchBytes = 1 << 30

// BenchmarkUploadAgainstCopy alternates an upload of 1 GiB with a plain copy and fsync of the same file, and reports
// how fast the upload is in units of the copy (copy/upload: 1 is equal) and how much the process grew.
func BenchmarkUploadAgainstCopy(b *testing.B) {
	dir := b.TempDir()
	source := filepath.Join(dir, "source")
	writePattern(b, source)
	s := open(b, filepath.Join(dir, "store"), quiet())
	var copying, uploading time.Duration
	before := peakRSS(b)
	doCopy := func() {
		copying += timed(b, func() error { return plainCopy(source, filepath.Join(dir, "copy")) })
	}
	doUpload := func() { uploading += timed(b, func() error { return uploadFile(s, source) }) }
	for turn := 0; b.Loop(); turn++ { // each goes first every other time: the first leaves the disk busy
		if turn%2 == 0 {
			doCopy()
			doUpload()
		} else {
			doUpload()
			doCopy()
		}
		if err := errors.Join(os.Remove(filepath.Join(dir, "copy")), s.DeleteModel(ctx, "big")); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(copying.Seconds()/uploading.Seconds(), "copy/upload")
	b.ReportMetric(float64(b.N)*benchBytes/uploading.Seconds()/1e6, "upload-MB/s")
	b.ReportMetric(float64(peakRSS(b)-before)/(1<<20), "RSS-growth-MiB")
}

func writePattern(b *testing.B, path string) {
	b.Helper()
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	chunk := []byte(pattern(1 << 20))
	for range benchBytes >> 20 {
		if _, err := f.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		b.Fatal(err)
	}
}

func timed(b *testing.B, fn func() error) time.Duration {
	b.Helper()
	begun := time.Now()
	if err := fn(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begun)
}

// plainCopy copies through a buffer, as a program would that received the bytes from elsewhere.
func plainCopy(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, make([]byte, 1<<20))
	return errors.Join(err, out.Sync(), out.Close())
}

func uploadFile(s *Store, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	g, err := s.Begin(ctx, benchBytes)
	if err != nil {
		return err
	}
	defer func() { _ = g.Discard() }()
	if _, err := g.Add(ctx, "model.onnx", benchBytes, in); err != nil {
		return err
	}
	_, err = s.Put(ctx, g, edgewise.Version{ID: edgewise.ModelID{Name: "big"}, Model: model("big")})
	return err
}

// peakRSS returns the most memory that the process had at a time, in bytes; 0 where the system does not tell.
func peakRSS(b *testing.B) int64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			fields := strings.Fields(rest)
			n, err := strconv.ParseInt(fields[0], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return n << 10
		}
	}
	return 0
}
