package main

import (
	"bufio"
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

// startBox starts the program with its standard settings but those given, as key=value.
func startBox(dataDir string, settings ...string) (*box, error) {
	return startBoxOn(anywhere, dataDir, settings...)
}

// startBoxOn keeps the program on one core.
func startBoxOn(core int, dataDir string, settings ...string) (*box, error) {
	return startBoxWith(core, nil, dataDir, settings...)
}

// startBoxWith is startBoxOn with more variables in the environment.
func startBoxWith(core int, environment []string, dataDir string, settings ...string) (*box, error) {
	return startBuild(builtProgram, core, environment, dataDir, settings...)
}

// builtProgram is what is measured.
const builtProgram = "bin/edgewise"

// startBuild is startBoxWith for any build of the program.
func startBuild(program string, core int, environment []string, dataDir string, settings ...string) (*box, error) {
	settings = append([]string{
		"http.address=127.0.0.1:0", "metrics.address=", "grpc.address=127.0.0.1:0",
		"data_dir=" + dataDir, "store.reserve_bytes=0", "auth=open", "log.level=warn",
	}, settings...)
	cmd := exec.Command(program, "serve")
	for _, s := range settings {
		cmd.Args = append(cmd.Args, "--set", s)
	}
	if environment != nil {
		cmd.Env = append(os.Environ(), environment...)
	}
	b := &box{}
	cmd.Stderr = &b.errors
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if b.process, err = start(core, cmd); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), " takes gRPC at "); ok {
			b.grpc = address
		}
		if _, url, ok := strings.Cut(lines.Text(), " listens on "); ok {
			b.started, b.address = time.Since(begin), strings.TrimPrefix(url, "http://")
		}
		if lines.Text() == "ready" {
			b.ready = time.Since(begin)
			b.client, err = client.New("http://" + b.address)
			return b, err
		}
	}
	return nil, fmt.Errorf("the box did not get ready: %s", b.errors.String())
}

// resident returns the box's resident memory in MiB.
func (b *box) resident() (float64, error) {
	n, ok := host.ProcessBytes("/", b.cmd.Process.Pid, host.Resident)
	if !ok {
		return 0, errors.New("the box's resident memory cannot be read")
	}
	return float64(n) / (1 << 20), nil
}
