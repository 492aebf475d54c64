package client

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// serve returns a client of a server that answers every request with handler.
func serve(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := New(server.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestAStreamOfEventsIsReadToItsEnd(t *testing.T) {
	for _, test := range []struct {
		name, events string
		want         []string
		err          string
	}{
		{
			"two responses", "data: {\"model_name\":\"m\",\"error\":\"x\"}\n\ndata: {\"model_name\":\"m\"}\n\n",
			[]string{`{"model_name":"m","error":"x"}`, `{"model_name":"m"}`},
			"",
		},
		{"none", "", nil, ""},
		{"one that could not be made", "data: {\"model_name\":\"m\"}\n\ndata: {\"error\":\"no\",\"code\":\"guest\"}\n\n" +
			"data: {\"model_name\":\"m\",\"y\":1}\n\n", []string{`{"model_name":"m"}`, `{"model_name":"m","y":1}`}, "no"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.URL.Path != "/v2/models/m/generate_stream" || !strings.Contains(string(body), `"x":1}`) {
					t.Errorf("%s: %s", r.URL, body)
				}
				_, _ = io.WriteString(w, test.events)
			})
			req := &edgewise.Request{Model: edgewise.ModelID{Name: "m"}, Inputs: []edgewise.Tensor{
				{Name: "x", Type: edgewise.Uint8, Shape: edgewise.Shape{1}, Data: []byte{1}},
			}}
			var got []string
			err := c.GenerateStream(t.Context(), req, map[string]edgewise.Shape{"x": {1}}, func(event []byte) error {
				got = append(got, string(event))
				return nil
			})
			if (err == nil) != (test.err == "") || err != nil && err.Error() != test.err || !cmp.Equal(got, test.want) {
				t.Errorf("%q, %v", got, err)
			}
			enough := errors.New("enough")
			err = c.GenerateStream(t.Context(), req, map[string]edgewise.Shape{"x": {1}}, func([]byte) error { return enough })
			if len(test.want) > 0 && !errors.Is(err, enough) {
				t.Errorf("the reader's error is %v", err)
			}
		})
	}
}

func TestNewRefusesWhatIsNoBaseURL(t *testing.T) {
	for _, base := range []string{
		"", "localhost:8000", "ftp://box", "http://", "http://box/?a=b", "http://box/#x",
		"http://bo x", ":",
	} {
		if _, err := New(base); err == nil || edgewise.KindOf(err) != edgewise.Invalid {
			t.Errorf("New(%q) = %v, want an Invalid error", base, err)
		}
	}
}

