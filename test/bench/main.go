// Command bench measures the appliance against limits of the same machine in the same run and writes the tables of
// docs/benchmarks, as Markdown and JSON.
//
//	go run ./test/bench                        every scenario of every table
//	go run ./test/bench -table engine          one table
//	go run ./test/bench -only tiny/16          one scenario, whose lines are replaced in its table; tiny: all of that kind
//	go run ./test/bench -busy -rounds 1        tries them on a machine that is not quiet; nothing is written
//	go run ./test/bench -against old/edgewise  bin/edgewise against another build, in turns; nothing is written
//
// A shared machine's two cores are sometimes two threads of one. So all sides of a ratio are measured in turn, a probe
// stands before and after every sample, samples without two real cores are repeated, and medians are reported.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/test/bench/table"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/wasm"
)

func scenarios() []scenario {
	all := []scenario{
		{"foundation", "serve", serveFigures},
		{"foundation", "upload", uploadFigures},
		{"foundation", "start", startFigures},
		{"foundation", "idle", idleFigures},
	}
	each := func(table, kind string, counts []int, of func(count int) func(*run)) {
		for _, n := range counts {
			all = append(all, scenario{table, fmt.Sprintf("%s/%d", kind, n), of(n)})
		}
	}
	few := []int{1, 2, 4, 16}
	each("engine", "large", few, func(clients int) func(*run) { return networkFigures(mobileNetV2, clients) })
	each("engine", "pixels", few, func(clients int) func(*run) { return networkFigures(ofPixels, clients) })
	each("engine", "heavier", few, func(clients int) func(*run) { return networkFigures(heavier, clients) })
	each("engine", "tiny", []int{1, 16, 64}, tinyFigures)
	each("engine", "batching", []int{1, 2, 4, 8, 16, 32, 64}, batchingFigures)
	for _, isolation := range isolations {
		all = append(all, scenario{"engine", "tails/" + isolation, tailFigures(isolation)})
	}
	each("wasm", "step", []int{1, 16}, stepFigures)
	each("wasm", "hostile", []int{1, 2, 4}, hostileFigures)
	for _, protocol := range []string{"REST", "gRPC"} {
		all = append(all, scenario{"protocol", protocol + "/small", protocolFigures(protocol, smallTensor)},
			scenario{"protocol", protocol + "/large", protocolFigures(protocol, largeTensor)})
	}
	for _, isolation := range isolations {
		all = append(all, scenario{"protocol", "loading/" + isolation, loadingFigures(isolation)})
	}
	all = append(all, peerScenarios()...)
	all = append(append(all, backendScenarios()...), scaleScenarios()...)
	all = append(all, fitScenarios()...)
	all = append(all, tuningScenarios()...)
	return append(all,
		scenario{"wasm", "python/measurements/1", pythonFigures(measurements(), 1)},
		scenario{"wasm", "python/measurements/16", pythonFigures(measurements(), 16)},
		scenario{"wasm", "python/speech", pythonFigures(listen(), 1)},
		scenario{"wasm", "python/detect", pythonFigures(detect(), 1)},
		scenario{"wasm", "python/classify", pythonFigures(classify(classifierHead,
			"a JPEG, classifier input, a model that costs little, labels"), 1)},
		scenario{"wasm", "python/mobilenet", pythonFigures(classify(onnxgen.MobileNetV2, "a JPEG, classifier input, MobileNetV2, labels"), 1)},
		scenario{"engine", "crossing/small", crossingFigures("MLP, 256 bytes in", onnxgen.MLP, vector, smallCrossing)},
		scenario{"engine", "isolation/resident", residentFigures}, scenario{"engine", "isolation/cycles", cycleFigures},
		scenario{"engine", "isolation/crash", crashFigures},
		scenario{"engine", "crossing/large", crossingFigures("MobileNetV2, 602 kB in", onnxgen.MobileNetV2, picture, largeCrossing)},
	)
}

// isolations are the places where models run: in the server's process and in children.
var isolations = [...]string{"none", "process"}

func main() {
	if len(os.Args) == 2 && os.Args[1] == wasm.CompilerVerb { // a step that is measured is compiled as on a box
		os.Exit(wasm.RunCompiler())
	}
	if len(os.Args) == 3 && os.Args[1] == backendVerb {
		os.Exit(beBackend(os.Args[2]))
	}
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of every interleaved measurement")
	flag.IntVar(&o.requests, "requests", 100_000, "requests of each workload of the table fits")
	flag.DurationVar(&o.within, "within", 0, "for how long requests of each workload of the table fits are sent; 0: until all were")
	flag.IntVar(&o.repeats, "repeats", 10, "tunings of each subject and objective of the table tuning")
	flag.DurationVar(&o.limit, "limit", 5*time.Minute, "time of one of them at the most")
	flag.BoolVar(&o.busy, "busy", false, "try scenarios on a busy machine: every sample counts, and nothing is written")
	flag.StringVar(&o.out, "out", "docs/benchmarks", "folder of the tables; empty: only print")
	flag.StringVar(&o.peer, "peer", "", "another server that has the models of -models, for the table peers: host:port")
	flag.StringVar(&o.peerGRPC, "peer-grpc", "", "where it takes gRPC: host:port")
	chosen := flag.String("table", "all", "foundation, engine, wasm, protocol, backends, scale, fits, tuning, peers; all: but the last three")
	only := flag.String("only", "", "run only the scenario of this name, or those of this kind")
	against := flag.String("against", "", "another build of the program, with the runtime library in lib beside it")
	models := flag.String("models", "", "only write the models of the table peers into this folder, in Triton's layout")
	flag.Parse()
	// The load loop is one thread, raw callers are a thread each: none of them waits for a turn. The collector runs
	// between samples, and when the heap is full: some scenarios run for long without samples.
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 8))
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(2 << 30) // without it, 1 MB answers of a text recogniser filled 24 GB within 20 minutes
	all := scenarios()
	if o.busy {
		o.out = ""
	}
	if *against != "" {
		all, o.out = againstScenarios(*against), ""
	}
	err := error(nil)
	if *models != "" {
		err = writePeerModels(*models)
	} else {
		err = runChosen(all, *chosen, *only, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func runChosen(all []scenario, of, only string, o options) error {
	chosen := slices.DeleteFunc(all, func(s scenario) bool {
		other := s.table != of
		if of == "all" { // these take hours
			other = (s.table == "peers" || s.table == "fits" || s.table == "tuning") && only == ""
		}
		return other || only != "" && s.name != only && !strings.HasPrefix(s.name, only+"/")
	})
	if len(chosen) == 0 {
		return fmt.Errorf("no scenario is called %q in table %q", only, of)
	}
	return runAll(chosen, o)
}

// runAll runs scenarios one after the other. One that fails leaves its lines of the table as they were, and the others
// go on.
func runAll(chosen []scenario, o options) error {
	var failed []error
	for _, s := range chosen {
		fmt.Fprintf(os.Stderr, "%s measuring %s\n", time.Now().Format(time.TimeOnly), s.name)
		r, err := measure(s, o)
		if err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
			fmt.Fprintf(os.Stderr, "bench: %v; its lines stay as they were\n", err)
			failed = append(failed, err)
			continue
		}
		fmt.Print(table.Markdown(r))
		if o.out == "" {
			continue
		}
		if err := record(filepath.Join(o.out, s.table), s, r); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}
