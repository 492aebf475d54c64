package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// startNoop builds and starts test/bench/noop on a core. It answers every request with size bytes.
func startNoop(dir string, core, size int) (*process, string, error) {
	program := filepath.Join(dir, "noop")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "./test/bench/noop")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, "", err
	}
	cmd := exec.Command(program, strconv.Itoa(size))
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
		return nil, "", fmt.Errorf("the no-op server did not start: %w", err)
	}
	return p, address, nil
}
