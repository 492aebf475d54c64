package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
)

const hopsTime = time.Second

// wholeConfig is an ensemble of a Python model that prepares and a network of ONNX Runtime.
const wholeConfig = `platform: "ensemble"
input { name: %[1]q %[2]s }
output { name: "output" data_type: TYPE_FP32 dims: [ 1, 1000 ] }
ensemble_scheduling {
  step { model_name: "prepare" model_version: -1 input_map { key: %[1]q value: %[1]q } output_map { key: "tensor" value: "tensor" } }
  step { model_name: "network" model_version: -1 input_map { key: "input" value: "tensor" } output_map { key: "output" value: "output" } }
}`

// hops is one kind of preparation.
type hops struct {
	name, input, kind string
	goal              float64 // 0: none
	content           func() ([]byte, error)
}

func preparations() []hops {
	return []hops{
		{
			"pixels to a tensor, 150 kB in and 602 kB out", "pixels", "data_type: TYPE_UINT8 dims: [ 224, 224, 3 ]", 2,
			func() ([]byte, error) { return pixels().Data, nil },
		},
		{"a JPEG to a tensor", "image", "data_type: TYPE_STRING dims: [ 1 ]", 0, func() ([]byte, error) {
			return os.ReadFile(filepath.Join(samplesDir, "face.jpg"))
		}},
	}
}

// hopsFigures hold a Python model that prepares pictures in the box, before a network, against the same functions behind
// gRPC, which the client asks before it asks the box for the network. Both clients are Python with the same library.
func hopsFigures(r *run) {
	generated := filepath.Join(r.dir, "generated")
	r.check(os.Mkdir(generated, 0o755))
	plugin, err := exec.LookPath("grpc_python_plugin")
	r.check(err)
	r.check(command("protoc", "-I", "api/inference", "--python_out="+generated, "--grpc_python_out="+generated,
		"--plugin=protoc-gen-grpc_python="+plugin, "grpc_service.proto", "model_config.proto"))
	server := r.startAt(anywhere, exec.Command(pythonProgram, "test/bench/hops/server.py", generated, "test/bench/models"))
	m := r.machine()
	for _, p := range preparations() {
		b := r.startBuild(builtProgram, anywhere, nil, filepath.Join(r.dir, p.input))
		r.push(b, "network", classifierHead(1), "max_batch_size: 0\n")
		r.pushPython(b, "prepare", fmt.Sprintf("backend: \"python\"\ninput { name: %q %s }\n"+
			"output { name: \"tensor\" data_type: TYPE_FP32 dims: [ 1, 3, 224, 224 ] }\n", p.input, p.kind), "preparing.py", "prepare.py")
		r.check(b.push("whole", "config.pbtxt", fmt.Appendf(nil, wholeConfig, p.input, p.kind), ""))
		content, err := p.content()
		r.check(err)
		file, answers := filepath.Join(r.dir, p.input+".bin"), map[string]bool{}
		r.check(os.WriteFile(file, content, 0o644))
		ask := func(addresses ...string) (sample, error) {
			arguments := []string{"test/bench/hops/client.py", generated, file, p.input, fmt.Sprint(hopsTime.Seconds())}
			out, err := runTool(pythonProgram, append(arguments, addresses...)...)
			if err != nil {
				return sample{}, err
			}
			s, answer, err := readHops(out)
			if answers[answer] = true; len(answers) > 1 {
				err = fmt.Errorf("the answers differ")
			}
			return s, err
		}
		sides := []side{
			{"a Python model in the box", func() (sample, error) { return ask(b.grpc) }},
			{"the same behind gRPC", func() (sample, error) { return ask(b.grpc, server.address) }},
		}
		all := m.interleave(sides)
		ratio := all[1].beside(all[0], func(s, o sample) float64 { return s.p50 / o.p50 })
		detail := fmt.Sprintf("p50 %.2f ms against %.2f ms", 1e3*all[0].p50(), 1e3*all[1].p50())
		name := p.name + ": Python model in the box, the same behind gRPC: times as long"
		if p.goal == 0 {
			r.report(known(name, ratio, "x", detail))
		} else {
			r.report(atLeast(name, ratio, p.goal, "x", detail))
		}
		r.latencies(p.name+", then a network that costs little", "ms", sides, all)
		r.check(b.stop())
	}
}

// readHops reads what the client prints: times, and the last answer.
func readHops(out []byte) (s sample, answer string, err error) {
	times, last, _ := bytes.Cut(out, []byte{'\n'})
	var latencies perf.Histogram
	total := time.Duration(0)
	for field := range bytes.FieldsSeq(times) {
		ns, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return sample{}, "", err
		}
		latencies.Record(time.Duration(ns))
		total += time.Duration(ns)
	}
	if total == 0 {
		return sample{}, "", fmt.Errorf("the client printed %.200q", out)
	}
	return newSample(&latencies, total), string(last), nil
}
