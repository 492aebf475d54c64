package fault

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store"
	"github.com/edgewise-ai/edgewise/test/hostile"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// bombs are modules that kept a server compiling for minutes, or took all its memory; the last one is within every
// limit and takes more memory than a compiler gets.
var bombs = []string{
	"blocks-in-a-row-times-locals", "loops-in-a-row-times-locals", "ifs-times-locals", "branch-tables",
	"branch-tables-times-results", "branches-out-of-nested-loops", "functions-times-parameters",
}

// maxServer bounds the memory of the server, beside its models, while modules are uploaded that would take
// gigabytes to compile.
const maxServer = 1 << 30

// TestModulesThatAreHardToCompileHurtNobody uploads bombs to the real server while a model answers: all are
// refused, or accepted when a compiler manages; the model goes on; the server stays small. Then the server starts
// with each of them stored, as an older one would have left them: it compiles none for long, and the model answers.
func TestModulesThatAreHardToCompileHurtNobody(t *testing.T) {
	dir := t.TempDir()
	b := startBox(t, dir)
	b.push(t, "victim", "model.onnx", onnxgen.MLP(1).Bytes())
	stop := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() { t.Logf("%d answers of the model beside them", b.askUntil(t, stop)) })
	for _, bomb := range chosenBombs(t) {
		if err := b.tryPush(t, bomb.Name, bomb.Make()); err != nil && edgewise.KindOf(err) != edgewise.TooLarge {
			t.Errorf("%s: %v", bomb.Name, err)
		} else {
			t.Logf("%s: %v", bomb.Name, err)
		}
	}
	close(stop)
	load.Wait()
	b.wantSmall(t)
	b.kill()

	storeBombs(t, dir)
	b = startBox(t, dir)
	b.awaitState(t, "victim", "READY")
	if err := b.askVictim(t.Context()); err != nil {
		t.Errorf("after a start with bombs in the store: %v", err)
	}
	b.wantSmall(t)
	if strings.Contains(b.output.String(), "safe start") {
		t.Errorf("it came to a safe start:\n%s", &b.output)
	}
}

func chosenBombs(t *testing.T) (list []hostile.Bomb) {
	t.Helper()
	for _, bomb := range hostile.Bombs() {
		for _, name := range bombs {
			if bomb.Name == name {
				list = append(list, bomb)
			}
		}
	}
	if len(list) != len(bombs) {
		t.Fatalf("%d of %d bombs exist", len(list), len(bombs))
	}
	return list
}

func (b *box) askVictim(ctx context.Context) error {
	in := edgewise.Tensor{Name: "input", Type: edgewise.FP32, Shape: edgewise.Shape{1, 64}, Data: make([]byte, 256)}
	r, err := b.client.Infer(ctx, &edgewise.Request{Model: edgewise.ModelID{Name: "victim"}, Inputs: []edgewise.Tensor{in}})
	if err == nil {
		r.Release()
	}
	return err
}

// askUntil asks the model beside them, a few hundred times a second: as often as can be would take a core from the box. It
// returns how many answers came.
func (b *box) askUntil(t *testing.T, stop <-chan struct{}) (answers int) {
	pace := time.NewTicker(3 * time.Millisecond)
	defer pace.Stop()
	for ; ; answers++ {
		select {
		case <-stop:
			return answers
		case <-pace.C:
		}
		if err := b.askVictim(t.Context()); err != nil {
			t.Errorf("the model beside them, after %d answers: %v", answers, err)
			return answers
		}
	}
}

func (b *box) tryPush(t *testing.T, name string, module []byte) error {
	t.Helper()
	files := []struct {
		name    string
		content []byte
	}{{"model.wasm", module}, {"config.pbtxt", []byte(bombConfig)}}
	up := edgewise.Upload{Model: name, Size: -1, Next: func() (string, int64, io.Reader, error) {
		if len(files) == 0 {
			return "", 0, nil, io.EOF
		}
		f := files[0]
		files = files[1:]
		return f.name, int64(len(f.content)), bytes.NewReader(f.content), nil
	}}
	_, err := b.client.Push(t.Context(), up, true, nil)
	return err
}

// bombConfig declares what bombs do not describe.
const bombConfig = `backend: "wasm" platform: "wasm"
input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }`

// storeBombs stores bombs and makes them live, while no server runs.
func storeBombs(t *testing.T, dir string) {
	t.Helper()
	s, err := store.Open(dir, store.Options{MaxVersionBytes: 1 << 30, MaxFiles: 10, MaxUploads: 1, SnapshotEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, bomb := range chosenBombs(t) {
		g, err := s.Begin(t.Context(), -1)
		if err != nil {
			t.Fatal(err)
		}
		module := bomb.Make()
		if _, err := g.Add(t.Context(), "model.wasm", int64(len(module)), bytes.NewReader(module)); err != nil {
			t.Fatal(err)
		}
		name := "stored-" + bomb.Name
		spec := edgewise.Shape{-1}
		m := &edgewise.Model{
			Name: name, Platform: "wasm", Backend: "wasm", InstanceGroup: []edgewise.InstanceGroup{{Count: 1}},
			Input:  []edgewise.ModelInput{{Name: "x", DataType: edgewise.FP32, Dims: spec}},
			Output: []edgewise.ModelOutput{{Name: "x", DataType: edgewise.FP32, Dims: spec}},
		}
		v, err := s.Put(t.Context(), g, edgewise.Version{ID: edgewise.ModelID{Name: name}, Model: m, Origin: "fault"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.SetLabel(t.Context(), name, "live", v.ID.Version); err != nil {
			t.Fatal(err)
		}
		if err := s.SetWanted(t.Context(), name, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// wantSmall looks at the most memory that the server had.
func (b *box) wantSmall(t *testing.T) {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(b.cmd.Process.Pid), "status"))
	if err != nil {
		t.Fatalf("the server is gone: %v\n%s", err, &b.output)
	}
	found := peak.FindSubmatch(status)
	if found == nil {
		t.Fatalf("no peak in %s", status)
	}
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil || kib<<10 > maxServer {
		t.Errorf("the server has had %d MiB of memory: at most %d are allowed: %v", kib>>10, maxServer>>20, err)
	}
	t.Logf("the server has had %d MiB of memory at most", kib>>10)
}
