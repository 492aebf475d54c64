//go:build cloud

package test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

// program is edgewise-fetch, run as the box runs it but for its confinement.
type program struct {
	*fetch.Client
	*exec.Cmd
	in io.WriteCloser
}

func startProgram(t *testing.T, env []string) *program {
	t.Helper()
	c := exec.Command(path(t, "bin/lib/edgewise-fetch"))
	c.Env = append([]string{"HOME=/nonexistent", "AWS_EC2_METADATA_DISABLED=true"}, env...)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	must(t, err)
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	p := &program{fetch.NewClient(in, bufio.NewReader(out)), c, in}
	t.Cleanup(p.end)
	return p
}

func (p *program) end() {
	_ = p.in.Close()
	_ = p.Wait()
}

// list lists a tree.
func (p *program) list(url string) (entries []fetch.Entry, err error) {
	err = p.Do(&fetch.Request{Command: fetch.List, URL: url}, func(r *fetch.Reply) error {
		entries = append(entries, r.Entries...)
		return nil
	})
	return entries, err
}

// get fetches files and returns how many bytes the network brought.
func (p *program) get(url, folder string, entries ...fetch.Entry) (received int64, err error) {
	for len(entries) > 0 && err == nil {
		n := min(len(entries), fetch.MaxPage)
		var failed error
		err = p.Do(&fetch.Request{Command: fetch.Get, URL: url, Folder: folder, Files: entries[:n]}, func(r *fetch.Reply) error {
			if r.File != nil {
				received += r.File.Received
			}
			if r.Failure != nil {
				failed = r.Failure
			}
			return nil
		})
		if failed != nil {
			err = failed
		}
		entries = entries[n:]
	}
	return received, err
}

// kind is that of a failure.
func kind(err error) string {
	if f, ok := errors.AsType[*fetch.Failure](err); ok {
		return f.Kind
	}
	return fmt.Sprint(err)
}

func eachStore(t *testing.T, run func(t *testing.T, s *store)) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) { run(t, open(t)) })
	}
}

// vad is a model of the demo.
func vad(t *testing.T) (config, model []byte) {
	t.Helper()
	var err error
	config, err = os.ReadFile(path(t, "dist/demo/models/vad/config.pbtxt"))
	must(t, err)
	model, err = os.ReadFile(path(t, "dist/demo/models/vad/1/model.onnx"))
	must(t, err)
	config = bytes.ReplaceAll(config, []byte("model_warmup"), []byte("#model_warmup"))
	if at := bytes.Index(config, []byte("#model_warmup")); at >= 0 {
		config = config[:at]
	}
	return config, model
}

// TestTritonsCommandLines starts a box with every form of URL, and does what an operator of Triton does.
func TestTritonsCommandLines(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		config, model := vad(t)
		s.put("models/vad/config.pbtxt", config)
		s.put("models/vad/1/model.onnx", model)
		s.put("models/other/1/model.onnx", []byte("this is no model"))
		for _, url := range s.urls {
			b := startBox(t, t.TempDir(), s.env, "--model-repository="+url, "--model-control-mode=explicit", "--load-model=vad")
			b.wantModel("vad", 200)
			if files := fetched(t, b); len(files) != 2 {
				t.Errorf("%s: %d files were fetched of a model of 2", url, len(files))
			}
			if status := b.status("POST", "/v2/repository/models/vad/unload"); status != 200 {
				t.Errorf("%s: unload: %d", url, status)
			}
			b.wantModel("vad", 400)
			if status := b.status("POST", "/v2/repository/models/vad/load"); status != 200 {
				t.Errorf("%s: load: %d", url, status)
			}
			b.wantModel("vad", 200)
			for _, secret := range []string{"thesecret", key} {
				if strings.Contains(b.said(), secret) {
					t.Errorf("%s: the log holds a secret", url)
				}
			}
			b.stop()
		}
	})
}

// fetched lists the files that a box has fetched.
func fetched(t *testing.T, b *edgewise) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(b.data, "remote", "*", "files", "*"))
	must(t, err)
	return files
}

