package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

func TestOfTwoUploadsOfOneVersionOneWins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := serveReady(t, dir)
	for version := 1; version <= 5; version++ {
		var statuses [2]int
		var texts [2]string
		var work sync.WaitGroup
		for i := range statuses {
			body := biased(float32(10*version + i)).Bytes()
			work.Go(func() {
				statuses[i], texts[i] = b.send(http.MethodPost, fmt.Sprintf("/api/v1/models/cat/versions?version=%d", version),
					body, "Content-Type", mimeFile)
			})
		}
		work.Wait()
		winner := 0
		if statuses[1] == http.StatusCreated {
			winner = 1
		}
		if statuses[winner] != http.StatusCreated || statuses[1-winner] != http.StatusConflict {
			t.Fatalf("answers %v %q, want one 201 and one 409", statuses, texts)
		}
		contains(t, "the loser's answer", texts[1-winner], fmt.Sprintf("version %d", version))
		b.wantBias("cat", fmt.Sprint(version), float32(10*version+winner))
	}
	b.stop()
	wantHealthy(t, dir)
}

func TestAnUploadThatBreaksOffLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := serveReady(t, dir)
	b.upload("cat", "", biased(1))
	before := files(t, dir)
	body := onnxgen.Weights(4<<20, 1).Bytes()
	for _, framing := range []string{fmt.Sprintf("Content-Length: %d", len(body)), "Transfer-Encoding: chunked"} {
		head := "POST /api/v1/models/cat/versions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n" +
			framing + "\r\n\r\n"
		if strings.Contains(framing, "chunked") {
			head += fmt.Sprintf("%x\r\n", len(body))
		}
		c := b.raw(t, head+string(body[:len(body)/2]))
		await(t, "the upload to begin", func() bool { return files(t, dir) > before })
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		await(t, "the upload to be removed", func() bool { return files(t, dir) == before })
	}
	if m, err := b.client.Model(t.Context(), "cat"); err != nil || len(m.Versions) != 1 {
		t.Fatalf("versions %+v, %v", m, err)
	}
	b.upload("cat", "", biased(2))
	b.wantBias("cat", "2", 2)
	b.stop()
	wantHealthy(t, dir)
}

// await waits until something is so.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for begun := time.Now(); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("waiting for %s", what)
		}
	}
}

// TestAnOperatorThatTheRuntimeLacksIsFoundAtLoading pushes a model that is well formed and that nothing can run.
func TestAnOperatorThatTheRuntimeLacksIsFoundAtLoading(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := serveReady(t, dir)
	b.upload("cat", "", biased(1))
	m := biased(2)
	m.Graph.Nodes[0].Op = "NoSuchOperator"
	status, text := b.send(http.MethodPost, "/api/v1/models/cat/versions", m.Bytes(), "Content-Type", mimeFile)
	if status < 400 || status == http.StatusInternalServerError {
		t.Errorf("answer %d %s", status, text)
	}
	contains(t, "answer", text, "version 2 is stored but was not made live", "NoSuchOperator")
	b.wantBias("cat", "1", 1)
	contains(t, "list", b.must("--output", "json", "model", "show", "cat"), `"version": 2`)
	// The next push of the command line takes its place.
	b.refuses(4, []string{"version 3 is stored but was not made live", "NoSuchOperator"}, "model", "push", "cat", save(t, m))
	if shown := b.must("--output", "json", "model", "show", "cat"); strings.Contains(shown, `"version": 2`) {
		t.Errorf("failed loads pile up: %s", shown)
	}
	b.must("model", "rm", "cat:3")
	b.stop()
	wantHealthy(t, dir)
}

func TestAFullDiskIsToldBeforeTheBodyIsSent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := serveReady(t, dir, "--set", "store.reserve_bytes=16TiB")
	before := files(t, dir)
	c := b.raw(t, "POST /api/v1/models/cat/versions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
		"application/octet-stream\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusInsufficientStorage || !res.Close {
		t.Errorf("answer %s, close %v, want 507 and the end of the connection", res.Status, res.Close)
	}
	b.refuses(6, []string{"disk is too full", "reserved"}, "model", "push", "cat", save(t, biased(1)))
	if after := files(t, dir); after != before {
		t.Errorf("the data folder has %d files, %d before", after, before)
	}
	b.stop()
	wantHealthy(t, dir)
}

func TestPushRefusesWithTheReason(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	good := save(t, biased(1))
	b.refuses(2, []string{`"a/b"`}, "model", "push", "a/b", good)
	b.refuses(2, []string{`".."`}, "model", "push", "..", good)
	b.refuses(2, []string{"300 bytes"}, "model", "push", strings.Repeat("n", 300), good)
	b.refuses(2, []string{"not allowed"}, "model", "push", "cаt", good) // its second letter is Cyrillic
	b.refuses(3, []string{"nowhere"}, "model", "push", "cat", good+"/nowhere")
	b.refuses(4, []string{"it holds no file"}, "model", "push", "cat", t.TempDir())
	b.refuses(4, []string{"model.onnx"}, "model", "push", "cat", write(t, "cat.onnx", []byte("text")))
	b.refuses(4, []string{"cat.md", ".onnx or .wasm", "a folder"}, "model", "push", "cat", write(t, "cat.md", []byte("text")))
	b.refuses(4, []string{"cat.onnx is empty"}, "model", "push", "cat", write(t, "cat.onnx", nil))
	b.refuses(4, []string{"version"}, "model", "push", "cat", good, "--version", "-1")
	b.must("model", "push", "cat", good, "--version", "7")
	b.refuses(4, []string{`"cat" version 7`}, "model", "push", "cat", good, "--version", "7")
	b.wantBias("cat", "7", 1)
}
