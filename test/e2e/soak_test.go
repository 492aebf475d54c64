package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// soakTime is how long the soak lasts; "make soak" takes ten minutes.
var soakTime = flag.Duration("e2e.soak", 4*time.Second, "how long the soak keeps the box at full load")

// What the box may hold at rest after the load beyond what it held at rest after the first part of it.
const (
	soakParts       = 4 // pools and heaps find their size in the first one
	moreGoroutines  = 5
	idleWorkers     = 256      // of the REST server, which a short soak does not wait for
	moreDescriptors = 64       // blocks of shared memory that are kept for reuse: as many as there were answers on their way
	moreMemory      = 24 << 20 // a heap that is collected at twice its size
)

// soakRest is how long the box may take to come to rest: the REST server keeps idle workers for up to 20 seconds.
const soakRest = 40 * time.Second

// TestSoak keeps a box at full load for a while: clients that are answered, clients that give up, clients that are
// wrong, uploads that take over, uploads that are refused and instances that change. Between the parts it rests. What
// it holds at rest does not grow, and no request fails that should not.
func TestSoak(t *testing.T) {
	b := serveReady(t, t.TempDir(), "--set", "log.level=error")
	b.upload("cat", "?promote=true", biased(1))
	b.upload("slow", "?promote=true", onnxgen.Slow(0.2))
	b.upload("mlp", "?promote=true", onnxgen.MLP(1))
	b.upload("wide", "?promote=true", wide(1))
	s := &soak{box: b, live: 1}
	var first, last held
	for part := range soakParts {
		s.load(*soakTime / soakParts)
		last = s.rest()
		t.Logf("after part %d: %v; %v", part+1, last, s.counts())
		if part == 0 {
			first = last
		}
		if t.Failed() {
			break
		}
	}
	for deadline := time.Now().Add(soakRest); !last.flat(first) && time.Now().Before(deadline); last = s.rest() {
	}
	t.Logf("at the end: %v", last)
	if !last.flat(first) {
		t.Errorf("the box holds more at rest than before: first %v, last %v", first, last)
	}
	for i := range s.done {
		if s.done[i].Load() == 0 {
			t.Errorf("%s: nothing happened", soakKinds[i])
		}
	}
	b.stop()
}

// held is what a box holds at rest.
type held struct {
	goroutines, descriptors, children int
	memory, childMemory               int64
}

// flat tells whether it is no more than at first, but for what pools keep.
func (h held) flat(first held) bool {
	goroutines := first.goroutines + moreGoroutines
	if *soakTime < soakRest {
		goroutines += idleWorkers
	}
	return h.goroutines <= goroutines && h.descriptors <= first.descriptors+moreDescriptors &&
		h.memory <= first.memory+moreMemory && h.children == first.children && h.childMemory <= first.childMemory+moreMemory
}

// String lists the figures.
func (h held) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %.1f MiB; %d children with %.1f MiB", h.goroutines, h.descriptors,
		float64(h.memory)/(1<<20), h.children, float64(h.childMemory)/(1<<20))
}

// soak is the load.
type soak struct {
	box  *box
	live int64 // the version of cat that is live
	done [len(soakKinds)]atomic.Int64
}

// The kinds of events, in the order of soakKinds.
const (
	soakAnswered = iota
	soakCanceled
	soakTimedOut
	soakWrong
	soakSwapped
	soakRefused
)

var soakKinds = [...]string{"answered", "canceled", "timed out", "wrong", "swapped", "refused"}

func (s *soak) counts() string {
	var list []string
	for i, name := range soakKinds {
		list = append(list, fmt.Sprintf("%d %s", s.done[i].Load(), name))
	}
	return strings.Join(list, ", ")
}

// load runs every kind of client for a time.
func (s *soak) load(d time.Duration) {
	ctx, cancel := context.WithTimeout(s.box.t.Context(), d)
	defer cancel()
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport} // whose connections serve all kinds in turn
	same := repeating()                          // whose requests repeat their heads
	defer same.CloseIdleConnections()
	large := repeating()
	defer large.CloseIdleConnections()
	var work sync.WaitGroup
	many := func(n int, do func() error) {
		for range n {
			work.Go(func() {
				for ctx.Err() == nil && !s.box.t.Failed() {
					if err := do(); err != nil {
						s.box.t.Error(err)
					}
				}
			})
		}
	}
	mlp := ones("input", 64)
	many(4, func() error { return s.expect(client, "mlp", mlp, soakAnswered, http.StatusOK) })
	many(2, func() error { return s.askCat(client) })
	many(2, func() error { return s.askCat(same) })
	many(2, func() error { return s.askWide(large, float32(rand.IntN(1000))) })
	many(2, func() error { return s.giveUp(client) })
	many(2, func() error {
		return s.expect(client, "slow", strings.Replace(ones("x", 16), "{", `{"parameters":{"timeout":1000},`, 1),
			soakTimedOut, http.StatusServiceUnavailable, http.StatusOK)
	})
	many(1, func() error { return s.expect(client, "mlp", ones("input", 63), soakWrong, http.StatusBadRequest) })
	for ctx.Err() == nil && !s.box.t.Failed() {
		if err := s.swap(); err != nil {
			s.box.t.Error(err)
		}
	}
	work.Wait()
}