func TestEachMethodAsksForItsRoute(t *testing.T) {
	id := edgewise.ModelID{Name: "cat", Version: 3}
	tests := []struct {
		name string
		want string // method, path and body
		call func(context.Context, *Client) error
	}{
		{"Live", "GET /v2/health/live ", func(ctx context.Context, c *Client) error { return c.Live(ctx) }},
		{"Ready", "GET /v2/health/ready ", func(ctx context.Context, c *Client) error { return c.Ready(ctx) }},
		{"ServerMetadata", "GET /v2 ", func(ctx context.Context, c *Client) error {
			_,
				err := c.ServerMetadata(ctx)
			return err
		}},
		{
			"ModelMetadata", "GET /v2/models/cat/versions/3 ",
			func(ctx context.Context, c *Client) error { _, err := c.ModelMetadata(ctx, id); return err },
		},
		{
			"ModelConfig", "GET /v2/models/cat/versions/3/config ",
			func(ctx context.Context, c *Client) error { _, err := c.ModelConfig(ctx, id); return err },
		},
		{
			"ModelReady", "GET /v2/models/cat/versions/3/ready ",
			func(ctx context.Context, c *Client) error { return c.ModelReady(ctx, id) },
		},
		{
			"Statistics", "GET /v2/models/cat/versions/3/stats ",
			func(ctx context.Context, c *Client) error { _, err := c.Statistics(ctx, id); return err },
		},
		{"Statistics of all", "GET /v2/models/stats ", func(ctx context.Context, c *Client) error {
			_, err := c.Statistics(ctx, edgewise.ModelID{})
			return err
		}},
		{
			"Load", "POST /v2/repository/models/cat/load ",
			func(ctx context.Context, c *Client) error { return c.Load(ctx, "cat") },
		},
		{
			"Unload", "POST /v2/repository/models/cat/unload ",
			func(ctx context.Context, c *Client) error { return c.Unload(ctx, "cat") },
		},
		{"Model", "GET /api/v1/models/cat ", func(ctx context.Context, c *Client) error {
			_,
				err := c.Model(ctx, "cat")
			return err
		}},
		{
			"Inspect", "GET /api/v1/models/cat/versions/3/inspection ",
			func(ctx context.Context, c *Client) error { _, err := c.Inspect(ctx, id); return err },
		},
		{"Promote", `PUT /api/v1/models/cat/labels/live {"version":3}`, func(ctx context.Context, c *Client) error {
			_, err := c.Promote(ctx, "cat", "live", 3)
			return err
		}},
		{
			"Rollback", `POST /api/v1/models/cat/rollback {"label":"live"}`,
			func(ctx context.Context, c *Client) error { _, err := c.Rollback(ctx, "cat", "live"); return err },
		},
		{
			"RemoveLabel", "DELETE /api/v1/models/cat/labels/blue ",
			func(ctx context.Context, c *Client) error { return c.RemoveLabel(ctx, "cat", "blue") },
		},
		{
			"DeleteVersion", "DELETE /api/v1/models/cat/versions/3 ",
			func(ctx context.Context, c *Client) error { return c.DeleteVersion(ctx, id) },
		},
		{"DeleteModel", "DELETE /api/v1/models/cat ", func(ctx context.Context, c *Client) error {
			return c.DeleteModel(ctx, "cat")
		}},
		{
			"a name that needs escaping", "GET /api/v1/models/a%2Fb%3Fc ",
			func(ctx context.Context, c *Client) error { _, err := c.Model(ctx, "a/b?c"); return err },
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got string
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = fmt.Sprintf("%s %s %s", r.Method, r.URL.EscapedPath(), body)
				_, _ = io.WriteString(w, "{}")
			})
			if err := test.call(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestListsAreRead(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v2/repository/index":
			_, _ = io.WriteString(w, `[{"name":"cat","version":"1","state":"READY"},{"name":"dog"}]`)
		case "/api/v1/models":
			_, _ = io.WriteString(w, `[{"name":"cat","wanted":true,"labels":[{"name":"live","version":2}],"versions":[]}]`)
		}
	})
	entries, err := c.Index(t.Context())
	if want := []kserve.IndexEntry{{Name: "cat", Version: "1", State: "READY"}, {Name: "dog"}}; err != nil ||
		!cmp.Equal(entries, want) {
		t.Errorf("Index = %v, %v, want %v", entries, err, want)
	}
	models, err := c.Models(t.Context())
	if err != nil || len(models) != 1 || models[0].Label("live") != 2 {
		t.Errorf("Models = %v, %v, want cat with live at version 2", models, err)
	}
}

func TestErrorsHaveTheKindOfTheBodyOrElseOfTheStatus(t *testing.T) {
	tests := []struct {
		name, body string
		status     int
		kind       edgewise.Kind
		text       string
	}{
		{
			"code in the body", `{"error":"queue is full","code":"busy","model":"cat","version":3}`, 503, edgewise.Busy,
			"queue is full",
		},
		{
			"error of another server", `{"error":"Request for unknown model: 'x' is not found"}`, 404, edgewise.NotFound,
			"Request for unknown model: 'x' is not found",
		},
		{"unknown code", `{"error":"boom","code":"surprise"}`, 507, edgewise.Exhausted, "boom"},
		{"no JSON", "<html>bad gateway</html>", 502, edgewise.Unavailable, "GET URL/v2/health/live: 502 Bad Gateway"},
		{"empty", "", 400, edgewise.Invalid, "GET URL/v2/health/live: 400 Bad Request"},
		{"broken server", "", 500, edgewise.Internal, "GET URL/v2/health/live: 500 Internal Server Error"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			err := c.Live(t.Context())
			if err == nil || edgewise.KindOf(err) != test.kind {
				t.Fatalf("got %v, want kind %v", err, test.kind)
			}
			if got := strings.Replace(err.Error(), c.base, "URL", 1); got != test.text {
				t.Errorf("got %q, want %q", got, test.text)
			}
		})
	}
}

