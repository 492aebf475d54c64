package e2e

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// wideFloats is how many numbers a row of the model wide has: enough for memory of the model's process to be asked for
// them.
const wideFloats = 150_000

// wide makes y = x + bias, FP32 [batch,150000].
func wide(bias float32) *onnxgen.Model {
	m := biased(bias)
	m.Graph.Initializers[0] = onnxgen.Floats("bias", []int64{1}, bias)
	m.Graph.Inputs[0].Dims, m.Graph.Outputs[0].Dims = onnxgen.Batch(wideFloats), onnxgen.Batch(wideFloats)
	return m
}

// wideBody is a request of one row in which every number is the same, and the length of its JSON part.
func wideBody(number float32) (body []byte, jsonSize int) {
	text := fmt.Sprintf(`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,%d],`+
		`"parameters":{"binary_data_size":%d}}],"parameters":{"binary_data_output":true}}`, wideFloats, 4*wideFloats)
	row := binary.LittleEndian.AppendUint32(nil, math.Float32bits(number))
	return append([]byte(text), bytes.Repeat(row, wideFloats)...), len(text)
}

// wideVersion checks that every number of an answer is number more than the version that it names, and returns that.
func wideVersion(res *http.Response, number float32) (int64, error) {
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("answer %d %.200s: %w", res.StatusCode, text, err)
	}
	jsonSize, err := strconv.Atoi(res.Header.Get("Inference-Header-Content-Length"))
	if err != nil || len(text)-jsonSize != 4*wideFloats {
		return 0, fmt.Errorf("answer of %d bytes, of which %d are JSON: %w", len(text), jsonSize, err)
	}
	var a answer
	if err := json.Unmarshal(text[:jsonSize], &a); err != nil {
		return 0, err
	}
	version, err := strconv.ParseInt(a.Version, 10, 64)
	if err != nil {
		return 0, err
	}
	want := binary.LittleEndian.AppendUint32(nil, math.Float32bits(number+float32(version)))
	if !bytes.Equal(text[jsonSize:], bytes.Repeat(want, wideFloats)) {
		return 0, fmt.Errorf("the answer of version %d to %v is not of it alone", version, number)
	}
	return version, nil
}

// repeating makes a client whose connections bring the same head again and again, as long as all goes to one model: one
// that asks for compressed answers has its heads read each time.
func repeating() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
}

// askWide sends a row of one number to the model wide and returns which version answered, once the answer is right.
func askWide(client *http.Client, url string, number float32) (int64, error) {
	body, jsonSize := wideBody(number)
	req, err := http.NewRequest(http.MethodPost, url+"/v2/models/wide/infer", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Inference-Header-Content-Length", strconv.Itoa(jsonSize))
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return wideVersion(res, number)
}

// TestLargeTensorsUnderHotSwaps has clients that repeat their requests' heads, so that their tensors arrive in memory
// of the model's process, while versions come and go, and one client sends so slowly that the version which its tensors
// were meant for is gone when they are complete.
func TestLargeTensorsUnderHotSwaps(t *testing.T) {
	b := serveReady(t, t.TempDir(), "--set", "http.body_timeout=24h") // the slow client is as slow as the swaps
	b.upload("wide", "?promote=true", wide(1))
	slow := b.beginSlowly(t)
	var answers atomic.Int64
	stop := make(chan struct{})
	var work sync.WaitGroup
	for number := range 3 {
		work.Go(func() {
			client := repeating()
			defer client.CloseIdleConnections()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := askWide(client, b.url, float32(100*number)); err != nil {
					t.Error(err)
					return
				}
				answers.Add(1)
			}
		})
	}
	for v := 2; v <= *swaps; v++ {
		b.upload("wide", "?promote=true", wide(float32(v)))
		await(t, "an answer", func() func() bool { n := answers.Load(); return func() bool { return answers.Load() > n+5 } }())
	}
	if version, err := slow(); err != nil || version != int64(*swaps) {
		t.Errorf("the slow client: version %d, %v; want %d", version, err, *swaps)
	}
	close(stop)
	work.Wait()
	b.stop()
}

// beginSlowly sends two requests, and half of a third on the same connection; finish sends the rest and returns which
// version answered.
func (b *box) beginSlowly(t *testing.T) (finish func() (int64, error)) {
	t.Helper()
	body, jsonSize := wideBody(7)
	head := fmt.Sprintf("POST /v2/models/wide/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: "+
		"%d\r\nInference-Header-Content-Length: %d\r\n\r\n", len(body), jsonSize)
	c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	buffered := bufio.NewReader(c)
	read := func() (int64, error) {
		res, err := http.ReadResponse(buffered, nil)
		if err != nil {
			return 0, err
		}
		return wideVersion(res, 7)
	}
	for range 2 {
		_, _ = c.Write(append([]byte(head), body...))
		if _, err := read(); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = c.Write(append([]byte(head), body[:len(body)/2]...))
	return func() (int64, error) {
		_, _ = c.Write(body[len(body)/2:])
		return read()
	}
}
