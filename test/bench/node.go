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

// nodeDir is where "make bench-node" puts the packages of the server in test/bench/node.
const nodeDir = ".cache/bench-node"

// startNode starts the server of test/bench/node with one model, which takes tensors like in, and a number of processes,
// of so many threads of ONNX Runtime each.
func (r *run) startNode(core int, model string, in edgewise.Tensor, workers, threads int) *process {
	r.check(command("cp", "test/bench/node/server.mjs", nodeDir)) // as it is now, its packages as make has put them
	cmd := exec.Command("node", "server.mjs", model, in.Name, in.Type.String(), outputName, sizes(in.Shape[1:]),
		strconv.Itoa(workers), strconv.Itoa(threads))
	cmd.Dir = nodeDir
	cmd.Env = append(os.Environ(), "NODE_ENV=production", "ORT_DISABLE_TELEMETRY=1")
	return r.startAt(core, cmd)
}

// nodeVersion returns what the server is made of.
func (r *run) nodeVersion() string {
	data, err := os.ReadFile(filepath.Join(nodeDir, "package.json"))
	r.check(err)
	var p struct{ Dependencies map[string]string }
	r.check(json.Unmarshal(data, &p))
	out, err := exec.Command("node", "--version").Output()
	r.check(err)
	return fmt.Sprintf("node %s, fastify %s, onnxruntime-node %s", strings.TrimSpace(string(out)),
		p.Dependencies["fastify"], p.Dependencies["onnxruntime-node"])
}
