package e2e

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// residentMemory returns a line of /proc/PID/status that counts memory, in bytes.
func (b *box) residentMemory(key string) int64 {
	b.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.cmd.Process.Pid))
	if err != nil {
		b.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), key+":")
	n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		b.t.Fatal(err)
	}
	return n << 10
}

// TestExpandedBodiesGiveTheirMemoryBack sends 16 bodies at once of 62 KB and less that stand for up to 63 MB each: what
// they take stays near http.max_inflight_bytes or grpc.max_inflight_bytes, and goes when they have.
func TestExpandedBodiesGiveTheirMemoryBack(t *testing.T) {
	const service = "/inference.GRPCInferenceService/"
	const bound, own = 256 << 20, 128 << 20 // in flight, and of a box that does nothing
	methods := []string{"ModelInfer", "ModelStreamInfer", "RepositoryModelLoad", "ModelMetadata"}
	for name, send := range map[string]func(b *box, i int, body string) (*http.Response, error){
		"REST": sendEncoded,
		"gRPC": func(b *box, i int, body string) (*http.Response, error) {
			return sendMessage(b, service+methods[i%len(methods)], body)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := serveReady(t, t.TempDir(), "--set", fmt.Sprint("http.max_inflight_bytes=", bound), "--set", "http.max_body_bytes=64MiB",
				"--set", fmt.Sprint("grpc.max_inflight_bytes=", bound), "--set", "grpc.max_message_bytes=64MiB")
			for _, size := range []int{63 << 20, 15 << 20} {
				body := gzipped(t, size)
				var work sync.WaitGroup
				for i := range 16 {
					work.Go(func() {
						res, err := send(b, i, body)
						if err != nil {
							t.Error(err)
							return
						}
						_, _ = io.Copy(io.Discard, res.Body)
						_ = res.Body.Close()
					})
				}
				work.Wait()
			}
			most := b.residentMemory("VmHWM")
			if t.Logf("the box took %d MiB", most>>20); most > own+bound*3/2 {
				t.Error("that is more than one and a half times the bound")
			}
			await(t, "the end of what the bodies took", func() bool { return b.residentMemory("VmRSS") < own+64<<20 })
			b.stop()
		})
	}
}

// sendEncoded sends the body of an inference over REST.
func sendEncoded(b *box, _ int, body string) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodPost, b.url+"/v2/models/none/infer", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Encoding", "gzip")
	return http.DefaultClient.Do(req)
}

// sendMessage sends a compressed message over gRPC, as it is: a client of the library would make and compress it
// first.
func sendMessage(b *box, method, message string) (*http.Response, error) {
	frame := append([]byte{1}, binary.BigEndian.AppendUint32(nil, uint32(len(message)))...)
	req, err := http.NewRequest(http.MethodPost, "http://"+b.grpc+method, strings.NewReader(string(frame)+message))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	req.Header.Set("Grpc-Encoding", "gzip")
	transport := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return transport.RoundTrip(req)
}
