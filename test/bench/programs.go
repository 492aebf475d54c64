package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
	"github.com/edgewise-ai/edgewise/test/backends/faulty"
)

// The benchmarks have backends of their own: this program is those in Go.

// backendVerb starts this program as a backend.
const backendVerb = "backend"

// goIdentity is the backend in Go that answers with its input. The others are those of package faulty.
const goIdentity = "identity"

// beBackend is the life of a backend.
func beBackend(name string) int {
	err := error(nil)
	if name == goIdentity {
		err = backend.Serve(func(*backend.Server, *backend.Start) (backend.Model, *backend.Ready, error) {
			return identityModel{}, nil, nil
		})
	} else {
		err = faulty.Run(name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// identityModel answers with its input, and says how long the copy took.
type identityModel struct{}

// Close has nothing to do.
func (identityModel) Close() {}

// Execute answers each request of a batch.
func (identityModel) Execute(requests []*backend.Incoming) error {
	for _, r := range requests {
		x := r.Inputs[0]
		o, err := r.Response(edgewise.Tensor{Name: outputName, Type: x.Type, Shape: x.Shape})
		if err == nil {
			began := time.Now()
			copy(o.Outputs[0].Data, x.Data)
			o.Parameters = map[string]any{"own_ns": time.Since(began).Nanoseconds()}
			err = r.Send(o, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ownBackends is the folder of the run's own backends, for engine.backends of a box.
func (r *run) ownBackends() string { return filepath.Join(r.dir, "backends") }

// addBackend makes a backend of a command, with more keys of backend.yaml.
func (r *run) addBackend(name, keys string, command ...string) {
	folder := filepath.Join(r.ownBackends(), name)
	r.check(os.MkdirAll(folder, 0o755))
	text := fmt.Sprintf("protocol: 1\ncommand: [\"%s\"]\nplatforms: [%s]\n%s", strings.Join(command, `", "`), name, keys)
	r.check(os.WriteFile(filepath.Join(folder, "backend.yaml"), []byte(text), 0o644))
}

// addGoBackend makes a backend of this program.
func (r *run) addGoBackend(folder, name, keys string) {
	own, err := os.Executable()
	r.check(err)
	r.addBackend(folder, keys, own, backendVerb, name)
}

// addCPPBackend compiles a backend in C++.
func (r *run) addCPPBackend(name, source string) {
	program := filepath.Join(r.ownBackends(), name, "serve")
	r.check(os.MkdirAll(filepath.Dir(program), 0o755))
	r.check(command("g++", "-std=c++17", "-O2", "-pthread", "-o", program, source))
	r.addBackend(name, "", "${backend}/serve")
}

// backendConfig is the configuration of a model of numbers that a backend serves.
func backendConfig(backend, more string) string {
	return fmt.Sprintf("backend: %q\n%s%s", backend, identityConfig, more)
}

// pushPython puts a Python model into a box, whose source is some files of models one after the other.
func (r *run) pushPython(b *box, name, config string, files ...string) {
	var source []byte
	for _, file := range files {
		part, err := os.ReadFile(filepath.Join("test/bench/models", file))
		r.check(err)
		source = append(source, part...)
	}
	r.check(b.push(name, "model.py", source, config))
}
