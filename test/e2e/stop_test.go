package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// slowWork is in billions of operations: some 100 ms, and four times that with all callers.
const slowWork = 24.0

// sixteen and sixteenZeros are requests of the slow model.
var sixteen, sixteenZeros = sixteenOf("1"), sixteenOf("0")

func sixteenOf(value string) string {
	return `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,16],"data":[` +
		strings.TrimSuffix(strings.Repeat(value+",", 16), ",") + `]}]}`
}

// call is what became of one request.
type call struct {
	number  int64 // in the order in which the requests of all callers were sent, from 1
	ended   time.Time
	status  int  // of the answer; 0: there was none
	partial bool // the answer was cut in the middle
	err     error
}

func TestStopAnswersEveryRequestItTook(t *testing.T) {
	dir := t.TempDir()
	b := serveReady(t, dir)
	slow := onnxgen.Slow(slowWork)
	slow.Graph.Inputs[0].Dims, slow.Graph.Outputs[0].Dims = onnxgen.Dims(1, 16), onnxgen.Dims(1, 16) // a run for each request
	b.upload("slow", "", slow)
	calls, sent := make(chan call, 1<<16), &atomic.Int64{}
	var work sync.WaitGroup
	for range callers {
		work.Go(func() { callUntilRefused(b.address, sent, calls) })
	}
	var held int64 // every request up to this number is in the queue, runs or is answered
	await(t, "requests that are queued", func() bool {
		held = sent.Load()
		return held > 2*callers && b.taken("slow") == held && sent.Load() == held
	})
	stopped := time.Now()
	b.terminate()
	if code := b.exitCode(); code != 0 {
		t.Errorf("exit code %d, want 0\n%s", code, b.output())
	}
	work.Wait()
	close(calls)
	answered, inFlight := 0, 0
	for c := range calls {
		switch taken := c.number <= held; {
		case c.partial:
			t.Errorf("an answer was cut in the middle: %v", c.err)
		case c.status == http.StatusOK:
			answered++
			if taken && c.ended.After(stopped) {
				inFlight++
			}
		case c.status != 0 && c.status != http.StatusServiceUnavailable:
			t.Errorf("answer %d, want 200, or 503 after the signal", c.status)
		case taken:
			t.Errorf("request %d of %d that were taken before the signal was not answered: %d %v", c.number, held, c.status, c.err)
		}
	}
	t.Logf("%d answered, %d of them in flight when the signal came", answered, inFlight)
	if answered < 2*callers || inFlight == 0 {
		t.Errorf("nothing was tried: %d requests were answered, %d of them in flight when the signal came", answered, inFlight)
	}
	contains(t, "log", b.output(), "stopped")
	wantHealthy(t, dir)
}

// started is how many batches of a model have left its queue: runs that have begun, or are about to.
func (b *box) started(model string) int64 { return b.series(model, "edgewise_batches_closed_total") }

// taken is how many requests of a model that does not batch are in its queue, run or are answered.
func (b *box) taken(model string) int64 {
	return b.series(model, "edgewise_batches_closed_total|nv_inference_pending_request_count")
}

