package e2e

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// backendsOf makes a folder of backends, each with the text of its backend.yaml.
func backendsOf(t *testing.T, texts map[string]string) string {
	t.Helper()
	parent := t.TempDir()
	for name, text := range texts {
		if err := os.Mkdir(filepath.Join(parent, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(parent, name, "backend.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return parent
}

// forward passes connections to a Unix socket on to an address, which may change; "" refuses them.
func forward(t *testing.T, path string, to *atomic.Pointer[string]) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", *to.Load())
			if err != nil {
				_ = from.Close()
				continue
			}
			both := func(a, b net.Conn) {
				_, _ = io.Copy(a, b)
				_, _ = a.Close(), b.Close()
			}
			go both(from, there)
			go both(there, from)
		}
	}()
}

// pushRemote makes a model of a backend that is a server, whose model there has another name.
func (b *box) pushRemote(name, backend, remote, more string) {
	b.t.Helper()
	b.must("model", "push", name, write(b.t, "config.pbtxt", []byte(`backend: "`+backend+`"
parameters { key: "remote_model" value { string_value: "`+remote+`" } }
`+more)))
}

// TestModelsOfAnotherServerAreServed has one box serve the models of another one as it serves its own, over each way that
// there is to it.
func TestModelsOfAnotherServerAreServed(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	other := serveReady(t, data)
	other.upload("net", "", biased(3))
	other.must("model", "push", "counter", step(t, counterStep))
	var rest, rpc atomic.Pointer[string]
	rest.Store(&other.address)
	rpc.Store(&other.grpc)
	sockets, err := os.MkdirTemp("", "ew")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	forward(t, filepath.Join(sockets, "rest"), &rest)
	forward(t, filepath.Join(sockets, "rpc"), &rpc)
	folder := backendsOf(t, map[string]string{
		"overhttp": "address: http://" + other.address, "overgrpc": "address: grpc://" + other.grpc,
		"oversocket": "address: unix:" + sockets + "/rest\ninput_memory: 1MiB", "overboth": "address: grpc+unix:" + sockets + "/rpc",
	})
	b := serveReady(t, t.TempDir(), "--set", "engine.backends="+folder)
	for _, backend := range []string{"overhttp", "overgrpc", "oversocket", "overboth"} {
		b.pushRemote("net."+backend, backend, "net", "")
		b.wantBias("net."+backend, "1", 3)
		status, answer := b.send(http.MethodPost, "/v2/models/net."+backend+"/infer",
			[]byte(`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,5],"data":[1,2,3,4,5]}]}`), "Content-Type", mimeJSON)
		if status != http.StatusBadRequest || !strings.Contains(answer, "shape") {
			t.Errorf("%s: %d %s", backend, status, answer)
		}
	}
	contains(t, "the list", b.must("backend", "list", "--set", "engine.backends="+folder), "platform overgrpc, at grpc://")
	t.Run("streams", func(t *testing.T) { remoteStreams(t, b) })
	t.Run("refusals", func(t *testing.T) { remoteRefusals(t, b) })
	t.Run("restart", func(t *testing.T) {
		other.stop()
		for _, backend := range []string{"oversocket", "overboth"} {
			await(t, "a refusal", func() bool {
				status, answer := b.send(http.MethodPost, "/v2/models/net."+backend+"/infer", []byte(zeros), "Content-Type", mimeJSON)
				return status == http.StatusServiceUnavailable && strings.Contains(answer, "is not ready: the server at ")
			})
		}
		other = serveReady(t, data)
		rest.Store(&other.address)
		rpc.Store(&other.grpc)
		for _, backend := range []string{"oversocket", "overboth"} {
			await(t, "an answer", func() bool {
				status, _ := b.send(http.MethodPost, "/v2/models/net."+backend+"/infer", []byte(zeros), "Content-Type", mimeJSON)
				return status == http.StatusOK
			})
		}
	})
}

// remoteStreams reads many responses of a decoupled model of the other box, and leaves another stream.
func remoteStreams(t *testing.T, b *box) {
	b.pushRemote("count", "overgrpc", "counter", "")
	st := b.stream(t, t.Context())
	askCount(t, st, 1000)
	for n := range 1000 {
		if got := recvCount(t, st); got != n {
			t.Fatalf("response %d is %d", n, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := b.stream(t, ctx)
	askCount(t, left, endless)
	recvCount(t, left)
	cancel()
	b.canceled(t)
}

// remoteRefusals pushes what the other box has not, or describes otherwise.
func remoteRefusals(t *testing.T, b *box) {
	push := func(code int, want string, text string) {
		t.Helper()
		b.refuses(code, []string{want}, "model", "push", "wrong", write(t, "config.pbtxt", []byte(text)))
	}
	push(4, `is INT8, and there FP32`, `backend: "overhttp" parameters { key: "remote_model" value { string_value: "net" } }
input { name: "x" data_type: TYPE_INT8 dims: [ 4 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }`)
	push(4, "it is decoupled, and its backend is a server over HTTP",
		`backend: "overhttp" parameters { key: "remote_model" value { string_value: "counter" } }`)
	push(3, "nothing", `backend: "overgrpc" parameters { key: "remote_model" value { string_value: "nothing" } }`)
	large := `{"inputs":[{"name":"x","datatype":"FP32","shape":[100000,4],"data":[` + strings.Repeat("0,", 399_999) + `0]}]}`
	b.pushRemote("large", "oversocket", "net", "max_batch_size: 0")
	status, answer := b.send(http.MethodPost, "/v2/models/large/infer", []byte(large), "Content-Type", mimeJSON)
	if status != http.StatusBadRequest || !strings.Contains(answer, strconv.Itoa(1<<20)) {
		t.Errorf("%d %.300s", status, answer)
	}
}