// TestABoxFollowsABucket changes a bucket under a box that polls it, takes the store away, and starts the box again.
func TestABoxFollowsABucket(t *testing.T) {
	s := newS3(t)
	config, model := vad(t)
	s.put("models/vad/config.pbtxt", append(config, "\nversion_policy { all {} }\n"...))
	s.put("models/vad/1/model.onnx", model)
	between := startBetween(t, s.address)
	data, polled := t.TempDir(), []string{
		"--model-repository=s3://" + between.address + "/bucket/models", "--model-control-mode=poll", "--repository-poll-secs=1",
	}
	b := startBox(t, data, s.env, polled...)
	b.wantModel("vad", 200)
	before := between.bodies.Load()
	s.put("models/vad/2/model.onnx", model)
	b.wantModel("vad/versions/2", 200)
	if got := between.bodies.Load() - before; got != 0 {
		t.Errorf("%d bytes were fetched of a file that was there under another name", got)
	}
	property := []byte{0x72, 6, 0x0a, 1, 'k', 0x12, 1, 'v'} // one more makes another file of the same model
	s.put("models/vad/3/model.onnx", append(bytes.Clone(model), property...))
	b.wantModel("vad/versions/3", 200)
	if got := between.bodies.Load() - before; got < int64(len(model)) || got > int64(len(model))+4096 {
		t.Errorf("%d bytes were fetched of a changed file of %d", got, len(model)+3)
	}
	s.server.stop()
	eventually(t, "a line in the log about the store", func() bool { return strings.Contains(b.said(), "cannot be read") })
	b.wantModel("vad/versions/3", 200)
	b.stop()
	b = startBox(t, data, s.env, polled...)
	b.wantModel("vad/versions/3", 200)
	b.wantModel("vad/versions/1", 200)
	s.server.start(t)
	must(t, s.bucket.Delete(t.Context(), "models/vad/2/model.onnx"))
	b.wantModel("vad/versions/2", 400)
	b.wantModel("vad/versions/3", 200)
	b.stop()
}

// TestRefusalsNameTheURLAndNoSecret uses credentials that are wrong or missing, and what does not exist.
func TestRefusalsNameTheURLAndNoSecret(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		s.put("models/a/1/model.onnx", []byte("x"))
		for _, test := range []struct {
			name, url string
			env       []string
			kinds     string
		}{
			{"wrong credentials", s.urls[0], s.wrong, fetch.Denied},
			{"no credentials", s.urls[0], bare(s), fetch.Denied},
			{"no such folder", strings.Replace(s.urls[0], "/models", "/none", 1), s.env, fetch.NotFound},
			{"no such bucket", strings.Replace(s.urls[0], "/bucket/", "/nobucket/", 1), s.env, fetch.NotFound},
		} {
			if test.env == nil || strings.HasPrefix(test.url, "gs://bucket/models") {
				continue
			}
			_, err := startProgram(t, test.env).list(test.url)
			if kind(err) != test.kinds {
				t.Errorf("%s: %v, want %s", test.name, err, test.kinds)
			}
			if strings.Contains(fmt.Sprint(err), "wrongsecret") || strings.Contains(fmt.Sprint(err), "d3Jvbmc") {
				t.Errorf("%s: the secret is in %v", test.name, err)
			}
		}
		if s.wrong != nil {
			b := startFailing(t, s.wrong, "--model-repository="+s.urls[0])
			if !strings.Contains(b, strings.TrimSuffix(s.urls[0], "/")) || !strings.Contains(b, "denied") {
				t.Errorf("the box says %s", b)
			}
		}
	})
}

// bare is the environment without credentials.
func bare(s *store) (list []string) {
	for _, entry := range s.env {
		if !strings.HasPrefix(entry, "AWS_") && !strings.HasPrefix(entry, "AZURE_STORAGE_KEY") {
			list = append(list, entry)
		}
	}
	return list
}

// startFailing runs a box that ends by itself, and returns what it says.
func startFailing(t *testing.T, env []string, arguments ...string) string {
	t.Helper()
	given := []string{"serve", "--http-port=" + freePort(t), "--allow-grpc=false", "--allow-metrics=false"}
	c := exec.Command(path(t, "bin/edgewise"), append(given, arguments...)...)
	c.Env = append([]string{"HOME=/nonexistent", "AWS_EC2_METADATA_DISABLED=true", "EDGEWISE_DATA_DIR=" + t.TempDir()}, env...)
	out, err := c.CombinedOutput()
	if err == nil {
		t.Error("the box ends well")
	}
	return string(out)
}

