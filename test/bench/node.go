package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// nodeDir is where the packages of the Node.js server are installed, at the versions and checksums of its lock file.
const nodeDir = ".cache/bench-node"

// installNode puts the server of test/bench/node and its packages into nodeDir. No script of a package is run: the
// native library for this machine comes inside its package.
func installNode() error {
	if err := os.MkdirAll(nodeDir, 0o755); err != nil {
		return err
	}
	fresh := true
	for _, name := range []string{"package.json", "package-lock.json", "server.mjs"} {
		data, err := os.ReadFile(filepath.Join("test/bench/node", name))
		if err != nil {
			return err
		}
		to := filepath.Join(nodeDir, name)
		if old, err := os.ReadFile(to); name != "server.mjs" && (err != nil || string(old) != string(data)) {
			fresh = false
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(nodeDir, "node_modules")); fresh && err == nil {
		return nil
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir, cmd.Stderr = nodeDir, os.Stderr
	return cmd.Run()
}

// startNode starts the server of test/bench/node with one model and a number of processes, of so many threads of ONNX
// Runtime each.
func startNode(core int, model string, shape edgewise.Shape, workers, threads int) (p *process, address string, err error) {
	var widths []string
	for _, d := range shape[1:] {
		widths = append(widths, strconv.FormatInt(d, 10))
	}
	if model, err = filepath.Abs(model); err != nil {
		return nil, "", err
	}
	if err := installNode(); err != nil {
		return nil, "", err
	}
	cmd := exec.Command("node", "server.mjs", model, inputName, outputName, strings.Join(widths, "x"),
		strconv.Itoa(workers), strconv.Itoa(threads))
	cmd.Dir = nodeDir
	cmd.Env = append(os.Environ(), "NODE_ENV=production", "ORT_DISABLE_TELEMETRY=1")
	return launchAt(core, cmd)
}

// nodeVersion returns what the server is made of.
func nodeVersion() (string, error) {
	data, err := os.ReadFile("test/bench/node/package.json")
	if err != nil {
		return "", err
	}
	var p struct{ Dependencies map[string]string }
	if err := json.Unmarshal(data, &p); err != nil {
		return "", err
	}
	out, err := exec.Command("node", "--version").Output()
	return fmt.Sprintf("node %s, fastify %s, onnxruntime-node %s", strings.TrimSpace(string(out)),
		p.Dependencies["fastify"], p.Dependencies["onnxruntime-node"]), err
}
