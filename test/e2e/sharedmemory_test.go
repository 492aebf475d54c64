package e2e

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// sharedObject makes a POSIX shared memory object of size bytes and returns its key and its file.
func sharedObject(t *testing.T, size int64) (key string, object *os.File) {
	t.Helper()
	object, err := os.CreateTemp("/dev/shm", "edgewise-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = object.Close()
		_ = os.Remove(object.Name())
	})
	if err := object.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return "/" + filepath.Base(object.Name()), object
}

func floats(values ...float32) (data []byte) {
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}

func TestTensorsTravelInSharedMemory(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir(), "--set", "shared_memory.enabled=true")
	if status, text := b.send(http.MethodPost, "/api/v1/models/cat/versions", biased(1).Bytes(), "Content-Type",
		mimeFile); status != http.StatusCreated {
		t.Fatalf("upload: %d %s", status, text)
	}
	key, object := sharedObject(t, 64)
	if _, err := object.WriteAt(floats(1, 2, 3, 4), 8); err != nil {
		t.Fatal(err)
	}
	const region = "/v2/systemsharedmemory/region/r"
	if status, text := b.send(http.MethodPost, region+"/register",
		fmt.Appendf(nil, `{"key":%q,"offset":8,"byte_size":48}`, key)); status != http.StatusOK {
		t.Fatalf("register: %d %s", status, text)
	}
	infer := []byte(`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],
  "parameters":{"shared_memory_region":"r","shared_memory_byte_size":16}}],
		"outputs":[{"name":"y","parameters":{"shared_memory_region":"r","shared_memory_offset":16,"shared_memory_byte_size":16}}]}`)
	status, text := b.send(http.MethodPost, "/v2/models/cat/infer", infer)
	if want := `{"model_name":"cat","model_version":"1","outputs":[{"name":"y","datatype":"FP32",` +
		`"shape":[1,4]}]}`; status != http.StatusOK || text != want {
		t.Fatalf("infer: %d %s", status, text)
	}
	got := make([]byte, 16)
	if _, err := object.ReadAt(got, 24); err != nil || string(got) != string(floats(2, 3, 4, 5)) {
		t.Errorf("the object holds %x, error %v", got, err)
	}
	if err := object.Truncate(4); err != nil { // a mapping would now kill the box
		t.Fatal(err)
	}
	status, text = b.send(http.MethodPost, "/v2/models/cat/infer", infer)
	if status != http.StatusBadRequest {
		t.Errorf("infer from an object that shrank: %d", status)
	}
	contains(t, "infer", text, "reading shared memory region 'r'", "smaller than the region")
	if status, text := b.send(http.MethodPost, "/v2/systemsharedmemory/unregister", nil); status != http.StatusOK {
		t.Errorf("unregister: %d %s", status, text)
	}
	status, text = b.send(http.MethodPost, "/v2/models/cat/infer", infer)
	if status != http.StatusNotFound {
		t.Errorf("infer from a region that is gone: %d %s", status, text)
	}
}

func TestSharedMemoryIsOffUnlessAllowed(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	key, _ := sharedObject(t, 64)
	status, text := b.send(http.MethodPost, "/v2/systemsharedmemory/region/r/register", fmt.Appendf(nil, `{"key":%q,"byte_size":48}`, key))
	if status != http.StatusNotImplemented {
		t.Errorf("register: %d", status)
	}
	contains(t, "register", text, "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.")
	if status, text := b.send(http.MethodGet, "/v2/systemsharedmemory/status", nil); status != http.StatusOK || text != "[]" {
		t.Errorf("status: %d %s", status, text)
	}
}