// TestAFileOfCredentials names credentials as TRITON_CLOUD_CREDENTIAL_PATH does.
func TestAFileOfCredentials(t *testing.T) {
	for _, name := range []string{"s3", "as"} {
		t.Run(name, func(t *testing.T) {
			s := stores[name](t)
			config, model := vad(t)
			s.put("models/vad/config.pbtxt", config)
			s.put("models/vad/1/model.onnx", model)
			file := filepath.Join(t.TempDir(), "cloud.json")
			must(t, os.WriteFile(file, fmt.Appendf(nil, `{
  "s3": {"": {"key_id": "wrong", "secret_key": "wrong"},
    "s3://%s/bucket": {"key_id": "thekey", "secret_key": "thesecret", "region": "us-east-1"}},
  "as": {"": {"account_str": "wrong", "account_key": "d3Jvbmc="},
    "as://%s/bucket": {"account_str": "%s", "account_key": "%s"}}
}`, s.address, account, account, key), 0o600))
			b := startBox(t, t.TempDir(), append(bare(s), "TRITON_CLOUD_CREDENTIAL_PATH="+file), "--model-repository="+s.urls[0])
			b.wantModel("vad", 200)
			b.stop()
		})
	}
}

// between is a server between a program and a store, which can spoil answers.
type between struct {
	address string
	bodies  atomic.Int64 // bytes of answers to reads of objects
	spoil   atomic.Pointer[func(w http.ResponseWriter, r *http.Request) (spoiled bool)]
	edit    atomic.Pointer[func(*http.Response) error]
}

func startBetween(t *testing.T, address string) *between {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	b := &between{address: l.Addr().String()}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.Method == "GET" && r.Request.URL.RawQuery == "x-id=GetObject" {
			r.Body = &counted{r.Body, &b.bodies}
		}
		if edit := b.edit.Load(); edit != nil {
			return (*edit)(r)
		}
		return nil
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if spoil := b.spoil.Load(); spoil != nil && (*spoil)(w, r) {
			return
		}
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return b
}

type counted struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// spoiled is an answer whose bytes are changed.
type spoiled struct {
	io.ReadCloser
	change func([]byte) (int, error)
}

func (s *spoiled) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if kept, cause := s.change(p[:n]); cause != nil {
		return kept, cause
	}
	return n, err
}

func noise(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	return data
}

// TestFaultsOfAStore reads an object of 8 MiB from a server that does something wrong.
func TestFaultsOfAStore(t *testing.T) {
	s := newS3(t)
	content := noise(8 << 20)
	s.put("models/a/1/model.onnx", content)
	between := startBetween(t, s.address)
	url := "s3://" + between.address + "/bucket/models"
	var times atomic.Int64
	status := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			if times.Add(1) > 2 {
				return false
			}
			w.WriteHeader(code)
			return true
		}
	}
	always := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(code)
			return true
		}
	}
	cut := func(r *http.Response) error {
		if times.Add(1) <= 3 {
			left := 3 << 20
			r.Body = &spoiled{r.Body, func(p []byte) (int, error) {
				if left -= len(p); left < 0 {
					return len(p) + left, io.ErrUnexpectedEOF
				}
				return len(p), nil
			}}
		}
		return nil
	}
	halves := func(r *http.Response) error {
		left := 4 << 20
		r.Body = &spoiled{r.Body, func(p []byte) (int, error) {
			if left -= len(p); left < 0 {
				return len(p) + left, io.ErrUnexpectedEOF
			}
			return len(p), nil
		}}
		return nil
	}
	short := func(r *http.Response) error { // it says that there is no more
		if times.Add(1) == 1 {
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.LimitReader(r.Body, 4<<20), r.Body}
			r.ContentLength = 4 << 20
			r.Header.Set("Content-Length", fmt.Sprint(r.ContentLength))
		}
		return nil
	}
	still := func(r *http.Response) error {
		if times.Add(1) == 1 {
			left := 4 << 20
			r.Body = &spoiled{r.Body, func(p []byte) (int, error) {
				if left -= len(p); left < 0 {
					<-r.Request.Context().Done()
				}
				return len(p), r.Request.Context().Err()
			}}
		}
		return nil
	}
	swap := func(r *http.Response) error {
		if times.Add(1) == 1 {
			r.Body = io.NopCloser(bytes.NewReader(noise(16 << 20)[8<<20:]))
		}
		return nil
	}
	flip := func(r *http.Response) error {
		if times.Add(1) == 1 {
			r.Body = &spoiled{r.Body, func(p []byte) (int, error) {
				if len(p) > 0 {
					p[0] ^= 1
				}
				return len(p), nil
			}}
		}
		return nil
	}
	for _, test := range []struct {
		name  string
		spoil func(http.ResponseWriter, *http.Request) bool
		edit  func(*http.Response) error
		kind  string // of the first request; "<nil>": it is right in the end
		most  int64  // bytes that are fetched until it is right
	}{
		{"nothing", nil, nil, "<nil>", 8 << 20},
		{"429 twice", status(429), nil, "<nil>", 8 << 20},
		{"500 twice", status(500), nil, "<nil>", 8 << 20},
		{"500 always", always(500), nil, fetch.Unavailable, 8 << 20},
		{"cut off three times", nil, cut, "<nil>", 9 << 20},
		{"half of it each time", nil, halves, "<nil>", 9 << 20},
		{"half of it that claims to be all", nil, short, "<nil>", 9 << 20},
		{"it stands still once", nil, still, "<nil>", 9 << 20},
		{"other bytes", nil, swap, fetch.Corrupt, 16 << 20},
		{"a flipped bit", nil, flip, fetch.Corrupt, 16 << 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder, p := t.TempDir(), startProgram(t, s.env)
			entries, err := p.list(url)
			must(t, err)
			times.Store(0)
			before := between.bodies.Load()
			if test.spoil != nil {
				between.spoil.Store(&test.spoil)
			}
			if test.edit != nil {
				between.edit.Store(&test.edit)
			}
			_, err = p.get(url, folder, entries...)
			if kind(err) != test.kind {
				t.Errorf("%v, want %s", err, test.kind)
			}
			between.spoil.Store(nil)
			between.edit.Store(nil)
			_, err = p.get(url, folder, entries...)
			must(t, err)
			if got := between.bodies.Load() - before; got > test.most {
				t.Errorf("%d bytes came of %d", got, len(content))
			}
			wantFile(t, folder, content)
		})
	}
}

