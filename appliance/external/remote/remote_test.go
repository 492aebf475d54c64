package remote

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

func TestOnlyAddressesOfThisMachineAreTaken(t *testing.T) {
	for text, problem := range map[string]string{
		"unix:/run/x.sock": "", "grpc+unix:/run/x.sock": "", "http://127.0.0.1:9000": "", "http://[::1]:9000/": "",
		"http://localhost:9000": "", "grpc://127.0.0.1:9001": "", "grpc://127.3.2.1:1": "",
		"http://10.0.0.1:9000": "is not this machine", "http://0.0.0.0:9000": "is not this machine",
		"grpc://[fe80::1]:9": "is not this machine", "http://example.com:80": "is not this machine",
		"https://127.0.0.1:9000": "want unix:", "127.0.0.1:9000": "want unix:", "unix:run/x.sock": "from /",
		"http://127.0.0.1": "a port", "http://127.0.0.1:9000/v2": "a port", "": "want unix:",
		"unix:/" + strings.Repeat("x", 200): "at most 107 bytes",
	} {
		_, err := ParseAddress(text)
		if problem == "" && err != nil || problem != "" && (err == nil || !strings.Contains(err.Error(), problem)) {
			t.Errorf("%q: %v, want %q", text, err, problem)
		}
	}
}

func TestAServerOverAUnixSocketAnswers(t *testing.T) {
	path := socket(t)
	listen(t, path, newFake())
	got := ask(t.Context(), open(t, config(t, "unix:"+path), version()), 7)
	if got.err != nil || !got.last || len(got.outputs) != 1 || got.outputs[0].Data[0] != 7 {
		t.Errorf("%+v", got)
	}
}

func TestCallsThatMayGoTogetherDo(t *testing.T) {
	path, f := socket(t), newFake()
	listen(t, path, f)
	i := open(t, config(t, "unix:"+path), version())
	outs, calls := make([]chan outcome, 3), make([]*edgewise.Call, 3)
	for n := range calls {
		outs[n] = make(chan outcome, 1)
		calls[n] = call(t.Context(), byte(n+1), outs[n])
	}
	check := func(requests int32) {
		t.Helper()
		f.asked.Store(0)
		if err := i.Answer(t.Context(), calls); err != nil {
			t.Fatal(err)
		}
		for n, out := range outs {
			if got := <-out; got.err != nil || len(got.outputs) != 1 || got.outputs[0].Data[7] != byte(n+1) ||
				!got.outputs[0].Shape.Equal(edgewise.Shape{1, 2}) {
				t.Errorf("%d: %+v", n, got)
			}
		}
		if f.asked.Load() != requests {
			t.Errorf("%d requests, want %d", f.asked.Load(), requests)
		}
	}
	check(1)
	calls[1].Request.Parameters = map[string]any{"a": "b"}
	check(3)
	calls[1].Request.Parameters = nil
	refuses := func(w http.ResponseWriter, r *http.Request) { // it refuses batches
		req, err := read(r)
		if err != nil || req.Inputs[0].Shape[0] > 1 {
			http.Error(w, `{"error":"no batches"}`, http.StatusBadRequest)
			return
		}
		out := req.Inputs[0]
		out.Name = "y"
		respond(w, out)
	}
	f.set(func(f *fake) { f.infer = refuses })
	check(4)
}

