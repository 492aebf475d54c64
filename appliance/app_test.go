package appliance

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/store"
	"github.com/edgewise-ai/edgewise/test/journal"
)

func testConfig(t *testing.T) config.Config {
	t.Helper()
	c := config.Default()
	c.Auth = config.AuthOpen
	c.DataDir, c.HTTP.Address, c.GRPC.Address, c.Metrics.Address, c.Store.ReserveBytes = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0", "", 0
	return c
}

func newApp(t *testing.T, c config.Config) (*App, *journal.Journal) {
	t.Helper()
	log := &journal.Journal{}
	a, err := New(c, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return a, log
}

// TestMain lets the test program be what the box starts itself as to look for the runtime.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == serving.CheckVerb {
		os.Exit(serving.CheckRuntime(os.Args[2], os.Stdout))
	}
	os.Exit(m.Run())
}

// wantFree fails the test while somebody holds the store of c.
func wantFree(t *testing.T, c config.Config) {
	t.Helper()
	s, err := store.Open(c.DataDir, store.Options{SnapshotEvery: -1})
	if err != nil {
		t.Errorf("the store is still held: %v", err)
		return
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestRunEndsAtOnceWhenItsContextHasEnded(t *testing.T) {
	c := testConfig(t)
	for range 20 {
		a, log := newApp(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var address net.Addr
		hooks := Hooks{
			Listening: func(at net.Addr) { address = at },
			Ready:     func() { t.Error("ready, though it was told to stop before") },
		}
		if err := a.Run(ctx, nil, hooks); err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
		if conn, err := net.Dial("tcp", address.String()); err == nil {
			_ = conn.Close()
			t.Fatal("the listener is still open")
		}
		wantFree(t, c)
	}
}

func TestAPortInUseClosesTheStore(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	c := testConfig(t)
	c.HTTP.Address = taken.Addr().String()
	a, _ := newApp(t, c)
	err = a.Run(t.Context(), nil, Hooks{})
	if err == nil || edgewise.KindOf(err) != edgewise.Unavailable || !strings.Contains(err.Error(), "http.address: ") {
		t.Errorf("Run: %v", err)
	}
	wantFree(t, c)
}

func TestAPortInUseClosesTheStoreOfGRPC(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	c := testConfig(t)
	c.GRPC.Address = taken.Addr().String()
	a, _ := newApp(t, c)
	err = a.Run(t.Context(), nil, Hooks{})
	if err == nil || edgewise.KindOf(err) != edgewise.Unavailable || !strings.Contains(err.Error(), "grpc.address: ") {
		t.Errorf("Run: %v", err)
	}
	wantFree(t, c)
}

func TestADoorThatCannotBeBuiltClosesTheStore(t *testing.T) {
	c := testConfig(t)
	c.HTTP.MaxConnections = -1
	if _, err := New(c, slog.New(slog.DiscardHandler)); err == nil || edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("New: %v", err)
	}
	wantFree(t, c)
}

func TestImportsThatFailAreLoggedAndDoNotStop(t *testing.T) {
	c := testConfig(t)
	a, log := newApp(t, c)
	folder := t.TempDir()
	for _, name := range []string{"bad", "worse"} {
		path := filepath.Join(folder, name, "1")
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "model.onnx"), []byte("not a model"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var address net.Addr
	status := 0
	hooks := Hooks{
		Listening: func(at net.Addr) { address = at },
		Ready: func() {
			defer stop()
			res, err := http.Get("http://" + address.String() + "/v2/health/ready")
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			status = res.StatusCode
		},
	}
	if err := a.Run(ctx, []string{filepath.Join(folder, "none"), folder}, hooks); err != nil {
		t.Errorf("Run: %v", err)
	}
	if status != http.StatusOK {
		t.Errorf("ready is answered with %d", status)
	}
	for _, want := range []string{"none", "model=bad version=1", "model=worse version=1"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not tell of %q:\n%s", want, log)
		}
	}
	wantFree(t, c)
}

func TestImportEndsWithItsContext(t *testing.T) {
	a, log := newApp(t, testConfig(t))
	defer func() { _ = a.store.Close() }()
	folder := t.TempDir()
	path := filepath.Join(folder, "bad", "1")
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "model.onnx"), []byte("not a model"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a.importer.ImportFolders(ctx, []string{folder})
	if strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("an import that nobody waits for any more is reported:\n%s", log)
	}
}
