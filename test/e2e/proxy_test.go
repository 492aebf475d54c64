//go:build proxy

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/haproxy"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// replicas are three boxes with the same models behind the proxy of configs/proxy.
type replicas struct {
	*box    // the proxy, as clients see it
	proxy   *haproxy.Proxy
	boxes   [3]*box
	folders [3]string
}

const boxHeader = "Edgewise-Box" // who has answered

// drain is how long a replica answers when it has been asked to stop: the proxy looks each second.
const drain = "5s"

func (r *replicas) arguments() []string {
	return []string{"--set", "shutdown.delay=" + drain, "--set", "http.allowed_hosts=*", "--set", "http.trusted_proxies=127.0.0.1"}
}

func serveReplicas(t *testing.T) *replicas {
	t.Helper()
	r := &replicas{}
	repository := sequenceRepository(t, map[string]string{"sequence": sequenceConfig(4, "")})
	var targets [3]haproxy.Box
	for i := range r.boxes {
		r.folders[i] = t.TempDir()
		b := serveReady(t, r.folders[i], append(r.arguments(), "--import", repository)...)
		b.upload("echo", "", onnxgen.Identity(edgewise.FP32, onnxgen.Dim{Name: "batch"}, onnxgen.Dim{Name: "n"}))
		b.upload("slow", "", rowOf(onnxgen.Slow(slowWork/10)))
		b.must("model", "push", "count", step(t, counterStep))
		r.boxes[i], targets[i] = b, haproxy.Box{REST: b.address, GRPC: b.grpc}
	}
	r.proxied(t, targets, [3]string{"UP", "UP", "UP"})
	return r
}

// rowOf makes the inputs and outputs of a model that of sixteen.
func rowOf(m *onnxgen.Model) *onnxgen.Model {
	m.Graph.Inputs[0].Dims, m.Graph.Outputs[0].Dims = onnxgen.Dims(1, 16), onnxgen.Dims(1, 16)
	return m
}

// proxied starts the proxy and waits until it sees its boxes so.
func (r *replicas) proxied(t *testing.T, at [3]haproxy.Box, states [3]string) {
	t.Helper()
	var err error
	if r.proxy, err = haproxy.Start(real.Root(t), t.TempDir(), at[:]...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.proxy.Stop()
		if t.Failed() {
			t.Logf("the proxy:\n%s", r.proxy.Log.String())
		}
	})
	r.box = &box{t: t, address: r.proxy.REST, url: "http://" + r.proxy.REST, grpc: r.proxy.GRPC}
	if r.client, err = client.New(r.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.client.Close)
	for i, state := range states {
		r.await(i, state)
	}
}

// await waits until the proxy has checked a replica and sees it so.
func (r *replicas) await(replica int, state string) {
	r.t.Helper()
	await(r.t, fmt.Sprintf("box%d to be %s", replica+1, state), func() bool {
		is, err := r.proxy.Sees(replica, state)
		if err != nil {
			r.t.Fatal(err)
		}
		return is
	})
}

// again starts a replica where it was.
func (r *replicas) again(i int) {
	r.t.Helper()
	was := r.boxes[i]
	r.boxes[i] = serveReady(r.t, r.folders[i], append(r.arguments(),
		"--set", "http.address="+was.address, "--set", "grpc.address="+was.grpc)...)
	r.await(i, "UP")
}

// handled is what became of a request, and where.
type handled struct {
	status    int
	box, text string
}

