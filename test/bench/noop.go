package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// startNoop builds and starts test/bench/noop on a core. It answers every request with size bytes.
func startNoop(dir string, core, size int) (*process, string, error) {
	return startProgram(dir, core, "noop", strconv.Itoa(size))
}

// startFloor builds and starts test/bench/floor with a model, anywhere.
func startFloor(dir, model string, in edgewise.Tensor) (*process, string, error) {
	arguments := []string{model, in.Name, in.Type.String(), outputName}
	for _, d := range in.Shape {
		arguments = append(arguments, strconv.FormatInt(d, 10))
	}
	return startProgram(dir, anywhere, "floor", arguments...)
}

// startProgram builds and starts one of the programs below test/bench, which says where it listens.
func startProgram(dir string, core int, name string, arguments ...string) (*process, string, error) {
	program := filepath.Join(dir, name)
	build := exec.Command("go", "build", "-trimpath", "-o", program, "./test/bench/"+name)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, "", err
	}
	cmd := exec.Command(program, arguments...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	p, err := start(core, cmd)
	if err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !ok {
		return nil, "", fmt.Errorf("test/bench/%s did not start: %w", name, err)
	}
	return p, address, nil
}
