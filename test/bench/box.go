package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/host"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// box is the built program, serving from a data folder.
type box struct {
	*process
	client  *client.Client
	started time.Duration // from exec to listening
	ready   time.Duration // from exec to ready
	errors  bytes.Buffer
}

// builtProgram is what is measured.
const builtProgram = "bin/edgewise"

// startBox starts the program with its standard settings but those given, as key=value.
func (r *run) startBox(settings ...string) *box {
	return r.startBuild(builtProgram, anywhere, nil, filepath.Join(r.dir, "data"), settings...)
}

// startBuild starts any build of the program, on a core or anywhere, with more variables in the environment.
func (r *run) startBuild(program string, core int, environment []string, dataDir string, settings ...string) *box {
	cmd := exec.Command(program, "serve")
	for _, s := range append([]string{
		"http.address=127.0.0.1:0", "metrics.address=", "grpc.address=127.0.0.1:0",
		"data_dir=" + dataDir, "store.reserve_bytes=0", "auth=open", "log.level=warn",
	}, settings...) {
		cmd.Args = append(cmd.Args, "--set", s)
	}
	cmd.Env = append(os.Environ(), environment...)
	return r.startServer(core, cmd)
}

// startServer starts a program that prints what edgewise does, and waits until it is ready.
func (r *run) startServer(core int, cmd *exec.Cmd) *box {
	b := &box{}
	cmd.Stderr = &b.errors
	begin := time.Now()
	var address, calls string
	b.process = r.start(core, cmd, func(line string) (ready bool) {
		if _, at, ok := strings.Cut(line, " gRPC at "); ok {
			calls = at
		}
		if _, url, ok := strings.Cut(line, " listens on "); ok {
			b.started, address = time.Since(begin), strings.TrimPrefix(url, "http://")
		}
		b.ready = time.Since(begin)
		return line == "ready"
	})
	b.address, b.grpc = address, calls
	var err error
	b.client, err = client.New("http://" + b.address)
	r.check(err)
	return b
}

// resident returns the box's resident memory in MiB.
func (b *box) resident() (float64, error) {
	n, ok := host.ProcessBytes("/", b.cmd.Process.Pid, host.Resident)
	if !ok {
		return 0, errors.New("the box's resident memory cannot be read")
	}
	return float64(n) / (1 << 20), nil
}

// push stores a model in a box, with a configuration when it is not empty, and waits until it serves.
func (r *run) push(b *box, name string, m *onnxgen.Model, config string) {
	r.check(b.push(name, "model.onnx", m.Bytes(), config))
}

// push is that for any file.
func (b *box) push(name, file string, model []byte, config string) error {
	files := [][2]string{{file, string(model)}}
	if config != "" {
		files = append(files, [2]string{"config.pbtxt", config})
	}
	up := edgewise.Upload{Model: name, Size: int64(len(model) + len(config))}
	up.Next = func() (path string, size int64, content io.Reader, err error) {
		if len(files) == 0 {
			return "", 0, nil, io.EOF
		}
		f := files[0]
		files = files[1:]
		return f[0], int64(len(f[1])), strings.NewReader(f[1]), nil
	}
	_, err := b.client.Push(context.Background(), up, true, nil)
	return err
}

// infer asks a model once and releases the answer, unless used does something with it before.
func (b *box) infer(model string, in edgewise.Tensor, used func(*edgewise.Response)) error {
	response, err := b.client.Infer(context.Background(),
		&edgewise.Request{Model: edgewise.ModelID{Name: model}, Inputs: []edgewise.Tensor{in}})
	if err != nil {
		return err
	}
	defer response.Release()
	if used != nil {
		used(response)
	}
	return nil
}

// clients returns clients of a model in a box.
func (r *run) clients(b *box, model string, in edgewise.Tensor, form kserve.Form, core int) *callers {
	return r.callers(in, form, core).at(b.address, inferPath(model))
}

func inferPath(model string) string { return "/v2/models/" + model + "/infer" }

// mode is a box in one of its isolation modes.
type mode struct {
	name    string
	box     *box
	clients *callers
}

// startModes starts a build of the program in each isolation mode, on a core or anywhere, with a model and its
// configuration.
func (r *run) startModes(program string, core int, m *onnxgen.Model, config string, in edgewise.Tensor) (modes []mode) {
	load := clientCore
	if core == anywhere {
		load = anywhere
	}
	for _, name := range isolations {
		data := filepath.Join(r.dir, fmt.Sprintf("data%d", len(r.ends)))
		b := r.startBuild(program, core, nil, data, "engine.isolation="+name)
		r.push(b, "model", m, config)
		modes = append(modes, mode{name, b, r.clients(b, "model", in, kserve.Binary, load)})
	}
	return modes
}