// ask sends a request to the proxy with a client's own connections.
func ask(c *http.Client, method, url, body string, header ...string) (a handled, err error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return a, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	res, err := c.Do(req)
	if err != nil {
		return a, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return handled{res.StatusCode, res.Header.Get(boxHeader), string(text)}, err
}

// load sends requests to the slow model from so many clients until stop is called, which returns how many each replica has
// answered. Every one has to succeed.
func (r *replicas) load(clients int) (stop func() map[string]int) {
	var work sync.WaitGroup
	var mu sync.Mutex
	done, counts := make(chan struct{}), map[string]int{}
	stub := r.stub()
	row := make([]byte, 16*4)
	for n := range clients {
		work.Go(func() {
			c := &http.Client{Transport: &http.Transport{}, Timeout: patience}
			defer c.CloseIdleConnections()
			for {
				select {
				case <-done:
					return
				default:
				}
				var a handled
				var err error
				if n%2 == 0 {
					a, err = ask(c, http.MethodPost, r.url+"/v2/models/slow/infer", sixteenZeros)
				} else {
					a, err = inferRPC(stub, "slow", edgewise.Shape{1, 16}, row)
				}
				mu.Lock()
				counts[a.box]++
				mu.Unlock()
				if err != nil || a.status != http.StatusOK {
					r.t.Errorf("client %d, %s: %d %s %v", n, time.Now().Format("05.000"), a.status, a.text, err)
				}
			}
		})
	}
	r.t.Cleanup(sync.OnceFunc(func() { work.Wait() }))
	var once sync.Once
	end := func() { once.Do(func() { close(done) }) }
	r.t.Cleanup(end)
	return func() map[string]int {
		end()
		work.Wait()
		return counts
	}
}

func (r *replicas) stub() inference.GRPCInferenceServiceClient {
	r.t.Helper()
	conn, err := grpc.NewClient(r.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	return inference.NewGRPCInferenceServiceClient(conn)
}

// inferRPC asks for an inference over gRPC.
func inferRPC(stub inference.GRPCInferenceServiceClient, model string, shape edgewise.Shape, data []byte) (a handled, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var header metadata.MD
	res, err := stub.ModelInfer(ctx, &inference.ModelInferRequest{
		ModelName:        model,
		Inputs:           []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: shape}},
		RawInputContents: [][]byte{data},
	}, grpc.Header(&header))
	if got := header.Get(boxHeader); len(got) == 1 {
		a.box = got[0]
	}
	if err != nil {
		return a, err
	}
	a.status, a.text = http.StatusOK, string(res.RawOutputContents[0])
	return a, nil
}

func wantEach(t *testing.T, counts map[string]int, least int) {
	t.Helper()
	for _, name := range []string{"box1", "box2", "box3"} {
		if counts[name] < least {
			t.Errorf("%s has answered %d requests of %v, want at least %d", name, counts[name], counts, least)
		}
	}
}

func TestAProxyInFrontOfReplicas(t *testing.T) {
	r := serveReplicas(t)
	t.Run("requests of one connection reach every replica", func(t *testing.T) {
		const requests = 60
		rest, rpc := map[string]int{}, map[string]int{}
		c, stub := &http.Client{}, r.stub()
		defer c.CloseIdleConnections()
		for range requests {
			a, err := ask(c, http.MethodPost, r.url+"/v2/models/slow/infer", sixteenZeros)
			if err != nil || a.status != http.StatusOK {
				t.Fatal(a, err)
			}
			rest[a.box]++
			if a, err = inferRPC(stub, "slow", edgewise.Shape{1, 16}, make([]byte, 64)); err != nil {
				t.Fatal(err)
			}
			rpc[a.box]++
		}
		wantEach(t, rest, requests/6)
		wantEach(t, rpc, requests/6)
	})
	t.Run("sequences stay on their replica", r.sequencesStay)
	t.Run("streams are not held back", r.streamsFlow)
	t.Run("large tensors", r.largeTensors)
	t.Run("large tensors of many clients", r.manyTensors)
	t.Run("the page of a box has its name", r.pagesByName)
	t.Run("what is about one box is refused", r.oneBoxIsRefused)
}