func TestTextsAreSplitByTheirRows(t *testing.T) {
	path, f := socket(t), newFake()
	f.metadata = strings.ReplaceAll(f.metadata, "FP32", "BYTES")
	listen(t, path, f)
	i := open(t, config(t, "unix:"+path), version(func(m *edgewise.Model) {
		m.Input[0].DataType, m.Output[0].DataType = edgewise.Bytes, edgewise.Bytes
	}))
	outs, calls := make([]chan outcome, 2), make([]*edgewise.Call, 2)
	for n := range calls {
		outs[n] = make(chan outcome, 1)
		calls[n] = call(t.Context(), 0, outs[n])
		data := edgewise.AppendElement(edgewise.AppendElement(nil, strings.Repeat("a", n)), fmt.Sprint("b", n))
		calls[n].Request.Inputs[0].Type, calls[n].Request.Inputs[0].Data = edgewise.Bytes, data
	}
	if err := i.Answer(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
	for n, out := range outs {
		if got := <-out; got.err != nil || string(got.outputs[0].Data) != string(calls[n].Request.Inputs[0].Data) {
			t.Errorf("%d: %+v", n, got)
		}
	}
	if f.asked.Load() != 1 {
		t.Errorf("%d requests", f.asked.Load())
	}
}

// TestALyingServerFailsTheRequest has a server that does not keep to the protocol, or to what it said of its model.
func TestALyingServerFailsTheRequest(t *testing.T) {
	number := []byte{0, 0, 0, 0, 0, 0, 0, 0}
	y := func(change func(*edgewise.Tensor)) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			out := edgewise.Tensor{Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{1, 2}, Data: number}
			change(&out)
			respond(w, out)
		}
	}
	text := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, test := range map[string]struct {
		infer http.HandlerFunc
		kind  edgewise.Kind
		want  string
	}{
		"another type": {y(func(t *edgewise.Tensor) { t.Type = edgewise.Int32 }), edgewise.Internal, "was described as FP32"},
		"another rank": {y(func(t *edgewise.Tensor) { t.Shape = edgewise.Shape{2} }), edgewise.Internal, "the shape [2]"},
		"too many rows": {
			y(func(t *edgewise.Tensor) { t.Shape, t.Data = edgewise.Shape{2, 2}, append(number, number...) }),
			edgewise.Internal, "2 rows",
		},
		"too few bytes":    {y(func(t *edgewise.Tensor) { t.Data = number[:4] }), edgewise.Internal, "cannot be used"},
		"too many bytes":   {y(func(t *edgewise.Tensor) { t.Data = append(number, 1) }), edgewise.Internal, "cannot be used"},
		"a negative shape": {y(func(t *edgewise.Tensor) { t.Shape = edgewise.Shape{1, -2} }), edgewise.Internal, "cannot be used"},
		"another name":     {y(func(t *edgewise.Tensor) { t.Name = "z" }), edgewise.Internal, `output "y" is missing`},
		"twice": {func(w http.ResponseWriter, _ *http.Request) {
			out := edgewise.Tensor{Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{1, 2}, Data: number}
			respond(w, out, out)
		}, edgewise.Internal, "twice"},
		"no JSON": {text(200, "hello"), edgewise.Internal, "cannot be used"},
		"nothing": {text(200, ""), edgewise.Internal, "cannot be used"},
		"a redirection": {
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://127.0.0.1:1/", 302) },
			edgewise.Internal, "302",
		},
		"a wrong request": {text(400, `{"error":"x is wrong"}`), edgewise.Invalid, "x is wrong"},
		"too large":       {text(413, `{"error":"x is large"}`), edgewise.TooLarge, "x is large"},
		"busy":            {text(503, `{"error":"the queue is full"}`), edgewise.Unavailable, "the queue is full"},
		"a fault":         {text(500, `{"error":"broken"}`), edgewise.Internal, "broken"},
		"a stranger":      {text(401, `{"error":"who is it"}`), edgewise.Unavailable, "who is it"},
		"a long error":    {text(400, `{"error":"`+strings.Repeat("x", 2<<20)+`"}`), edgewise.Invalid, "400 Bad Request"},
		"a large answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(1<<40))
			_, _ = w.Write(number)
		}, edgewise.Internal, "at most 1048576 are read"},
		"an answer without end": {func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, edgewise.Internal, "more than 1048576 bytes"},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"outputs":[`)
		}, edgewise.Unavailable, "EOF"},
		"it closes": {func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, edgewise.Unavailable, "EOF"},
		"a wrong length": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(kserve.HeaderLength, "9999")
			_, _ = io.WriteString(w, `{"outputs":[]}`)
		}, edgewise.Internal, "cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, f := socket(t), newFake()
			f.infer = test.infer
			listen(t, path, f)
			i := open(t, config(t, "unix:"+path), version())
			got := ask(t.Context(), i, 1)
			if got.err == nil || edgewise.KindOf(got.err) != test.kind || !strings.Contains(got.err.Error(), test.want) {
				t.Errorf("%v: %.300v, want %v: %s", edgewise.KindOf(got.err), got.err, test.kind, test.want)
			}
			f.set(func(f *fake) { f.infer = echo })
			until(t, "the next answer", func() bool { return ask(t.Context(), i, 2).err == nil })
		})
	}
}

func TestARequestThatIsCancelledLeavesItsServer(t *testing.T) {
	path, f, begun, left := socket(t), newFake(), make(chan struct{}), make(chan struct{})
	f.infer = func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the end of the connection is seen
		close(begun)
		<-r.Context().Done()
		close(left)
	}
	listen(t, path, f)
	i := open(t, config(t, "unix:"+path), version())
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if got := ask(ctx, i, 1); edgewise.KindOf(got.err) != edgewise.Canceled {
		t.Errorf("%+v", got)
	}
	<-left
	f.set(func(f *fake) { f.infer = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() } })
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if got := ask(ctx, i, 1); edgewise.KindOf(got.err) != edgewise.Deadline {
		t.Errorf("%+v", got)
	}
}

func TestRequestsAreRefusedWithTheReasonWhileTheServerIsGone(t *testing.T) {
	path, f := socket(t), newFake()
	i := open(t, config(t, "unix:"+path), version()) // nobody listens yet
	got := ask(t.Context(), i, 1)
	if edgewise.KindOf(got.err) != edgewise.Unavailable || !strings.Contains(got.err.Error(), "unix:"+path) {
		t.Errorf("%v", got.err)
	}
	for range 2 {
		end := listen(t, path, f)
		until(t, "an answer", func() bool { return ask(t.Context(), i, 1).err == nil })
		end()
		until(t, "a refusal", func() bool {
			err := i.Ready(t.Context())
			return err != nil && edgewise.KindOf(err) == edgewise.Unavailable
		})
	}
	f.set(func(f *fake) { f.metadata = strings.ReplaceAll(f.metadata, "FP32", "INT64") })
	listen(t, path, f)
	until(t, "the refusal of another signature", func() bool {
		err := i.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), "is FP32, and there INT64")
	})
}

func TestAServerThatHangsIsNotWaitedFor(t *testing.T) {
	path, f := socket(t), newFake()
	end := listen(t, path, f)
	i := open(t, config(t, "unix:"+path), version())
	end()
	l, err := net.Listen("unix", path) // takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	until(t, "a refusal", func() bool { return i.Ready(t.Context()) != nil })
	if got := ask(t.Context(), i, 1); edgewise.KindOf(got.err) != edgewise.Unavailable {
		t.Errorf("%v", got.err)
	}
}

func TestAnotherSignatureIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		model func(*edgewise.Model)
		want  string // "": it fits
	}{
		"as it is":        {func(*edgewise.Model) {}, ""},
		"smaller batches": {func(m *edgewise.Model) { m.MaxBatchSize = 2 }, ""},
		"any size":        {func(m *edgewise.Model) { m.Input[0].Dims = edgewise.Shape{-1} }, ""},
		"larger batches":  {func(m *edgewise.Model) { m.MaxBatchSize = 8 }, "max_batch_size is 8, and there it is 4"},
		"another type":    {func(m *edgewise.Model) { m.Input[0].DataType = edgewise.Int8 }, `input "x" is INT8, and there FP32`},
		"another size":    {func(m *edgewise.Model) { m.Output[0].Dims = edgewise.Shape{3} }, `output "y" has the shape [-1,3]`},
		"another name":    {func(m *edgewise.Model) { m.Input[0].Name = "z" }, `input "z" is not there`},
		"another output":  {func(m *edgewise.Model) { m.Output[0].Name = "z" }, `output "z" is not there`},
		"a decoupled model": {
			func(m *edgewise.Model) { m.ModelTransactionPolicy = &edgewise.ModelTransactionPolicy{Decoupled: true} },
			"decoupled",
		},
		"a model of another name": {
			func(m *edgewise.Model) {
				m.Parameters = map[string]edgewise.ModelParam{ModelParameter: {StringValue: "n"}}
			},
			"there is no such model",
		},
		"a wrong version": {
			func(m *edgewise.Model) {
				m.Parameters = map[string]edgewise.ModelParam{VersionParameter: {StringValue: "new"}}
			},
			"want a number above 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := socket(t)
			listen(t, path, newFake())
			s, err := New(config(t, "unix:"+path))
			if err != nil {
				t.Fatal(err)
			}
			v := version(test.model)
			_, described := s.Describe(t.Context(), v.Model)
			i, opened := s.Open(t.Context(), v)
			if i != nil {
				defer i.Close()
			}
			for _, err := range []error{described, opened} {
				if (test.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
			}
		})
	}
}

func TestAServerCompletesAConfiguration(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*fake)
		batch  int32
		want   string
		dims   edgewise.Shape
	}{
		"with its configuration": {func(*fake) {}, 4, "", edgewise.Shape{2}},
		"without":                {func(f *fake) { f.config = "" }, 0, "", edgewise.Shape{-1, 2}},
		"a type that there is not": {
			func(f *fake) { f.metadata = strings.ReplaceAll(f.metadata, "FP32", "FP8") }, 0, `unknown datatype "FP8"`, nil,
		},
		"a size below":              {func(f *fake) { f.metadata = strings.ReplaceAll(f.metadata, "-1", "-7") }, 0, "negative size", nil},
		"no JSON":                   {func(f *fake) { f.metadata = "<html>" }, 0, "cannot be used", nil},
		"a description without end": {func(f *fake) { f.metadata = strings.Repeat(" ", 2<<20) }, 0, "more than 1048576 bytes", nil},
		"a tensor twice": {func(f *fake) {
			f.metadata = `{"inputs":[{"name":"x","datatype":"FP32","shape":[1]},{"name":"x","datatype":"FP32","shape":[1]}]}`
		}, 0, "there twice", nil},
	} {
		t.Run(name, func(t *testing.T) {
			path, f := socket(t), newFake()
			test.change(f)
			listen(t, path, f)
			s, err := New(config(t, "unix:"+path))
			if err != nil {
				t.Fatal(err)
			}
			m, err := s.Describe(t.Context(), &edgewise.Model{Name: "m", MaxBatchSize: -1})
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
				return
			}
			if err != nil || m.MaxBatchSize != test.batch || len(m.Input) != 1 || !m.Input[0].Dims.Equal(test.dims) {
				t.Errorf("%+v, %v", m, err)
			}
		})
	}
}

func TestModelsAreLoadedAndUnloadedWhereThatIsAskedFor(t *testing.T) {
	path, f := socket(t), newFake()
	f.ready.Store(false)
	end := listen(t, path, f)
	c := config(t, "unix:"+path)
	c.Manage = true
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Open(t.Context(), version())
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Open(t.Context(), version())
	if err != nil {
		t.Fatal(err)
	}
	if f.loads.Load() != 1 || ask(t.Context(), a, 1).err != nil || ask(t.Context(), b, 1).err != nil {
		t.Fatalf("%d loads", f.loads.Load())
	}
	end() // the server starts again, and has loaded nothing
	f.ready.Store(false)
	listen(t, path, f)
	until(t, "the next load", f.ready.Load)
	_ = a.Close()
	if !f.ready.Load() {
		t.Error("it was unloaded while a version uses it")
	}
	_ = b.Close()
	if f.ready.Load() {
		t.Error("it was not unloaded")
	}
}
