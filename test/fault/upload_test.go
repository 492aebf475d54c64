package fault

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

var uploadKills = flag.Int("fault.uploads", 10, "how often the box is killed while it takes uploads")

// pieces sends one file in pieces to a box that is killed again and again.
type pieces struct {
	t       *testing.T
	box     *box
	file    []byte
	sum     string
	at      string // path of the upload; empty: not begun
	learned int64  // the highest offset that a box has acknowledged
	random  *rand.Rand
}

// TestKilledUploadsAreWholeOrGoOn kills a box at random moments of uploads. What a box has acknowledged is there after
// its restart, the sender goes on from there, and what is finished is what was sent.
func TestKilledUploadsAreWholeOrGoOn(t *testing.T) {
	seed := chosenSeed(t)
	random := rand.New(rand.NewPCG(seed, 7))
	dir := t.TempDir()
	finished, kills := 0, 0
	p := &pieces{t: t, random: rand.New(rand.NewPCG(seed, 8)), box: startBox(t, dir)}
	p.begin()
	for kills < *uploadKills {
		done := make(chan bool, 1)
		go func() { done <- p.send() }()
		killed := time.After(time.Duration(random.IntN(120)) * time.Millisecond)
		select {
		case whole := <-done:
			if whole {
				p.check()
				finished++
				p.begin()
			}
			continue
		case <-killed:
		}
		p.box.kill()
		kills++
		whole := <-done
		p.box = startBox(t, dir)
		if !whole {
			p.resume()
			continue
		}
		p.check()
		finished++
		p.begin()
	}
	for !p.send() {
		p.resume()
	}
	p.check()
	t.Logf("%d kills, %d uploads were finished and whole", kills, finished+1)
}

// begin makes a new file, a model behind bytes that the box reads over, and begins its upload.
func (p *pieces) begin() {
	p.t.Helper()
	net := onnxgen.MLP(p.random.Uint64())
	net.Producer = strings.Repeat("p", 100)
	p.file = append(net.Bytes(), padding(1<<20+p.random.IntN(24<<20))...)
	sum := sha256.Sum256(p.file)
	p.sum, p.learned = hex.EncodeToString(sum[:]), 0
	res, body := p.ask("POST", "/api/v1/uploads", nil, "Upload-Length", strconv.Itoa(len(p.file)), "Upload-Metadata",
		fmt.Sprintf("filename %s,sha256 %s", encode("net.onnx"), encode(p.sum)))
	if res == nil || res.StatusCode != http.StatusCreated {
		p.t.Fatalf("the upload is not begun: %v %s", res, body)
	}
	p.at = res.Header.Get("Location")
}

// padding is a model's doc_string, of n bytes, so that the file is large and the model small.
func padding(n int) []byte {
	return new(onnxgen.Message).Bytes(6, bytes.Repeat([]byte{7}, n)).Encoded()
}

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// send sends pieces of random lengths until the file is whole or the box has gone. It tells whether the box has
// acknowledged all of it.
func (p *pieces) send() bool {
	for p.learned < int64(len(p.file)) {
		end := min(int64(len(p.file)), p.learned+1+p.random.Int64N(12<<20))
		res, _ := p.ask("PATCH", p.at, p.file[p.learned:end], "Upload-Offset", strconv.FormatInt(p.learned, 10),
			"Content-Type", "application/offset+octet-stream")
		if res == nil || res.StatusCode != http.StatusNoContent {
			return false
		}
		p.learned = end
	}
	return true
}

// resume asks a box that was started again where to go on.
func (p *pieces) resume() {
	p.t.Helper()
	res, _ := p.ask("HEAD", p.at, nil)
	if res == nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("the upload %s has gone: %v\n%s", p.at, res, p.box.output.String())
	}
	offset, err := strconv.ParseInt(res.Header.Get("Upload-Offset"), 10, 64)
	if err != nil || offset < p.learned || offset > int64(len(p.file)) {
		p.t.Fatalf("the box has %q bytes, it had acknowledged %d of %d", res.Header.Get("Upload-Offset"), p.learned, len(p.file))
	}
	p.learned = offset
}

// check waits until the box has looked at what is whole, and throws it away.
func (p *pieces) check() {
	p.t.Helper()
	path := strings.Replace(p.at, "/uploads/", "/jobs/", 1)
	var j admin.Job
	for range 1200 {
		res, body := p.ask("GET", path, nil)
		if res == nil || res.StatusCode != http.StatusOK || json.Unmarshal(body, &j) != nil {
			p.t.Fatalf("the job has gone: %v %s\n%s", res, body, p.box.output.String())
		}
		if j.State != admin.JobRunning {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, s := range j.Steps[:1] {
		if s.Name != "verify" || s.State != admin.StepDone || string(j.SHA256) != p.sum {
			p.t.Fatalf("what has arrived is not what was sent: %+v", j)
		}
	}
	if j.State != admin.JobStaged {
		p.t.Fatalf("the job is %s, want it to wait for a person: %+v\n%s", j.State, j, p.box.output.String())
	}
	if res, body := p.ask("DELETE", path, nil); res == nil || res.StatusCode != http.StatusNoContent {
		p.t.Fatalf("%v %s", res, body)
	}
}

// ask sends a request; the answer is nil when the box has gone.
func (p *pieces) ask(method, path string, body []byte, header ...string) (*http.Response, []byte) {
	req, err := http.NewRequest(method, p.box.url+path, bytes.NewReader(body))
	if err != nil {
		p.t.Error(err)
		return nil, nil
	}
	req.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	res, err := client.Do(req)
	if err != nil {
		return nil, nil
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, nil
	}
	return res, text
}