// sequencesStay runs more sequences than there are replicas, of our clients and of any other.
func (r *replicas) sequencesStay(t *testing.T) {
	var work sync.WaitGroup
	for n := range uint64(24) {
		work.Go(func() {
			for i := range 10 {
				y, _, err := r.add("sequence", edgewise.Sequence{ID: n + 1, Start: i == 0, End: i == 9}, 2)
				if want := []float32{100 + 2*float32(i+1), float32(i + 1)}; err != nil || !slices.Equal(y, want) {
					t.Errorf("sequence %d, request %d: %v, want %v, %v", n+1, i, y, want, err)
					return
				}
			}
		})
	}
	work.Wait()
	used := map[string]int{}
	for n := range 24 {
		boxes := map[string]bool{}
		for i := range 3 {
			a := r.inSequence(t, 100+n, i == 0, i == 2)
			if a.status != http.StatusOK {
				t.Errorf("sequence %d, request %d: %+v", 100+n, i, a)
			}
			boxes[a.box] = true
			used[a.box]++
		}
		if len(boxes) != 1 {
			t.Errorf("sequence %d was at %v", 100+n, boxes)
		}
	}
	wantEach(t, used, 1)
	failed := 0 // without the header the next request goes to another box
	for i := range 3 {
		body := sequenceBody(999, i == 0, false)
		if a, err := ask(http.DefaultClient, http.MethodPost, r.url+"/v2/models/sequence/infer", body); err != nil || a.status != http.StatusOK {
			failed++
		}
	}
	if failed == 0 {
		t.Error("without the header the sequence has stayed, too: the test shows nothing")
	}
}

func sequenceBody(id int, start, end bool) string {
	return fmt.Sprintf(`{"parameters":{"sequence_id":%d,"sequence_start":%t,"sequence_end":%t},`+
		`"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[2,1]}]}`, id, start, end)
}

// inSequence sends a request with the header that the proxy reads.
func (r *replicas) inSequence(t *testing.T, id int, start, end bool) handled {
	t.Helper()
	a, err := ask(http.DefaultClient, http.MethodPost, r.url+"/v2/models/sequence/infer", sequenceBody(id, start, end),
		kserve.HeaderSequence, fmt.Sprint(id))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// streamsFlow reads the first responses of streams that do not end, and leaves: the box has to see that.
func (r *replicas) streamsFlow(t *testing.T) {
	for name, begin := range map[string]func(ctx context.Context){
		"gRPC": func(ctx context.Context) {
			st := r.stream(t, ctx)
			askCount(t, st, endless)
			for i := range 1000 {
				if got := recvCount(t, st); got != i {
					t.Fatalf("response %d is %d", i, got)
				}
			}
		},
		"REST": func(ctx context.Context) {
			next := r.events(t, ctx, endless)
			for i := range 1000 {
				if want, got := fmt.Sprintf(`data: {"model_name":"count","model_version":"1","x":%d}`, i), next(); got != want {
					t.Fatalf("event %d is %s", i, got)
				}
			}
		},
	} {
		failed := r.failedStreams(t)
		ctx, cancel := context.WithCancel(t.Context())
		begin(ctx)
		cancel()
		await(t, name+": the end of the producer", func() bool { return r.failedStreams(t) > failed })
	}
	st := r.stream(t, t.Context()) // request after request on one stream
	for n := range uint32(20) {
		askCount(t, st, n+1)
		for i := range n + 1 {
			if got := recvCount(t, st); got != int(i) {
				t.Fatalf("response %d is %d", i, got)
			}
		}
		if _, err := st.Recv(); err != nil { // the empty one at the end
			t.Fatal(err)
		}
	}
}

func (r *replicas) failedStreams(t *testing.T) (sum uint64) {
	for _, b := range r.boxes {
		_, failed := b.counted(t)
		sum += failed
	}
	return sum
}

// largeTensors sends what no buffer of the proxy holds.
func (r *replicas) largeTensors(t *testing.T) {
	data := make([]byte, 64<<20)
	for i := range data {
		data[i] = byte(i * 7 >> 3 & 0x3f)
	}
	shape := edgewise.Shape{1, int64(len(data) / 4)}
	resp, err := r.client.Infer(t.Context(), &edgewise.Request{
		Model: edgewise.ModelID{Name: "echo"}, Inputs: []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: shape, Data: data}},
	})
	if err != nil || !bytes.Equal(resp.Outputs[0].Data, data) {
		t.Errorf("REST: %v", err)
	}
	if a, err := inferRPC(r.stub(), "echo", shape, data); err != nil || a.text != string(data) {
		t.Errorf("gRPC: %v", err)
	}
}

