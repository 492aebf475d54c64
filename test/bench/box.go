package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/host"
)

// box is the built program, serving from a data folder.
type box struct {
	*process
	address string
	grpc    string
	client  *client.Client
	started time.Duration // from exec to listening
	ready   time.Duration // from exec to ready
	errors  bytes.Buffer
}

// builtProgram is what is measured.
const builtProgram = "bin/edgewise"

// startBox starts the program with its standard settings but those given, as key=value.
func startBox(dataDir string, settings ...string) (*box, error) {
	return startBuild(builtProgram, anywhere, nil, dataDir, settings...)
}

// startBuild starts any build of the program, on a core or anywhere, with more variables in the environment.
func startBuild(program string, core int, environment []string, dataDir string, settings ...string) (*box, error) {
	settings = append([]string{
		"http.address=127.0.0.1:0", "metrics.address=", "grpc.address=127.0.0.1:0",
		"data_dir=" + dataDir, "store.reserve_bytes=0", "auth=open", "log.level=warn",
	}, settings...)
	cmd := exec.Command(program, "serve")
	for _, s := range settings {
		cmd.Args = append(cmd.Args, "--set", s)
	}
	cmd.Env = append(os.Environ(), environment...)
	return startServer(core, cmd)
}

// startServer starts a program that prints what edgewise does, and waits until it is ready.
func startServer(core int, cmd *exec.Cmd) (b *box, err error) {
	b = &box{}
	cmd.Stderr = &b.errors
	begin := time.Now()
	b.process, err = launch(core, cmd, func(line string) (ready bool) {
		if _, address, ok := strings.Cut(line, " takes gRPC at "); ok {
			b.grpc = address
		}
		if _, url, ok := strings.Cut(line, " listens on "); ok {
			b.started, b.address = time.Since(begin), strings.TrimPrefix(url, "http://")
		}
		b.ready = time.Since(begin)
		return line == "ready"
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, b.errors.String())
	}
	b.client, err = client.New("http://" + b.address)
	return b, err
}

// resident returns the box's resident memory in MiB.
func (b *box) resident() (float64, error) {
	n, ok := host.ProcessBytes("/", b.cmd.Process.Pid, host.Resident)
	if !ok {
		return 0, errors.New("the box's resident memory cannot be read")
	}
	return float64(n) / (1 << 20), nil
}