// wantFile fails unless the folder of get has a file with a content.
func wantFile(t *testing.T, folder string, content []byte) {
	t.Helper()
	sum := sha256.Sum256(content)
	if data, err := os.ReadFile(filepath.Join(folder, "files", hex.EncodeToString(sum[:]))); err != nil || !bytes.Equal(data, content) {
		t.Errorf("the file is not there, or wrong: %v", err)
	}
}

// TestAnObjectThatIsReplacedIsNotMixed replaces objects between their list and their reads.
func TestAnObjectThatIsReplacedIsNotMixed(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		s.put("models/a/1/model.onnx", []byte("the first"))
		folder, p := t.TempDir(), startProgram(t, s.env)
		entries, err := p.list(s.urls[0])
		must(t, err)
		if len(entries) != 1 || entries[0].Tag == "" {
			t.Fatalf("the list is %+v", entries)
		}
		s.put("models/a/1/model.onnx", []byte("the other")) // as long
		_, err = p.get(s.urls[0], folder, entries...)
		// fake-gcs-server does not look at the condition of a read, but says which state it sends
		if got := kind(err); got != fetch.Changed {
			t.Errorf("%v, want %s", err, fetch.Changed)
		}
		entries, err = p.list(s.urls[0])
		must(t, err)
		_, err = p.get(s.urls[0], folder, entries...)
		must(t, err)
		wantFile(t, folder, []byte("the other"))
		must(t, s.bucket.Delete(t.Context(), "models/a/1/model.onnx"))
		if _, err := p.get(s.urls[0], t.TempDir(), entries...); kind(err) != fetch.NotFound && kind(err) != fetch.Changed {
			t.Errorf("a removed object: %v", err)
		}
	})
}

