package appliance

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// raw connects to a box and sends text.
func (h *running) raw(text string) (net.Conn, *bufio.Reader) {
	h.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Minute))
	_, _ = io.WriteString(c, text)
	return c, bufio.NewReader(c)
}

func TestABodyThatIsRefusedIsNotTheNextRequest(t *testing.T) {
	h := runBox(t, nil)
	h.claim()
	for name, head := range map[string]string{
		"an upload without credentials": "PATCH /api/v1/uploads/abcdefgh HTTP/1.1\r\nHost: localhost\r\nTus-Resumable: " +
			"1.0.0\r\nUpload-Offset: 0\r\nContent-Type: application/offset+octet-stream\r\n",
		"a push without credentials": "POST /api/v1/models/cat/versions HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
			"application/octet-stream\r\n",
		"an inference":         "POST /v2/models/cat/infer HTTP/1.1\r\nHost: localhost\r\n",
		"a login that is none": "POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			smuggled := "GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
			body := strings.Repeat("x", 8192) + smuggled
			_, in := h.raw(fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body))
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			if res.StatusCode < 400 {
				t.Errorf("it is taken: %d", res.StatusCode)
			}
			if strings.HasPrefix(head, "POST /api/v1/session") {
				return // its body is read, so the connection may go on
			}
			if rest, _ := io.ReadAll(in); len(rest) > 0 {
				t.Errorf("the body was served as a request: %q", rest)
			}
		})
	}
}

func TestASenderThatHangsLetsGoWhenItComesBack(t *testing.T) {
	h, anna := runReal(t)
	at := anna.tus("POST", "/api/v1/uploads", nil, "Upload-Length", "100000", "Upload-Metadata",
		"filename "+base64.StdEncoding.EncodeToString([]byte("a.onnx"))).Header.Get("Location")
	h.raw(fmt.Sprintf("PATCH %s HTTP/1.1\r\nHost: localhost\r\nCookie: %s\r\nX-CSRF-Token: %s\r\nTus-Resumable: "+
		"1.0.0\r\nUpload-Offset: 0\r\nContent-Type: application/offset+octet-stream\r\nContent-Length: 100000\r\n\r\n%s",
		at, anna.header.Get("Cookie"), anna.header.Get("X-CSRF-Token"), strings.Repeat("a", 30000)))
	deadline := time.Now().Add(10 * time.Minute)
	for {
		began := time.Now()
		res := anna.tus("HEAD", at, nil)
		if res.StatusCode == 200 && res.Header.Get("Upload-Offset") == "30000" {
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the sender that hangs held on for %v", took)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d %v", res.StatusCode, res.Header)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if res := anna.tus("PATCH", at, []byte(strings.Repeat("b", 70000)), "Upload-Offset", "30000", "Content-Type",
		"application/offset+octet-stream"); res.StatusCode != 204 || res.Header.Get("Upload-Offset") != "100000" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
}

func TestAVersionThatDoesNotLoadChangesNothing(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", adding(1))
	bad := &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes:        []onnxgen.Node{{Op: "MatMul", In: []string{"x", "bias"}, Out: []string{"y"}}},
		Initializers: []onnxgen.Tensor{onnxgen.Floats("bias", []int64{3, 3}, 1, 1, 1, 1, 1, 1, 1, 1, 1)},
		Inputs:       []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: onnxgen.Batch(4)}},
		Outputs:      []onnxgen.Value{{Name: "y", Type: onnxgen.Float, Dims: onnxgen.Batch(4)}},
	}}
	j := anna.settled(anna.upload("net.onnx", bad.Bytes(), map[string]string{"activate": "true"}))
	if j.State != admin.JobFailed || !j.Resumable || !strings.Contains(states(j), "store:done load:failed warm:waiting") {
		t.Fatalf("%s resumable %v: %s", j.State, j.Resumable, states(j))
	}
	var m admin.Model
	if anna.ask("GET", "/api/v1/models/net", nil, &m); m.Label("live") != 1 || len(m.Versions) != 2 {
		t.Errorf("%+v", m)
	}
	var deployments []admin.Deployment
	if anna.ask("GET", "/api/v1/models/net/deployments", nil, &deployments); deployments[0].Done ||
		deployments[0].Error == "" || deployments[0].To != 2 {
		t.Errorf("%+v", deployments)
	}
	var begun admin.Job
	if status, _ := anna.ask("POST", "/api/v1/jobs/"+j.ID+"/activate", nil, &begun); status != 202 || begun.Revision <= j.Revision {
		t.Errorf("%d: revision %d after %d", status, begun.Revision, j.Revision)
	}
	if again := anna.settled(j.ID); again.State != admin.JobFailed || !strings.Contains(states(again), "load:failed") {
		t.Errorf("%s: %s", again.State, states(again))
	}
	var stored admin.Model
	if anna.ask("GET", "/api/v1/models/net", nil, &stored); len(stored.Versions) != 2 {
		t.Errorf("trying again has stored it again: %d versions", len(stored.Versions))
	}
}
