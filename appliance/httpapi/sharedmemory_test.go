package httpapi_test

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// fakeShared is shared memory whose objects are in this process: each region begins as zeros.
type fakeShared struct {
	mu      sync.Mutex
	regions map[string]edgewise.Region
	bytes   map[string][]byte // by region
	open    int
}

// Allowed always does.
func (*fakeShared) Allowed() error { return nil }

func (f *fakeShared) Register(r edgewise.Region) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, taken := f.regions[r.Name]; taken {
		return edgewise.Errorf("fake", edgewise.Exists, "shared memory region '%s' already in manager", r.Name)
	}
	if f.regions == nil {
		f.regions, f.bytes = map[string]edgewise.Region{}, map[string][]byte{}
	}
	f.regions[r.Name], f.bytes[r.Name] = r, make([]byte, r.Size)
	return nil
}

func (f *fakeShared) Unregister(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name == "" {
		clear(f.regions)
	}
	delete(f.regions, name)
	return nil
}

func (f *fakeShared) Status(name string) ([]edgewise.Region, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name != "" {
		if r, ok := f.regions[name]; ok {
			return []edgewise.Region{r}, nil
		}
		return nil, edgewise.Errorf("fake", edgewise.NotFound, "Unable to find system shared memory region: '%s'", name)
	}
	return slices.SortedFunc(maps.Values(f.regions), func(a, b edgewise.Region) int {
		return cmp.Compare(a.Name, b.Name)
	}), nil
}

func (f *fakeShared) Open(name string, offset, size int64) (edgewise.Window, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, ok := f.bytes[name]
	if !ok {
		return nil, edgewise.Errorf("fake", edgewise.NotFound, "Unable to find system shared memory region: '%s'", name)
	}
	f.open++
	return &fakeWindow{f, data[offset : offset+size]}, nil
}

type fakeWindow struct {
	f    *fakeShared
	data []byte
}

func (w *fakeWindow) Size() int64          { return int64(len(w.data)) }
func (w *fakeWindow) Read(p []byte) error  { copy(p, w.data); return nil }
func (w *fakeWindow) Write(p []byte) error { copy(w.data, p); return nil }
func (w *fakeWindow) Close()               { w.f.mu.Lock(); w.f.open--; w.f.mu.Unlock() }

func TestSharedMemoryRoutes(t *testing.T) {
	ts := startServer(t, nil)
	const a = `{"name":"a","key":"/k","offset":8,"byte_size":16}`
	checkRoutes(t, ts, []routeCase{
		{"nothing", "GET", "/v2/systemsharedmemory/status", "", 200, "[]"},
		{"register", "POST", "/v2/systemsharedmemory/region/a/register", `{"key":"/k","offset":8,"byte_size":16}`, 200, ""},
		{"register without offset", "POST", "/v2/systemsharedmemory/region/b/register", `{"key":"k","byte_size":4}`, 200, ""},
		{
			"all", "GET", "/v2/systemsharedmemory/status", "", 200,
			"[" + a + `,{"name":"b","key":"k","offset":0,"byte_size":4}]`,
		},
		{"one", "GET", "/v2/systemsharedmemory/region/a/status", "", 200, "[" + a + "]"},
		{
			"twice", "POST", "/v2/systemsharedmemory/region/a/register", `{"key":"k","byte_size":4}`, 400,
			`{"error":"shared memory region 'a' already in manager","code":"invalid"}`,
		},
		{
			"no key", "POST", "/v2/systemsharedmemory/region/c/register", `{"byte_size":4}`, 400,
			`{"error":"Shared memory register request has no 'key'","code":"invalid"}`,
		},
		{
			"no size", "POST", "/v2/systemsharedmemory/region/c/register", `{"key":"k"}`, 400,
			`{"error":"Shared memory register request has no 'byte_size'","code":"invalid"}`,
		},
		{
			"unknown", "GET", "/v2/systemsharedmemory/region/c/status", "", 404,
			`{"error":"Unable to find system shared memory region: 'c'","code":"not_found"}`,
		},
		{"unregister an unknown one", "POST", "/v2/systemsharedmemory/region/c/unregister", "", 200, ""},
		{"unregister one", "POST", "/v2/systemsharedmemory/region/b/unregister", "", 200, ""},
		{"one left", "GET", "/v2/systemsharedmemory/status", "", 200, "[" + a + "]"},
		{"unregister all", "POST", "/v2/systemsharedmemory/unregister", "", 200, ""},
		{"none left", "GET", "/v2/systemsharedmemory/status", "", 200, "[]"},
		{"device memory", "GET", "/v2/cudasharedmemory/status", "", 200, "[]"},
		{
			"device region", "GET", "/v2/cudasharedmemory/region/r/status", "", 404,
			`{"error":"Unable to find cuda shared memory region: 'r'","code":"not_found"}`,
		},
		{
			"registration without a name", "POST", "/v2/systemsharedmemory/register", "{}", 400,
			`{"error":"'region name' is necessary to register system shared memory region","code":"invalid"}`,
		},
		{
			"device registration without a name", "POST", "/v2/cudasharedmemory/register", "{}", 400,
			`{"error":"'region name' is necessary to register cuda shared memory region","code":"invalid"}`,
		},
		{
			"device registration", "POST", "/v2/cudasharedmemory/region/r/register", "{}", 400,
			`{"error":"failed to register CUDA shared memory region: 'r', GPUs not supported","code":"invalid"}`,
		},
		{"end of a device registration", "POST", "/v2/cudasharedmemory/region/r/unregister", "", 200, ""},
	})
}

