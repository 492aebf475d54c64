package external

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
)

func TestABatchIsAnswered(t *testing.T) {
	c, _ := config(t, manifest(t, "reference"))
	i := load(t, c, version(false, 2))
	var batch []*edgewise.Call
	var calls []*asked
	for n := range 8 {
		a := ask(t, nil, byte(n), 0, 0, 0)
		calls, batch = append(calls, a), append(batch, a.Call)
	}
	for range 3 {
		if err := i.Answer(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		for n, a := range calls {
			got := next(t, a)
			if got.err != nil || !got.last || !bytes.Equal(got.outputs["Y"], []byte{byte(n), 0, 0, 0}) {
				t.Errorf("call %d: %+v", n, got)
			}
		}
	}
	if p, _ := i.Process(); p.PID == 0 || p.Resident == 0 || p.Crashes != 0 || p.Note != "the conformance model in Go" {
		t.Errorf("%+v", p)
	}
}

func TestAnErrorHasTheKindAndTheWordsOfTheModel(t *testing.T) {
	c, _ := config(t, manifest(t, "reference"))
	i := load(t, c, version(false, 1))
	got := send(t, i, ask(t, map[string]any{"do": "error", "message": "no such cat"}))
	if edgewise.KindOf(got.err) != edgewise.Invalid || !strings.HasSuffix(got.err.Error(), "no such cat") {
		t.Errorf("got %v", got.err)
	}
}

func TestAStreamWaitsForItsReader(t *testing.T) {
	c, _ := config(t, manifest(t, "reference"))
	i := load(t, c, version(true, 1))
	a := ask(t, map[string]any{"do": "many", "count": int64(10000)})
	if err := i.Answer(t.Context(), []*edgewise.Call{a.Call}); err != nil {
		t.Fatal(err)
	}
	for n := range 10000 {
		want := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(n)))
		if got := next(t, a); got.err != nil || got.last || !bytes.Equal(got.outputs["Y"], want) {
			t.Fatalf("response %d: %+v", n, got)
		}
	}
	if got := next(t, a); !got.last || got.err != nil || len(got.outputs) != 0 {
		t.Errorf("the end: %+v", got)
	}
}

