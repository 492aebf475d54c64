package native_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
)

// served is a backend's process with a model, without a sandbox.
type served struct {
	t      *testing.T
	client *backend.Client
	ready  *backend.Ready

	mu  sync.Mutex // guards log
	log []string
}

// serve starts a command with the model in a folder. It ends, without a report of a sanitizer, before the test does.
func serve(t *testing.T, command []string, directory, configuration string) *served {
	t.Helper()
	s, err := try(t, command, directory, configuration)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func try(t *testing.T, command []string, directory, configuration string) (*served, error) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s := &served{t: t}
	client, files, err := backend.Connect(16<<20, 16<<20, s)
	must(err)
	s.client = client
	cmd := exec.Command(command[0], command[1:]...)
	cmd.ExtraFiles, cmd.Stderr = files, output(t)
	cmd.Env = append(os.Environ(), "EDGEWISE_BACKEND=1")
	must(cmd.Start())
	for _, f := range files {
		must(f.Close())
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.client.End(s.client.Serve())
	}()
	t.Cleanup(func() {
		_ = s.client.Stop() // it may have ended
		err := cmd.Wait()
		s.client.Close()
		<-over
		if s.mu.Lock(); t.Failed() {
			t.Logf("log: %q", s.log)
		}
		s.mu.Unlock()
		if err != nil && s.ready != nil {
			t.Errorf("the backend ended with %v", err)
		}
	})
	s.ready, err = s.client.Start(context.Background(), &backend.Start{
		Model: "text", Version: 1, Directory: directory, ModelDirectory: filepath.Dir(directory), Threads: 1,
		Configuration: json.RawMessage(configuration), Log: "info", Complete: true,
		Instance: backend.StartInstance{Name: "text_0", Kind: "KIND_CPU"},
	})
	return s, err
}

func (s *served) Log(_ backend.Level, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, line)
}

func (*served) Exec(*backend.Exec, []edgewise.Tensor, func()) {}
func (*served) Drop(uint64)                                   {}
func (*served) Metric(*backend.Metric)                        {}
func (*served) Control(uint64, *backend.Control)              {}
func (*served) Checked(uint64, bool, string)                  {}
func (*served) Pong(uint64)                                   {}

// request is a call whose responses are kept.
type request struct {
	backend.Call
	responses chan *backend.Response
}

// ask sends a request and returns when the backend takes the next one.
func (s *served) ask(parameters map[string]any, inputs ...edgewise.Tensor) *request {
	s.t.Helper()
	r := &request{responses: make(chan *backend.Response, 1<<12)}
	r.Call = backend.Call{
		Request: backend.Request{ID: s.t.Name(), Parameters: parameters}, Tensors: inputs,
		Answer: func(response *backend.Response) { r.responses <- response },
	}
	if err := s.client.Run(context.Background(), []*backend.Call{&r.Call}); err != nil {
		s.t.Fatal(err)
	}
	return r
}