func TestTensorsInSharedMemory(t *testing.T) {
	ts := startServer(t, nil)
	for _, r := range []edgewise.Region{{Name: "in", Size: 64}, {Name: "out", Size: 64}, {Name: "huge", Size: 16 << 20}} {
		if err := ts.shared.Register(r); err != nil {
			t.Fatal(err)
		}
	}
	copy(ts.shared.bytes["in"][16:], "sixteen bytes...")
	input := func(region string) string {
		return `"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"parameters":{"shared_memory_region":"` + region +
			`","shared_memory_offset":16,"shared_memory_byte_size":16}}]`
	}
	output := func(size string) string {
		return `"outputs":[{"name":"y","parameters":{"shared_memory_region":"out","shared_memory_offset":4,` +
			`"shared_memory_byte_size":` + size + `}}]`
	}
	const answer = `{"model_name":"echo","model_version":"3","outputs":[{"name":"y","datatype":"FP32","shape":[1,4]`
	tests := []struct {
		name, body, want string
		status           int
	}{
		{"both", "{" + input("in") + "," + output("16") + "}", answer + "}]}", 200},
		{"more room than needed", "{" + input("in") + "," + output("40") + "}", answer + "}]}", 200},
		{"the input alone", "{" + input("in") + "}", answer + `,"data":[`, 200},
		{"too little room", "{" + input("in") + "," + output("8") + "}", "shared memory size specified with the request " +
			"for output 'y' (8 bytes) should be at least 16 bytes to hold the results", 400},
		{"unknown region", "{" + input("nobody") + "}", "Unable to find system shared memory region: 'nobody'", 404},
		{
			"more than the box may hold",
			`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"parameters":{"shared_memory_region":"huge",` +
				`"shared_memory_byte_size":16000000}}]}`, "", 503,
		},
	}
	var open int // while the model runs
	ts.engine.hook = func(context.Context, *edgewise.Request) {
		ts.shared.mu.Lock()
		defer ts.shared.mu.Unlock()
		open = ts.shared.open
	}
	for _, test := range tests {
		clear(ts.shared.bytes["out"])
		open = 0
		res, body := ts.do(t, http.MethodPost, "/v2/models/echo/infer", test.body)
		if named := strings.Count(test.body, "shared_memory_region"); res.StatusCode == 200 && open != named {
			t.Errorf("%s: %d windows are open while the model runs, want those of all %d regions", test.name, open, named)
		}
		if res.StatusCode != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s: %d %s", test.name, res.StatusCode, body)
		}
		delivered := string(ts.shared.bytes["out"][4:20]) == "sixteen bytes..."
		if wanted := test.status == 200 && strings.Contains(test.body, `"outputs"`); delivered != wanted {
			t.Errorf("%s: delivered %v", test.name, delivered)
		}
		waitFor(t, func() bool { return ts.Memory().InUse() == 0 }) // the answer's memory goes back once it has left
		if ts.shared.open != 0 {
			t.Errorf("%s: %d windows are open", test.name, ts.shared.open)
		}
	}
}