func TestACancelledRequestEndsAtOnce(t *testing.T) {
	c, _ := config(t, manifest(t, "reference"))
	i := load(t, c, version(false, 1))
	a := ask(t, map[string]any{"do": "wait"})
	done := make(chan error, 1)
	go func() { done <- i.Answer(a.Context, []*edgewise.Call{a.Call}) }()
	a.cancel()
	if got := next(t, a); got.err != context.Canceled {
		t.Errorf("got %+v", got)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := send(t, i, ask(t, nil)); got.err != nil {
		t.Errorf("the next request: %v", got.err)
	}
	if p, _ := i.Process(); p.Crashes != 0 {
		t.Errorf("%d crashes", p.Crashes)
	}
}

func TestAProcessThatDiesIsStartedAgain(t *testing.T) {
	c, _ := config(t, manifest(t, "reference"))
	i := load(t, c, version(false, 1))
	p, _ := i.Process()
	open := ask(t, map[string]any{"do": "wait"})
	done := make(chan error, 1)
	go func() { done <- i.Answer(t.Context(), []*edgewise.Call{open.Call}) }()
	eventually(t, "a request in the process", func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		return len(i.idle) == 0
	})
	if err := unix.Kill(p.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := next(t, open); edgewise.KindOf(got.err) != edgewise.Unavailable ||
		!strings.Contains(got.err.Error(), "its process died (signal: killed)") {
		t.Errorf("got %+v", got)
	}
	eventually(t, "an answer", func() bool { return send(t, i, ask(t, nil)).err == nil })
	if now, _ := i.Process(); now.Crashes != 1 || now.PID == p.PID {
		t.Errorf("%+v", now)
	}
}

func TestASpareProcessIsThereWhenOneDies(t *testing.T) {
	m := manifest(t, "reference")
	m.Spare = true
	c, _ := config(t, m)
	loaded, err := New(c).Load(t.Context(), version(false, 1), t.TempDir(), edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	i := loaded.(*Instance)
	spare := func() *process {
		var p *process
		eventually(t, "a spare process", func() bool {
			i.mu.Lock()
			defer i.mu.Unlock()
			p = i.spare
			return p != nil
		})
		return p
	}
	for n := range uint64(2) {
		next, p := spare(), i.workers[0].current()
		p.Kill("a test")
		<-p.gone
		eventually(t, "an answer", func() bool { return send(t, i, ask(t, nil)).err == nil })
		if now, _ := i.Process(); now.PID != next.PID || now.Crashes != n+1 {
			t.Errorf("%+v, and the spare process was %d", now, next.PID)
		}
	}
	lost, p := spare(), i.workers[0].current()
	for _, p := range []*process{lost, p} { // then a third one begins
		p.Kill("a test")
		<-p.gone
	}
	eventually(t, "an answer", func() bool { return send(t, i, ask(t, nil)).err == nil })
	last := spare()
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(last.PID, 0); err == nil {
		t.Error("the spare process is still there")
	}
}

func TestTheOtherInstancesAnswerWhileOneIsStartedAgain(t *testing.T) {
	c, _ := config(t, manifest(t, "reference"))
	c.FirstBackOff = 1 << 40
	i := load(t, c, version(false, 2))
	for range 2 { // the second one finds no process that is gone
		if p := i.workers[0].current(); p != nil {
			p.Kill("a test")
			<-p.gone
		}
		for n := range 10 {
			if got := send(t, i, ask(t, nil)); got.err != nil {
				t.Fatalf("request %d: %v", n, got.err)
			}
		}
	}
}

func TestAProcessThatDiesTooOftenIsNotStartedAgain(t *testing.T) {
	c, _ := config(t, manifest(t, "reference"))
	i := load(t, c, version(false, 1))
	for {
		select {
		case <-i.Ended():
			p, _ := i.Process()
			if p.Crashes != 5 || !strings.Contains(p.Reason, "died 5 times") {
				t.Errorf("%+v", p)
			}
			if got := send(t, i, ask(t, nil)); edgewise.KindOf(got.err) != edgewise.Unavailable {
				t.Errorf("got %v", got.err)
			}
			return
		default:
			if p := i.workers[0].current(); p != nil {
				p.Kill("a test")
				<-p.gone
			}
		}
	}
}

// other answers for other models.
type other func(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error)

func (o other) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	return o(ctx, req)
}

func TestAModelAsksAnotherOne(t *testing.T) {
	c, _ := config(t, manifest(t, "reference"))
	suspended := 0
	c.Suspend = func(context.Context) func() {
		suspended++
		return func() { suspended-- }
	}
	c.Infer = other(func(_ context.Context, req *edgewise.Request) (*edgewise.Response, error) {
		if req.Model.Name == "missing" {
			return nil, edgewise.Errorf("test", edgewise.NotFound, "there is no %s", req.Model.Name)
		}
		if fmt.Sprint(req.Callers) != "[outer x]" || suspended != 1 {
			t.Errorf("callers %v, suspended %d", req.Callers, suspended)
		}
		out := req.Inputs[0]
		out.Name, out.Data = "Y", bytes.Repeat([]byte{9}, 4)
		return &edgewise.Response{Model: edgewise.ModelID{Name: "o", Version: 5}, Outputs: []edgewise.Tensor{out}}, nil
	})
	i := load(t, c, version(false, 1))
	a := ask(t, map[string]any{"do": "exec", "model": "o"})
	a.Request.Callers = []string{"outer"}
	if got := send(t, i, a); got.err != nil || !bytes.Equal(got.outputs["Y"], []byte{9, 9, 9, 9}) || suspended != 0 {
		t.Errorf("got %+v, suspended %d", got, suspended)
	}
	for name, want := range map[string]string{"missing": "there is no missing", "x": "in a circle"} {
		if got := send(t, i, ask(t, map[string]any{"do": "exec", "model": name})); got.err == nil ||
			!strings.Contains(got.err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, got.err, want)
		}
	}
}

func TestMetricsOfAModelAreKept(t *testing.T) {
	c, _ := config(t, manifest(t, "reference"))
	i := load(t, c, version(false, 2))
	for range 5 {
		if got := send(t, i, ask(t, map[string]any{"do": "metric"})); got.err != nil {
			t.Fatal(got.err)
		}
	}
	eventually(t, "five increments", func() bool {
		value := 0.0
		c.Metrics.Each(func(name, kind, _ string, series []Series) {
			if name != "conformance_total" || kind != "counter" || len(series) != 1 || series[0].Labels["model"] != "x" ||
				series[0].Labels["version"] != "3" {
				t.Errorf("%s %s %+v", name, kind, series)
				return
			}
			value = series[0].Value
		})
		return value == 10
	})
}

