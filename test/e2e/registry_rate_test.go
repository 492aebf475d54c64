//go:build registry

package e2e

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

// TestALargeFileOfARegistryNeedsLittleMemory fetches 1 GiB and reads it as a plain client does, by turns. It fails for memory and
// for bytes that come twice; decision 0098 has rates.
func TestALargeFileOfARegistryNeedsLittleMemory(t *testing.T) {
	const size, most = 1 << 30, 64 << 20
	r, folder := serveRegistry(t), t.TempDir()
	entry := largeFile(t, filepath.Join(folder, "model.onnx"), size)
	url := "oci://" + r.host + "/models/large:1"
	p, pid := startFetch(t)
	do := func(request fetch.Request) (received int64, entries []fetch.Entry) {
		t.Helper()
		request.URL = url
		err := p.Do(&request, func(reply *fetch.Reply) error {
			if entries = append(entries, reply.Entries...); reply.File != nil {
				received += reply.File.Received
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return received, entries
	}
	do(fetch.Request{Command: fetch.Put, Folder: folder, Files: []fetch.Entry{entry}, Config: []byte("{}")})
	_, entries := do(fetch.Request{Command: fetch.List})
	start := peakMemory(t, pid)
	for range 3 {
		begin, into := time.Now(), t.TempDir()
		if received, _ := do(fetch.Request{Command: fetch.Get, Folder: into, Files: entries}); received < size || received > size+1<<20 {
			t.Errorf("%d bytes came of %d", received, size)
		}
		own := time.Since(begin)
		if err := os.RemoveAll(into); err != nil {
			t.Fatal(err)
		}
		begin = time.Now()
		readBlob(t, "http://"+r.host+"/v2/models/large/blobs/sha256:"+entry.SHA256, size)
		plain := time.Since(begin)
		t.Logf("edgewise-fetch %v, plain %v: %.2f of its rate", own, plain, plain.Seconds()/own.Seconds())
	}
	grown := peakMemory(t, pid) - start
	t.Logf("memory at the start %d bytes, %d more at most", start, grown)
	if grown > most {
		t.Errorf("it takes %d bytes of memory, at most %d are allowed", grown, most)
	}
}

// largeFile writes a file of noise.
func largeFile(t *testing.T, path string, size int64) fetch.Entry {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), io.LimitReader(rand.NewChaCha8([32]byte{}), size))
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return fetch.Entry{Name: filepath.Base(path), Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}
}

// startFetch starts edgewise-fetch, as it is beside the program of the tests.
func startFetch(t *testing.T) (client *fetch.Client, pid int) {
	t.Helper()
	c := exec.Command("../../bin/lib/edgewise-fetch")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatalf("run make registry-test: %v", err)
	}
	t.Cleanup(func() { _, _ = in.Close(), c.Wait() })
	return fetch.NewClient(in, bufio.NewReader(out)), c.Process.Pid
}

// readBlob reads a blob to a file, without a digest and without a sync.
func readBlob(t *testing.T, url string, size int64) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	f, err := os.Create(filepath.Join(t.TempDir(), "plain"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(f, res.Body)
	if err = errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil || n != size {
		t.Fatalf("%d bytes, %v", n, err)
	}
}
