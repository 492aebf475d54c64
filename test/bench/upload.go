package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const uploadBytes = 1 << 30

// uploadFigures holds an upload of one gibibyte through REST into the store against a plain copy with fsync, and
// watches the box's memory meanwhile.
func uploadFigures(dir string, rounds int) (result, error) {
	rounds = max(3, rounds/2)
	source := filepath.Join(dir, "source")
	if err := writeBig(source); err != nil {
		return result{}, err
	}
	b, err := startBox(filepath.Join(dir, "data"))
	if err != nil {
		return result{}, err
	}
	defer func() { _ = b.stop() }()
	var ratios, copies, uploads, growths []float64
	for i := range rounds {
		var plain, sent, growth float64
		steps := []func() error{
			func() (err error) {
				plain, err = plainCopy(source, filepath.Join(dir, "copy"))
				return err
			},
			func() (err error) {
				sent, growth, err = upload(b, fmt.Sprintf("big%d", i), source)
				return err
			},
		}
		if i%2 == 1 { // whoever writes second finds the disk busier
			slices.Reverse(steps)
		}
		for _, step := range steps {
			syscall.Sync()
			if err := step(); err != nil {
				return result{}, err
			}
		}
		ratios, copies, uploads, growths = append(ratios, plain/sent), append(copies, plain), append(uploads, sent), append(growths, growth)
	}
	return result{Figures: []figure{
		atLeast("upload of 1 GiB: plain copy + fsync / upload", median(ratios), 0.7, "x",
			fmt.Sprintf("%.2f s against %.2f s, %d rounds", median(uploads), median(copies), rounds)),
		atMost("growth of resident memory during it", median(growths), 32, "MiB", "peak over before"),
	}}, nil
}

// writeBig writes a model with 1 GiB of weights, and reads it once so that it is in memory.
func writeBig(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := onnxgen.Weights(uploadBytes, 1).Save(dir); err != nil {
		return err
	}
	return eachFile(dir, func(f *os.File) error {
		_, err := io.Copy(io.Discard, f)
		return err
	})
}

func eachFile(dir string, do func(*os.File) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		if err := errors.Join(do(f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// plainCopy returns the seconds that copying a folder's files and syncing them takes.
func plainCopy(from, to string) (float64, error) {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(to) }()
	begin := time.Now()
	err := eachFile(from, func(f *os.File) error {
		out, err := os.Create(filepath.Join(to, filepath.Base(f.Name())))
		if err != nil {
			return err
		}
		// Through a buffer, as the store writes; left alone, io.Copy would let the kernel share the blocks.
		_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{f}, make([]byte, 1<<20))
		return errors.Join(err, out.Sync(), out.Close())
	})
	return time.Since(begin).Seconds(), err
}

// upload returns the seconds that an upload takes, and by how many MiB the box grows while it runs.
func upload(b *box, name, dir string) (seconds, growth float64, err error) {
	before, err := b.resident()
	if err != nil {
		return 0, 0, err
	}
	stop, peak := make(chan struct{}), make(chan float64)
	go func() {
		highest := before
		for {
			select {
			case <-stop:
				peak <- highest
				return
			case <-time.After(10 * time.Millisecond):
				if now, err := b.resident(); err == nil {
					highest = max(highest, now)
				}
			}
		}
	}()
	begin := time.Now()
	err = post(b, name, filepath.Join(dir, "model.onnx"))
	seconds = time.Since(begin).Seconds()
	close(stop)
	growth = <-peak - before
	if err != nil {
		return 0, 0, err
	}
	return seconds, growth, b.client.DeleteModel(context.Background(), name)
}

// post sends a model file as curl does.
func post(b *box, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+b.address+"/api/v1/models/"+name+"/versions?promote=false", f)
	if err != nil {
		return err
	}
	req.ContentLength = info.Size()
	req.Header.Set("Content-Type", "application/octet-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%s: %s", res.Status, answer)
	}
	return errors.Join(err, res.Body.Close())
}