func TestALogLineCarriesModelAndVersion(t *testing.T) {
	c, log := config(t, manifest(t, "reference"))
	i := load(t, c, version(false, 1))
	if got := send(t, i, ask(t, map[string]any{"do": "log"})); got.err != nil {
		t.Fatal(got.err)
	}
	eventually(t, "the line", func() bool { return strings.Contains(log.String(), "level=INFO msg=conformance model=x version=3") })
}

func TestAnInspectionNamesTheBackendAndTheModelsFile(t *testing.T) {
	m := manifest(t, "reference")
	c, _ := config(t, m)
	complete := version(false, 1).Model
	complete.DefaultModelFilename = m.File
	complete.VersionPolicy, complete.Optimization = &edgewise.VersionPolicy{}, &edgewise.Optimization{}
	open := *complete
	open.Output = nil
	for what, model := range map[string]*edgewise.Model{"a complete configuration": complete, "an open one": &open} {
		i, err := New(c).Inspect(t.Context(), t.TempDir(), model)
		if err != nil || i.Backend != "fake" || i.File != "model.txt" {
			t.Errorf("%s: %+v %v", what, i, err)
		}
	}
}

func TestRequestsOfAnInstanceGoToItsProcess(t *testing.T) {
	c, _ := config(t, manifest(t, "reference"))
	i := load(t, c, version(false, 2))
	waits := ask(t, map[string]any{"do": "wait"})
	waits.Request.Instance = 2
	done := make(chan error, 2)
	go func() { done <- i.Answer(waits.Context, []*edgewise.Call{waits.Call}) }()
	eventually(t, "a request in the process", func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		return len(i.idle) == 1
	})
	behind := ask(t, nil)
	behind.Request.Instance = 2
	go func() { done <- i.Answer(behind.Context, []*edgewise.Call{behind.Call}) }()
	for range 20 { // the other process answers them all
		other := ask(t, nil)
		other.Request.Instance = 1
		if got := send(t, i, other); got.err != nil {
			t.Fatal(got.err)
		}
	}
	select {
	case got := <-behind.answers:
		t.Errorf("another process than its own answered a request: %+v", got)
	default:
	}
	waits.cancel()
	if got := next(t, behind); got.err != nil {
		t.Error(got.err)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestABodyIsReceivedInTheMemoryOfTheProcess(t *testing.T) {
	c, _ := config(t, manifest(t, "reference"))
	loaded, err := New(c).Load(t.Context(), version(false, 2), t.TempDir(), edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	i := loaded.(*Instance)
	for n := range byte(8) {
		data, free := i.AllocBody(4)
		copy(data, []byte{n, 0, 0, 0})
		a := ask(t, nil)
		a.Request.Inputs = []edgewise.Tensor{{Name: "X", Type: edgewise.FP32, Shape: edgewise.Shape{1}, Data: data}}
		if got := send(t, i, a); got.err != nil || !bytes.Equal(got.outputs["Y"], []byte{n, 0, 0, 0}) {
			t.Errorf("request %d: %+v", n, got)
		}
		free()
	}
	data, free := i.AllocBody(4)
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	data[0] = 1 // would fault
	free()
	if data, _ := i.AllocBody(4); data != nil {
		t.Error("memory of an instance that is closed")
	}
}

func TestACancelledRequestIsAnsweredWhenItsInputsAreReadNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, files, err := backend.Connect(1<<20, 1<<20, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			_ = f.Close()
		}
		p := &process{task: &task{manifest: &Manifest{Grace: time.Hour}}, client: client}
		l := &lending{sent: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		answered := false
		call := &edgewise.Call{Context: ctx, Request: &edgewise.Request{}}
		call.Answer = func(*edgewise.Result, bool, error) error { answered = true; return nil }
		p.open(call, l)
		cancel()
		if synctest.Wait(); answered {
			t.Error("it was answered while its inputs may be copied: their memory is another request's now")
		}
		close(l.sent)
		if synctest.Wait(); !answered {
			t.Error("it was not answered")
		}
		client.End(context.Canceled)
	})
}