// manyTensors sends pictures from many clients at a time, so many that connections from the proxy to the boxes broke in half
// of all runs while clients shared them.
func (r *replicas) manyTensors(t *testing.T) {
	shape, data := edgewise.Shape{1, 150_528}, make([]byte, 4*150_528)
	var work sync.WaitGroup
	for range 16 {
		stub := r.stub()
		work.Go(func() {
			for range 150 {
				if a, err := inferRPC(stub, "echo", shape, data); err != nil || len(a.text) != len(data) {
					t.Errorf("%s: %d bytes, %v", time.Now().Format("05.000"), len(a.text), err)
					return
				}
			}
		})
	}
	work.Wait()
}

// pagesByName follows the events of the second box.
func (r *replicas) pagesByName(t *testing.T) {
	host := []string{"Host", "box2.example.com"}
	a, err := ask(http.DefaultClient, http.MethodGet, r.url+"/", "", append(host, "Accept", "text/html")...)
	if err != nil || a.status != http.StatusOK || !strings.Contains(a.text, "<html") {
		t.Errorf("the page: %+v, %v", a, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/api/v1/events?topics=model", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host[1]
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	r.boxes[1].must("model", "push", "seen", step(t, counterStep))
	var got bytes.Buffer
	for buffer := make([]byte, 4096); !strings.Contains(got.String(), `"seen"`); {
		n, err := res.Body.Read(buffer)
		got.Write(buffer[:n])
		if err != nil {
			t.Fatalf("%v after %s", err, got.String())
		}
	}
	// a client's own claim comes first in the header that the box reads
	login := `{"user":"eve","password":"wrong wrong wrong"}`
	if _, err := ask(http.DefaultClient, http.MethodPost, r.url+"/api/v1/session", login, append(host, "X-Forwarded-For", "198.51.100.7",
		"Content-Type", "application/json")...); err != nil {
		t.Error(err)
	}
}

func (r *replicas) oneBoxIsRefused(t *testing.T) {
	for _, path := range []string{
		"/", "/api/v1/models", "/metrics", "/v2/repository/index", "/v2/repository/models/echo/unload", "/v2/logging",
		"/v2/trace/setting", "/v2/models/echo/trace/setting", "/v2/systemsharedmemory/status",
	} {
		if a, err := ask(http.DefaultClient, http.MethodPost, r.url+path, "{}"); err != nil || a.status != http.StatusNotFound || a.box != "" {
			t.Errorf("%s: %+v %v", path, a, err)
		}
	}
	stub := r.stub()
	for name, call := range map[string]func() error{
		"unload": func() error {
			_, err := stub.RepositoryModelUnload(t.Context(), &inference.RepositoryModelUnloadRequest{ModelName: "echo"})
			return err
		},
		"log settings": func() error {
			_, err := stub.LogSettings(t.Context(), &inference.LogSettingsRequest{})
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ready, err := stub.ServerReady(t.Context(), &inference.ServerReadyRequest{}); err != nil || !ready.Ready {
		t.Errorf("ready: %v %v", ready, err)
	}
}

// TestNoRequestFailsWhileReplicasEnd kills one replica under load, and then replaces all three, one after the other. The requests
// fit into the proxy's buffer, so that those of a replica that is killed are sent again.
func TestNoRequestFailsWhileReplicasEnd(t *testing.T) {
	r := serveReplicas(t)
	const clients = 8
	t.Run("killed", func(t *testing.T) {
		stop := r.load(clients)
		await(t, "requests in progress", func() bool { return r.boxes[1].series("slow", "nv_inference_pending_request_count") > 0 })
		r.boxes[1].kill()
		r.await(1, "DOWN")
		r.again(1)
		before := r.boxes[1].started("slow")
		await(t, "requests to the new one", func() bool { return r.boxes[1].started("slow") > before })
		t.Log(stop())
	})
	t.Run("drained", func(t *testing.T) {
		stop := r.load(clients)
		for i, b := range r.boxes {
			id := r.sequenceAt(t, 1000*(i+1), fmt.Sprintf("box%d", i+1))
			b.terminate()
			r.await(i, "NOLB")
			if a := r.inSequence(t, id, false, true); a.status != http.StatusOK || a.box != fmt.Sprintf("box%d", i+1) {
				t.Errorf("a sequence of a box that is asked to stop: %+v", a)
			}
			if code := b.exitCode(); code != 0 {
				t.Errorf("exit code %d\n%s", code, b.output())
			}
			r.again(i)
		}
		counts := stop()
		wantEach(t, counts, 1)
		t.Log(counts)
	})
}

// sequenceAt begins sequences until one is at a replica.
func (r *replicas) sequenceAt(t *testing.T, first int, name string) int {
	t.Helper()
	for id := first; id < first+200; id++ {
		if a := r.inSequence(t, id, true, false); a.status != http.StatusOK {
			t.Fatal(a)
		} else if a.box == name {
			return id
		}
		r.inSequence(t, id, false, true)
	}
	t.Fatalf("no sequence is sent to %s", name)
	return 0
}

// TestReplicasThatCannotAnswer has a replica that loads for ever, one that refuses every request, and a proxy that stands still.
func TestReplicasThatCannotAnswer(t *testing.T) {
	r := &replicas{}
	b := serveReady(t, t.TempDir(), r.arguments()...)
	b.upload("slow", "", rowOf(onnxgen.Slow(slowWork/10)))
	seen := make(chan string, 1)
	fake := func(ready, infer int) haproxy.Box {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			if strings.HasPrefix(req.URL.Path, "/v2/health/") {
				w.WriteHeader(ready)
				return
			}
			select {
			case seen <- strings.Join(req.Header.Values("X-Forwarded-For"), ", "):
			default:
			}
			w.WriteHeader(infer)
			_ = json.NewEncoder(w).Encode(kserve.ErrorBody{Error: "the queue is full"})
		})}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { _ = s.Close() })
		return haproxy.Box{REST: l.Addr().String(), GRPC: l.Addr().String()}
	}
	loading, busy := fake(http.StatusBadRequest, http.StatusTeapot), fake(http.StatusOK, http.StatusServiceUnavailable)
	r.proxied(t, [3]haproxy.Box{{REST: b.address, GRPC: b.grpc}, loading, busy}, [3]string{"UP", "NOLB", "UP"})
	infer := func() handled {
		a, err := ask(http.DefaultClient, http.MethodPost, r.url+"/v2/models/slow/infer", sixteenZeros, "X-Forwarded-For", "198.51.100.7")
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for range 20 {
		if a := infer(); a.status != http.StatusOK || a.box != "box1" {
			t.Errorf("%+v", a)
		}
	}
	if from := <-seen; from != "198.51.100.7, 127.0.0.1" {
		t.Errorf("a box is told that requests are from %q", from)
	}
	a, err := ask(http.DefaultClient, http.MethodPost, r.url+"/v2/models/slow/infer", sixteenZeros, kserve.HeaderSequence, "1")
	if err != nil || a.status != http.StatusOK && a.status != http.StatusServiceUnavailable {
		t.Errorf("a sequence: %+v %v", a, err)
	}
	answers := make(chan handled)
	started := b.started("slow")
	go func() { answers <- infer() }()
	await(t, "the request at the box", func() bool { return b.started("slow") > started })
	if err := r.proxy.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the run", func() bool { return b.series("slow", "nv_inference_pending_request_count") == 0 })
	if err := r.proxy.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if a := <-answers; a.status != http.StatusOK {
		t.Errorf("after the proxy has stood still: %+v", a)
	}
}
