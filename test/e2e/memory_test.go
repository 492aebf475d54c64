package e2e

import (
	"bytes"
	"fmt"
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

// TestExpandedBodiesGiveTheirMemoryBack sends 16 bodies at once of 250 KB and less that stand for up to 255 MB each: what they take stays
// near http.max_inflight_bytes, 1 GiB, and goes when they have.
func TestExpandedBodiesGiveTheirMemoryBack(t *testing.T) {
	b := serveReady(t, t.TempDir())
	for _, size := range []int{255 << 20, 63 << 20} {
		body := gzipped(t, size)
		var work sync.WaitGroup
		for range 16 {
			work.Go(func() {
				req, err := http.NewRequest(http.MethodPost, b.url+"/v2/models/none/infer", bytes.NewReader([]byte(body)))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Encoding", "gzip")
				if res, err := http.DefaultClient.Do(req); err == nil {
					_ = res.Body.Close()
				}
			})
		}
		work.Wait()
	}
	if most := b.residentMemory("VmHWM"); most > 2<<30 {
		t.Errorf("the box took %d MiB", most>>20)
	}
	await(t, "the end of what the bodies took", func() bool { return b.residentMemory("VmRSS") < 400<<20 })
	b.stop()
}
