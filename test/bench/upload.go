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
func uploadFigures(r *run) {
	rounds := max(3, r.rounds/2)
	r.check(onnxgen.Weights(uploadBytes, 1).Save(r.dir))
	source, to := filepath.Join(r.dir, "model.onnx"), filepath.Join(r.dir, "copy")
	r.check(command("dd", "if="+source, "of=/dev/null", "bs=1M")) // it is in memory then
	b := r.startBox()
	var ratios, copies, uploads, growths []float64
	for i := range rounds {
		var plain, sent, growth float64
		steps := []func(){
			func() {
				begin := time.Now()
				r.check(command("dd", "if="+source, "of="+to, "bs=1M", "conv=fsync"))
				plain = time.Since(begin).Seconds()
				r.check(os.Remove(to))
			},
			func() { sent, growth = r.upload(b, fmt.Sprintf("big%d", i), source) },
		}
		if i%2 == 1 { // whoever writes second finds the disk busier
			slices.Reverse(steps)
		}
		for _, step := range steps {
			syscall.Sync()
			step()
		}
		ratios, copies, uploads, growths = append(ratios, plain/sent), append(copies, plain), append(uploads, sent), append(growths, growth)
	}
	r.report(
		atLeast("upload of 1 GiB: plain copy + fsync / upload", median(ratios), 0.7, "x",
			fmt.Sprintf("%.2f s against %.2f s, %d rounds", median(uploads), median(copies), rounds)),
		atMost("growth of resident memory during it", median(growths), 32, "MiB", "peak over before"),
	)
}

// upload returns the seconds that an upload takes, and by how many MiB the box grows while it runs.
func (r *run) upload(b *box, name, path string) (seconds, growth float64) {
	before, err := b.resident()
	r.check(err)
	stop, peak := make(chan struct{}), make(chan float64)
	go func() {
		for highest := before; ; {
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
	err = post("http://"+b.address+"/api/v1/models/"+name+"/versions?promote=false", path)
	seconds = time.Since(begin).Seconds()
	close(stop)
	growth = <-peak - before
	r.check(err)
	r.check(b.client.DeleteModel(context.Background(), name))
	return seconds, growth
}

// post sends a model file as curl does.
func post(url, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	req, err := http.NewRequest(http.MethodPost, url, f)
	if err != nil {
		return err
	}
	if req.ContentLength, err = f.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	_, _ = f.Seek(0, io.SeekStart)
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