// ones is a request of one row.
func ones(input string, width int) string {
	return fmt.Sprintf(`{"inputs":[{"name":%q,"datatype":"FP32","shape":[1,%d],"data":[%s1]}]}`, input, width, strings.Repeat("1,", width-1))
}

// expect sends a request and counts its end, when it is the first status; the others are right, too.
func (s *soak) expect(client *http.Client, model, body string, kind int, statuses ...int) error {
	res, err := client.Post(s.box.url+"/v2/models/"+model+"/infer", mimeJSON, strings.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	for i, status := range statuses {
		if res.StatusCode == status {
			if i == 0 {
				s.done[kind].Add(1)
			}
			return nil
		}
	}
	return fmt.Errorf("%s: %d %s, want one of %v", model, res.StatusCode, text, statuses)
}

func (s *soak) askCat(client *http.Client) error {
	least := atomic.LoadInt64(&s.live)
	version, err := biasedVersion(client, s.box.url, "cat")
	if err == nil && version < least {
		err = fmt.Errorf("version %d answers although version %d was live before", version, least)
	}
	s.done[soakAnswered].Add(1)
	return err
}

func (s *soak) askWide(client *http.Client, number float32) error {
	_, err := askWide(client, s.box.url, number)
	s.done[soakAnswered].Add(1)
	return err
}

// giveUp hangs up on a request after a moment.
func (s *soak) giveUp(client *http.Client) error {
	ctx, cancel := context.WithTimeout(s.box.t.Context(), time.Duration(rand.IntN(8000))*time.Microsecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.box.url+"/v2/models/slow/infer", strings.NewReader(ones("x", 16)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", mimeJSON)
	res, err := client.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		s.done[soakCanceled].Add(1)
		return nil
	}
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.Body.Close()
}

// swap pushes a version to live and deletes the one before the last, has one refused, and changes the instances.
func (s *soak) swap() error {
	b, next := s.box, s.live+1
	b.upload("cat", "?promote=true", biased(float32(next)))
	atomic.StoreInt64(&s.live, next)
	s.done[soakSwapped].Add(1)
	b.instances("cat", int(next%3)+1)
	if next > 2 {
		if err := b.client.DeleteVersion(b.t.Context(), edgewise.ModelID{Name: "cat", Version: next - 2}); err != nil {
			return err
		}
	}
	if status, text := b.send(http.MethodPost, "/api/v1/models/broken/versions?promote=true", unloadable().Bytes(),
		"Content-Type", mimeFile); status != http.StatusBadRequest {
		return fmt.Errorf("a model that does not load: %d %s", status, text)
	}
	s.done[soakRefused].Add(1)
	if status, text := b.send(http.MethodDelete, "/api/v1/models/broken", nil); status != http.StatusNoContent && status != http.StatusOK {
		return fmt.Errorf("deleting it: %d %s", status, text)
	}
	return nil
}

// rest lets the box rest and returns the least it held within a second.
func (s *soak) rest() held {
	s.box.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	least := s.held()
	for range 10 {
		time.Sleep(100 * time.Millisecond)
		now := s.held()
		least = held{
			min(least.goroutines, now.goroutines), min(least.descriptors, now.descriptors), min(least.children, now.children),
			min(least.memory, now.memory), min(least.childMemory, now.childMemory),
		}
	}
	return least
}

// held reads the box's own figures, and those of its child processes from the system.
func (s *soak) held() held {
	s.box.t.Helper()
	_, page := s.box.send(http.MethodGet, "/metrics", nil)
	number := func(name string) float64 {
		_, rest, ok := strings.Cut(page, "\n"+name+" ")
		line, _, _ := strings.Cut(rest, "\n")
		v, err := strconv.ParseFloat(line, 64)
		if !ok || err != nil {
			s.box.t.Fatalf("no %s in\n%s", name, page)
		}
		return v
	}
	h := held{
		goroutines: int(number("go_goroutines")), descriptors: int(number("process_open_fds")),
		memory: int64(number("process_resident_memory_bytes")),
	}
	h.children, h.childMemory = childMemory(s.box.t, s.box.cmd.Process.Pid)
	return h
}

// childMemory returns how many child processes a process has, and their resident memory.
func childMemory(t *testing.T, pid int) (n int, memory int64) {
	t.Helper()
	for _, child := range childrenOf(t, pid) {
		fields := strings.Fields(readText(fmt.Sprintf("/proc/%d/statm", child)))
		if len(fields) < 2 {
			continue
		}
		pages, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		n, memory = n+1, memory+pages*int64(os.Getpagesize())
	}
	return n, memory
}

func readText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}