// series is the sum of a model's series of some metrics.
func (b *box) series(model, names string) (sum int64) {
	b.t.Helper()
	_, page := b.send(http.MethodGet, "/metrics", nil)
	lines := regexp.MustCompile(`(?m)^(?:` + names + `)\{[^}]*model="` + model + `"[^}]*\} (\d+)$`)
	for _, match := range lines.FindAllStringSubmatch(page, -1) {
		n, err := strconv.ParseInt(match[1], 10, 64)
		if err != nil {
			b.t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// callUntilRefused sends one request after the other over one connection, and over a new one when it is closed, until
// nobody listens any more.
func callUntilRefused(address string, sent *atomic.Int64, calls chan<- call) {
	for {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		reader := bufio.NewReader(c)
		for done := false; !done; {
			var result call
			result, done = callOnce(c, reader, sent)
			result.ended = time.Now()
			calls <- result
		}
		_ = c.Close()
	}
}

// callOnce sends one request and reads its answer; done tells that the connection is used up.
func callOnce(c net.Conn, reader *bufio.Reader, sent *atomic.Int64) (result call, done bool) {
	result.number = sent.Add(1)
	if _, err := fmt.Fprintf(c, "POST /v2/models/slow/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
		len(sixteen), sixteen); err != nil {
		result.err = err
		return result, true
	}
	if _, err := reader.Peek(1); err != nil {
		result.err = err // closed before a byte of an answer
		return result, true
	}
	res, err := http.ReadResponse(reader, nil)
	if err != nil {
		result.partial, result.err = true, err
		return result, true
	}
	result.status = res.StatusCode
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		result.partial, result.err = true, err
	}
	return result, res.Close || result.partial
}

func TestStopIsBoundedAndSaysWhatItCut(t *testing.T) {
	const stuckWork, grace = 20_000.0, 10 * time.Second // work for minutes
	b := serveReady(t, t.TempDir(), "--set", "shutdown.timeout=500ms")
	b.upload("slow", "", onnxgen.SlowOnZeros(stuckWork))
	lost := make(chan error, 1)
	go func() {
		res, err := http.Post(b.url+"/v2/models/slow/infer", mimeJSON, strings.NewReader(sixteenZeros))
		if err == nil {
			_ = res.Body.Close()
			err = fmt.Errorf("answered %s", res.Status)
		}
		lost <- err
	}()
	await(t, "the run", func() bool { return b.started("slow") == 1 })
	begun := time.Now()
	b.terminate()
	if code := b.exitCode(); code != 5 {
		t.Errorf("exit code %d, want 5: a request was cut off", code)
	}
	if took := time.Since(begun); took > 500*time.Millisecond+grace {
		t.Errorf("the stop took %v, want at most shutdown.timeout and %v", took, grace)
	} else {
		t.Logf("the stop took %v", took)
	}
	contains(t, "log", b.output(), "1 connections were cut off with a request in progress")
	if err := <-lost; err == nil || !(errors.Is(err, io.EOF) || strings.Contains(err.Error(), "reset") ||
		strings.Contains(err.Error(), "answered 5")) {
		t.Errorf("the client saw %v", err)
	}
}

// TestABoxThatIsToStopAnswersUntilItIsLeft asks a box to stop that gives load balancers an hour: it says at once that it
// is not ready, takes new connections, answers on them and ends them, and ends at the second signal.
func TestABoxThatIsToStopAnswersUntilItIsLeft(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir(), "--set", "shutdown.delay=1h")
	b.upload("cat", "", biased(1))
	b.terminate()
	await(t, "the box to be not ready", func() bool {
		status, _ := b.send(http.MethodGet, "/v2/health/ready", nil)
		return status == http.StatusBadRequest
	})
	if status, text := b.send(http.MethodGet, "/v2/health/live", nil); status != http.StatusOK {
		t.Errorf("live: %d %s", status, text)
	}
	b.wantBias("cat", "1", 1)
	res, err := http.Get(b.url + "/v2/models/cat")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if !res.Close {
		t.Error("an answer of a box that is to stop does not say that the connection ends")
	}
	b.stop()
}

func TestASecondBoxDoesNotOpenTheSameData(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data-in-use")
	b := serveReady(t, dir)
	refuses(t, 4, []string{"data-in-use"}, "serve", "--set", "metrics.address=", "--set", "http.address=127.0.0.1:0",
		"--set", "grpc.address=127.0.0.1:0", "--set", "data_dir="+dir)
	refuses(t, 4, []string{"data-in-use"}, "doctor", "--repair", "--set", "data_dir="+dir)
	b.upload("cat", "", biased(1))
	b.wantBias("cat", "1", 1)
}

func TestAPortInUseIsNamed(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	address := taken.Addr().String()
	want := "http.address: failed to start HTTP service: Unavailable - Socket '" + address + "' already in use: "
	refuses(t, 5, []string{want}, "serve", "--set", "metrics.address=", "--set",
		"grpc.address=", "--set", "http.address="+address, "--set", "data_dir="+t.TempDir())
}