func TestConnectionErrorsAreClassified(t *testing.T) {
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Live(ctx); edgewise.KindOf(err) != edgewise.Canceled {
		t.Errorf("canceled: got %v of kind %v", err, edgewise.KindOf(err))
	}
	caused, end := context.WithCancelCause(t.Context())
	end(errors.New("enough"))
	if err := c.Live(caused); edgewise.KindOf(err) != edgewise.Canceled || !strings.Contains(err.Error(), "enough") {
		t.Errorf("canceled with a cause: got %v of kind %v", err, edgewise.KindOf(err))
	}
	nobody, err := New("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := nobody.Live(t.Context()); edgewise.KindOf(err) != edgewise.Unavailable {
		t.Errorf("nobody listens: got %v of kind %v", err, edgewise.KindOf(err))
	}
}

func TestInferSendsAndReadsBothForms(t *testing.T) {
	decoder := kserve.NewDecoder(kserve.Limits{})
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		size := -1
		if value := r.Header.Get(kserve.HeaderLength); value != "" {
			size, _ = kserve.ParseHeaderLength(value, len(body))
		}
		req, err := decoder.Infer(edgewise.ModelID{Name: "echo", Version: 1}, body, size)
		if err != nil {
			w.WriteHeader(400)
			_ = json.NewEncoder(w).Encode(kserve.NewErrorBody(err))
			return
		}
		defer req.Release()
		answer, jsonSize, _ := kserve.AppendInferResponse(nil, req,
			&edgewise.Response{ID: req.ID, Model: req.Model, Outputs: req.Inputs})
		if jsonSize < len(answer) {
			w.Header().Set(kserve.HeaderLength, strconv.Itoa(jsonSize))
		}
		_, _ = w.Write(answer)
	})
	req := &edgewise.Request{
		ID: "7", Model: edgewise.ModelID{Name: "echo"},
		Inputs: []edgewise.Tensor{{
			Name: "x", Type: edgewise.Int32, Shape: edgewise.Shape{2},
			Data: []byte{1, 0, 0, 0, 255, 255, 255, 255},
		}},
	}
	want := &edgewise.Response{ID: "7", Model: edgewise.ModelID{Name: "echo", Version: 1}, Outputs: req.Inputs}
	for _, in := range []kserve.Form{kserve.JSON, kserve.Binary} {
		for _, out := range []kserve.Form{kserve.JSON, kserve.Binary} {
			got, err := c.InferAs(t.Context(), req, in, out)
			if err != nil {
				t.Fatalf("%v, %v: %v", in, out, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%v, %v: %s", in, out, diff)
			}
		}
	}
}

