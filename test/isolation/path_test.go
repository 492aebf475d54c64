package isolation

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/test/isolation/faulty"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// mostFunctions bounds the functions that a request goes through.
const mostFunctions = 35

// The places where a request waits, or is handed to another thread.
const (
	readBody = "appliance/httpapi.(*conn).Read"
	sent     = "appliance/runner.(*channel).receive"
	encoded  = "api/kserve.AppendInferResponse"
	written  = "appliance/httpapi.(*conn).Write"
)

// TestAnInferenceTakesTheListedFunctions follows a request to a model in a child process: at each place where it waits it
// looks at the stacks of the threads that have it. The functions on them are those that pass the request on; a function
// that returns before the request waits is a step of its caller, and does not count. They are those of the list in
// docs/architecture.md, in its order.
func TestAnInferenceTakesTheListedFunctions(t *testing.T) {
	log := pathLog{slog.DiscardHandler, &sync.Mutex{}, new([]string)}
	address, box := serve(t, slog.New(log))
	const elements = 4 << 20
	for name, model := range map[string]*onnxgen.Model{
		faulty.InPath: onnxgen.Slow(60), "twice": onnxgen.Twice(elements),
	} {
		if err := pushModel(t.Context(), box, name, model.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	reading, encoding, writing := atTheSocket(t, address.String(), elements)
	running := inTheRun(t, box)
	var child []string
	eventually(t, "the path in the child", func() bool {
		log.mu.Lock()
		defer log.mu.Unlock()
		child = *log.path
		return len(child) > 0
	})
	paths := [][]string{reading, running, child, encoding, writing}
	var got, threads []string
	for _, path := range paths[:4] { // the last begins in the HTTP library, which writes the answer of the first
		if !slices.Contains(threads, path[0]) {
			threads = append(threads, path[0])
		}
	}
	if len(threads) != 2 { // one hand-off on the way to the runtime and one back
		t.Errorf("the request was in the threads of %q, want 2", threads)
	}
	for _, path := range paths {
		for _, function := range path {
			if !slices.Contains(got, function) {
				got = append(got, function)
			}
		}
	}
	if want := listed(t); !slices.Equal(got, want) {
		t.Errorf("the request went through\n%s\nand docs/architecture.md lists\n%s", strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
	if len(got) > mostFunctions {
		t.Errorf("the request went through %d functions, at most %d are allowed", len(got), mostFunctions)
	}
}

// atTheSocket sends one large request and stops it while its body arrives and while its answer is written.
func atTheSocket(t *testing.T, address string, elements int) (reading, encoding, writing []string) {
	t.Helper()
	head := fmt.Sprintf(`{"inputs":[{"name":"input","datatype":"FP32","shape":[1,%d],"parameters":{"binary_data_size":%d}}]}`,
		elements, 4*elements)
	tensor := make([]byte, 4*elements)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(tensor)
	for i := 3; i < len(tensor); i += 4 {
		tensor[i] &= 0x3f // no infinities
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, err = fmt.Fprintf(c, "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"+
		"Inference-Header-Content-Length: %d\r\n\r\n%s%s", len(head)+len(tensor), len(head), head, tensor[:len(tensor)/2])
	if err != nil {
		t.Fatal(err)
	}
	const serve = "appliance/httpapi.(*Server).serve"
	reading = await(t, serve, readBody)
	if _, err := c.Write(tensor[len(tensor)/2:]); err != nil {
		t.Fatal(err)
	}
	encoding = await(t, serve, encoded)
	writing = await(t, written) // the answer is larger than the buffers of the socket, and is not read
	return reading, encoding, writing
}

// inTheRun sends a request to a model that computes for long, and returns the path of the thread that waits for it.
func inTheRun(t *testing.T, box *client.Client) []string {
	t.Helper()
	answered := make(chan error, 1)
	go func() {
		in := edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1, 16}, Data: make([]byte, 64)}
		r, err := box.Infer(t.Context(), &edgewise.Request{
			Model: edgewise.ModelID{Name: faulty.InPath}, Inputs: []edgewise.Tensor{in},
		})
		if err == nil {
			r.Release()
		}
		answered <- err
	}()
	path := await(t, sent)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	return path
}

// await waits until a request is in functions, and returns its path to the last of them.
func await(t *testing.T, through ...string) (path []string) {
	t.Helper()
	eventually(t, "a request in "+through[len(through)-1], func() bool {
		path = faulty.Path(through...)
		return path != nil
	})
	return path
}

// listed returns the functions of the list in docs/architecture.md.
func listed(t *testing.T) (list []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(real.Root(t), "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "### The functions of a request\n")
	_, after, _ = strings.Cut(after, "```\n")
	block, _, _ := strings.Cut(after, "```")
	for line := range strings.Lines(block) {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.Contains(name, ".") {
			list = append(list, name)
		}
	}
	return list
}

// pathLog keeps the path that a child names in its log.
type pathLog struct {
	slog.Handler
	mu   *sync.Mutex // guards path
	path *[]string
}

// Handle looks for the path.
func (l pathLog) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if text, ok := strings.CutPrefix(a.Value.String(), faulty.PathPrefix); ok {
			l.mu.Lock()
			defer l.mu.Unlock()
			*l.path = strings.Fields(text)
		}
		return true
	})
	return nil
}

// Enabled takes every level.
func (pathLog) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs returns l.
func (l pathLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup returns l.
func (l pathLog) WithGroup(string) slog.Handler { return l }