// TestAnObjectThatIsReplacedWhileItIsReadIsNotMixed replaces an object of 8 MiB when a part of it has come, and ends the answer there.
func TestAnObjectThatIsReplacedWhileItIsReadIsNotMixed(t *testing.T) {
	s := newS3(t)
	content := noise(16 << 20)
	s.put("models/a/1/model.onnx", content[:8<<20])
	between := startBetween(t, s.address)
	url, folder, p := "s3://"+between.address+"/bucket/models", t.TempDir(), startProgram(t, s.env)
	entries, err := p.list(url)
	must(t, err)
	var cut atomic.Bool
	between.edit.Store(new(func(r *http.Response) error {
		if cut.Swap(true) {
			return nil
		}
		left := 3 << 20
		r.Body = &spoiled{r.Body, func(read []byte) (int, error) {
			if left -= len(read); left < 0 {
				s.put("models/a/1/model.onnx", content[8<<20:])
				return 0, io.ErrUnexpectedEOF
			}
			return len(read), nil
		}}
		return nil
	}))
	if _, err = p.get(url, folder, entries...); kind(err) != fetch.Changed {
		t.Errorf("%v, want %s", err, fetch.Changed)
	}
	between.edit.Store(nil)
	entries, err = p.list(url)
	must(t, err)
	_, err = p.get(url, folder, entries...)
	must(t, err)
	wantFile(t, folder, content[8<<20:])
}

// TestAKilledProgramContinues kills the program again and again while it fetches.
func TestAKilledProgramContinues(t *testing.T) {
	s := newS3(t)
	content := noise(64 << 20)
	s.put("models/a/1/model.onnx", content)
	between := startBetween(t, s.address)
	url, folder := "s3://"+between.address+"/bucket/models", t.TempDir()
	entries, err := startProgram(t, s.env).list(url)
	must(t, err)
	const kills, part = 2, 20 << 20 // a program is killed when a part has come
	for attempt := range kills + 1 {
		p := startProgram(t, s.env)
		begun := between.bodies.Load()
		between.edit.Store(new(func(r *http.Response) error {
			r.Body = &spoiled{r.Body, func(read []byte) (int, error) {
				if attempt < kills && between.bodies.Load()-begun > part {
					_ = syscall.Kill(p.Process.Pid, syscall.SIGKILL)
				}
				return len(read), nil
			}}
			return nil
		}))
		err := p.Do(&fetch.Request{Command: fetch.Get, URL: url, Folder: folder, Files: entries}, func(r *fetch.Reply) error {
			if r.Failure != nil {
				t.Error(r.Failure)
			}
			return nil
		})
		p.end()
		if killed := err != nil; killed != (attempt < kills) {
			t.Errorf("attempt %d: %v", attempt+1, err)
		}
	}
	wantFile(t, folder, content)
	if got := between.bodies.Load(); got > int64(len(content))*3/2 {
		t.Errorf("%d bytes came of %d, with %d kills", got, len(content), kills)
	}
	t.Logf("%d kills; %.2f of the file came", kills, float64(between.bodies.Load())/float64(len(content)))
}

// TestTenThousandObjects lists and fetches them, and again, and has a box serve one model more.
func TestTenThousandObjects(t *testing.T) {
	s := newS3(t)
	const objects = 10_000
	put := make(chan int)
	done := make(chan struct{})
	for range 8 {
		go func() {
			for i := range put {
				s.put(fmt.Sprintf("models/m%04d/1/file%d", i/10, i%10), fmt.Appendf(nil, "content %d", i))
			}
			done <- struct{}{}
		}()
	}
	for i := range objects {
		put <- i
	}
	close(put)
	for range 8 {
		<-done
	}
	folder, p := t.TempDir(), startProgram(t, s.env)
	begin := time.Now()
	entries, err := p.list(s.urls[0])
	must(t, err)
	listed := time.Since(begin)
	received, err := p.get(s.urls[0], folder, entries...)
	must(t, err)
	got := time.Since(begin) - listed
	again, err := p.get(s.urls[0], folder, entries...)
	must(t, err)
	if len(entries) != objects || received == 0 || again != 0 {
		t.Errorf("%d entries, %d bytes, then %d", len(entries), received, again)
	}
	t.Logf("listed in %v, fetched in %v, memory %d KiB", listed, got, peak(t, p.Process.Pid))
	config, model := vad(t)
	s.put("models/vad/config.pbtxt", config)
	s.put("models/vad/1/model.onnx", model)
	b := startBox(t, t.TempDir(), s.env, "--model-repository="+s.urls[0], "--model-control-mode=explicit", "--load-model=vad")
	b.wantModel("vad", 200)
	if files := fetched(t, b); len(files) != 2 {
		t.Errorf("a box that serves one model of 1001 has fetched %d files", len(files))
	}
	b.stop()
}

// peak is the largest resident memory of a process, in KiB.
func peak(t *testing.T, pid int) (kib int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmHWM: %d", &kib)
	}
	return kib
}