// store is a box that takes uploads.
type store struct {
	header http.Header
	length int64
	query  string
	files  []edgewise.File
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.header, s.length, s.query = r.Header, r.ContentLength, r.URL.RawQuery
	add := func(path string, body io.Reader) {
		sum := sha256.New()
		n, _ := io.Copy(sum, body)
		s.files = append(s.files, edgewise.File{
			Path: path, Size: n,
			Digest: edgewise.Digest(hex.EncodeToString(sum.Sum(nil))),
		})
	}
	if r.Header.Get("Content-Type") == "application/octet-stream" {
		add(r.URL.Query().Get("file"), r.Body)
	} else {
		archive := tar.NewReader(r.Body)
		for h, err := archive.Next(); err == nil; h, err = archive.Next() {
			add(h.Name, archive)
		}
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(admin.Version{Name: "cat", Version: 4, Files: s.files})
}

type part struct {
	path, body string
	size       int64
}

func uploadOf(size int64, parts ...part) edgewise.Upload {
	return edgewise.Upload{Model: "cat", Size: size, Next: func() (string, int64, io.Reader, error) {
		if len(parts) == 0 {
			return "", 0, nil, io.EOF
		}
		p := parts[0]
		parts = parts[1:]
		return p.path, p.size, strings.NewReader(p.body), nil
	}}
}

func TestPushSendsOneFileByItselfWithItsLength(t *testing.T) {
	s := &store{}
	c := serve(t, s.ServeHTTP)
	up := uploadOf(5, part{"net/model.onnx", "hello", 5})
	up.Version = 4
	var sent int64
	v, err := c.Push(t.Context(), up, true, func(n int64) { sent = n })
	if err != nil || v.Version != 4 {
		t.Fatalf("Push = %v, %v", v, err)
	}
	if s.length != 5 || s.query != "file=net%2Fmodel.onnx&promote=true&size=5&version=4" ||
		s.header.Get("Expect") != "100-continue" || sent != 5 {
		t.Errorf("length %d, query %q, Expect %q, progress %d", s.length, s.query, s.header.Get("Expect"), sent)
	}
}

func TestPushSendsSeveralFilesAsOneArchive(t *testing.T) {
	s := &store{}
	c := serve(t, s.ServeHTTP)
	big := strings.Repeat("w", 3<<20)
	var sent int64
	_, err := c.Push(t.Context(), uploadOf(-1, part{"model.onnx", "hello", 5}, part{"data/w", big, 3 << 20},
		part{"empty", "", 0}), false, func(n int64) { sent = n })
	if err != nil {
		t.Fatal(err)
	}
	if s.header.Get("Content-Type") != "application/x-tar" || s.query != "promote=false" || len(s.files) != 3 ||
		s.files[1].Path != "data/w" || s.files[1].Size != 3<<20 {
		t.Errorf("type %q, query %q, files %v", s.header.Get("Content-Type"), s.query, s.files)
	}
	if sent != 5+3<<20 {
		t.Errorf("progress ended at %d, want %d", sent, 5+3<<20)
	}
}

func TestPushReportsWhatIsWrongWithTheUpload(t *testing.T) {
	broken := edgewise.Errorf("disk.Read", edgewise.Corrupt, "bad sector")
	tests := []struct {
		name string
		up   edgewise.Upload
		kind edgewise.Kind
		text string
	}{
		{"no file", uploadOf(0), edgewise.Invalid, `model "cat": the upload has no file`},
		{
			"short file", uploadOf(9, part{"model.onnx", "hello", 9}), edgewise.Invalid,
			`file "model.onnx" does not have the 9 bytes that were declared`,
		},
		{
			"long file", uploadOf(4, part{"model.onnx", "hello", 4}), edgewise.Invalid,
			`file "model.onnx" does not have the 4 bytes that were declared`,
		},
		{
			"long file in an archive", uploadOf(-1, part{"model.onnx", "hello", 4}), edgewise.Invalid,
			`file "model.onnx" does not have the 4 bytes that were declared`,
		},
		{
			"size not declared", uploadOf(-1, part{"model.onnx", "hello", -1}), edgewise.Invalid,
			`file "model.onnx": its size must be declared to send it with others`,
		},
		{
			"more files than declared", uploadOf(5, part{"a", "hello", 5}, part{"b", "", 0}), edgewise.Invalid,
			`the upload declares the 5 bytes of "a" and has more files`,
		},
		{"unreadable file", edgewise.Upload{Model: "cat", Size: 9, Next: func() (string, int64, io.Reader, error) {
			return "model.onnx", 9, iotest.ErrReader(broken), nil
		}}, edgewise.Corrupt, "bad sector"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := serve(t, (&store{}).ServeHTTP)
			_, err := c.Push(t.Context(), test.up, true, nil)
			if err == nil || edgewise.KindOf(err) != test.kind || err.Error() != test.text {
				t.Errorf("got %v, want %v: %s", err, test.kind, test.text)
			}
		})
	}
}

func TestPushStopsWhenTheBoxRefuses(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"error":"version 4 exists","code":"exists"}`)
	})
	_, err := c.Push(t.Context(), uploadOf(16<<20, part{"model.onnx", strings.Repeat("x", 16<<20), 64 << 20}), true, nil)
	if err == nil || edgewise.KindOf(err) != edgewise.Exists || err.Error() != "version 4 exists" {
		t.Errorf("got %v, want the refusal of the box", err)
	}
}

func TestPushFindsOutThatAFileChangedOnTheWay(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = json.NewEncoder(w).Encode(admin.Version{
			Name: "cat", Version: 4,
			Files: []edgewise.File{{Path: "model.onnx", Digest: "beef"}},
		})
	})
	_, err := c.Push(t.Context(), uploadOf(5, part{"model.onnx", "hello", 5}), true, nil)
	var e *edgewise.Error
	if !errors.As(err, &e) || e.Kind != edgewise.Corrupt || e.Model != (edgewise.ModelID{Name: "cat", Version: 4}) {
		t.Errorf("got %v, want a Corrupt error about cat version 4", err)
	}
}

func TestAnswersOverTheBoundAreNotRead(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(MaxAnswer+1))
		w.WriteHeader(http.StatusOK)
	})
	_, err := c.Models(t.Context())
	if want := "the answer cannot be used: it has 1073741825 bytes, at most 1073741824 are read"; err == nil ||
		edgewise.KindOf(err) != edgewise.TooLarge || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
