package onnx

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
)

// accelerator is a way to run models on a kind of devices: a provider of ONNX Runtime.
type accelerator struct {
	name       string // in gpu_execution_accelerator
	kind       edgewise.DeviceKind
	always     bool // models that do not name it get it too: what the others of its kind cannot run, it can
	provider   ort.ProviderKind
	parameters map[string]parameter // that a model may set
	options    func(edgewise.Device) map[string]string
	lost       []string // parts of messages after which the device runs nothing any more in this process
}

// accelerators are all that there are, the first choice of a kind last.
var accelerators = []accelerator{
	{
		name: "tensorrt", kind: edgewise.GPU, provider: ort.TensorRT, parameters: tensorRTParameters, options: deviceID,
	},
	{
		name: "cuda", kind: edgewise.GPU, always: true, provider: ort.CUDA, parameters: cudaParameters, options: cudaDefaults,
	},
	{
		name: "webgpu", kind: edgewise.Vulkan, always: true, provider: ort.WebGPU, parameters: webGPUParameters,
		options: webGPUDefaults, lost: []string{"is lost", "Device lost", "device lost", "VK_ERROR_DEVICE_LOST"},
	},
}

func deviceID(on edgewise.Device) map[string]string {
	return map[string]string{"device_id": strconv.Itoa(on.Index)}
}

func cudaDefaults(on edgewise.Device) map[string]string {
	options := deviceID(on)
	options["arena_extend_strategy"] = "kSameAsRequested" // the other one reserves up to twice the need of a memory that many share
	options["cudnn_conv_algo_search"] = "HEURISTIC"       // the other one stalls for seconds at each new shape
	options["do_copy_in_default_stream"] = "1"
	return options
}

// webGPUDefaults keep the layout of the model: with the provider's own, some convolutions over one dimension are wrong.
// With less validation a run that lacks memory might give numbers. The device is the one that the process sees.
func webGPUDefaults(edgewise.Device) map[string]string {
	return map[string]string{"preferredLayout": "NCHW", "validationMode": "basic"}
}

// session is what providers are told of a session.
type session struct {
	stream *cuda.Stream // on which it works; nil: on its own
	graphs bool         // each batch size is captured as a graph
	kept   string       // a folder for what they compile; empty: nothing is kept
}

// providers returns what a model runs on a device on, first choice first, with every option of a provider in one map: a
// later update would forget the earlier ones. A model that names accelerators of the device's kind gets those before
// the one that every model gets.
func providers(m *edgewise.Model, on edgewise.Device, s session) ([]ort.Provider, error) {
	asked := append([]edgewise.Accelerator{}, m.Accelerators().GPU...)
	for key := range cudaParameters { // Triton's own place for these
		if value, ok := m.Parameters[key]; ok {
			asked = append(asked, edgewise.Accelerator{Name: "cuda", Parameters: map[string]string{key: value.StringValue}})
		}
	}
	if err := known(m, asked); err != nil {
		return nil, err
	}
	var list []ort.Provider
	for i := range accelerators {
		row := &accelerators[i]
		options, named := row.options(on), false
		for _, a := range asked {
			if row.kind == on.Kind && strings.EqualFold(a.Name, row.name) {
				named = true
				if err := settle(m, a, row.parameters, options); err != nil {
					return nil, err
				}
			}
		}
		if row.kind != on.Kind || !named && !row.always {
			continue
		}
		if row.provider == ort.CUDA && s.graphs {
			options["enable_cuda_graph"] = "1"
		}
		if row.provider == ort.TensorRT && s.kept != "" {
			keepEngines(options, s.kept)
		}
		addStream(options, s.stream)
		list = append(list, ort.Provider{Kind: row.provider, Options: options, Lost: row.lost})
	}
	return list, nil
}

// Precision is what a model's configuration asks for in place of FP32 on a kind of devices: INT8, BF16, FP16 or TF32; ""
// when it asks for nothing, or for what there is not. TF32 that ONNX Runtime takes without being asked does not count.
func Precision(m *edgewise.Model, kind edgewise.DeviceKind) string {
	list, _ := providers(m, edgewise.Device{Kind: kind}, session{})
	for _, p := range []struct{ option, name string }{
		{"trt_int8_enable", "INT8"}, {"trt_bf16_enable", "BF16"}, {"trt_fp16_enable", "FP16"}, {"use_tf32", "TF32"},
	} {
		if slices.ContainsFunc(list, func(one ort.Provider) bool { return one.Options[p.option] == "1" }) {
			return p.name
		}
	}
	return ""
}

// known refuses accelerators that there are none of.
func known(m *edgewise.Model, asked []edgewise.Accelerator) error {
	for _, a := range asked {
		if !slices.ContainsFunc(accelerators, func(row accelerator) bool { return strings.EqualFold(a.Name, row.name) }) {
			return edgewise.Errorf("onnx.Load", edgewise.Unsupported,
				"model %q: gpu_execution_accelerator %q: ONNX models know cuda, tensorrt and webgpu", m.Name, a.Name)
		}
	}
	return nil
}

// keepEngines makes TensorRT keep its engines in a folder, and the times of kernels that it has measured to build them.
func keepEngines(options map[string]string, folder string) {
	options["trt_engine_cache_enable"], options["trt_engine_cache_path"] = "1", folder
	options["trt_timing_cache_enable"], options["trt_timing_cache_path"] = "1", folder
}

// addStream makes a provider work on a stream. Without the second entry the first one is ignored.
func addStream(options map[string]string, stream *cuda.Stream) {
	if stream != nil {
		options["user_compute_stream"] = strconv.FormatUint(uint64(stream.Handle()), 10)
		options["has_user_compute_stream"] = "1"
	}
}

// parameter is an option that a model may set.
type parameter struct {
	key   string            // of the provider
	names map[string]string // the values that are allowed, and what they are for the provider; nil: a whole number
}

var (
	boolean = map[string]string{"0": "0", "1": "1", "false": "0", "true": "1"}

	// cudaParameters are by the names that Triton and ONNX Runtime share, its numbers being Triton's.
	cudaParameters = map[string]parameter{
		"cudnn_conv_algo_search": {"cudnn_conv_algo_search", map[string]string{
			"0": "EXHAUSTIVE", "1": "HEURISTIC", "2": "DEFAULT", "EXHAUSTIVE": "EXHAUSTIVE", "HEURISTIC": "HEURISTIC", "DEFAULT": "DEFAULT",
		}},
		"arena_extend_strategy": {"arena_extend_strategy", map[string]string{
			"0": "kNextPowerOfTwo", "1": "kSameAsRequested", "kNextPowerOfTwo": "kNextPowerOfTwo", "kSameAsRequested": "kSameAsRequested",
		}},
		"gpu_mem_limit":                {"gpu_mem_limit", nil},
		"cudnn_conv_use_max_workspace": {"cudnn_conv_use_max_workspace", boolean},
		"use_tf32":                     {"use_tf32", boolean},
		"prefer_nhwc":                  {"prefer_nhwc", boolean},
		"fuse_conv_bias":               {"fuse_conv_bias", boolean},
		"sdpa_kernel":                  {"sdpa_kernel", nil},
	}

	// tensorRTParameters are by Triton's names and by ONNX Runtime's. Those that name files or folders are not among them.
	tensorRTParameters = map[string]parameter{
		"precision_mode": {
			"",
			map[string]string{"FP32": "", "FP16": "trt_fp16_enable", "BF16": "trt_bf16_enable", "INT8": "trt_int8_enable"},
		},
		"max_workspace_size_bytes":       {"trt_max_workspace_size", nil},
		"trt_max_workspace_size":         {"trt_max_workspace_size", nil},
		"trt_fp16_enable":                {"trt_fp16_enable", boolean},
		"trt_bf16_enable":                {"trt_bf16_enable", boolean},
		"trt_int8_enable":                {"trt_int8_enable", boolean},
		"trt_max_partition_iterations":   {"trt_max_partition_iterations", nil},
		"trt_min_subgraph_size":          {"trt_min_subgraph_size", nil},
		"trt_builder_optimization_level": {"trt_builder_optimization_level", nil},
		"trt_cuda_graph_enable":          {"trt_cuda_graph_enable", boolean},
		"trt_dla_enable":                 {"trt_dla_enable", boolean},
		"trt_dla_core":                   {"trt_dla_core", nil},
	}

	// webGPUParameters are by ONNX Runtime's names, of which those of layouts are missing: see webGPUDefaults.
	webGPUParameters = map[string]parameter{
		"validationMode":          {"validationMode", map[string]string{"basic": "basic", "full": "full"}},
		"maxNumPendingDispatches": {"maxNumPendingDispatches", nil},
	}
)

// settle reads an accelerator's parameters into a provider's options.
func settle(m *edgewise.Model, a edgewise.Accelerator, known map[string]parameter, options map[string]string) error {
	for name, value := range a.Parameters {
		p, ok := known[name]
		if !ok {
			return edgewise.Errorf("onnx.Load", edgewise.Unsupported,
				"model %q: accelerator %q: parameter %q is not on the list of those a model may set", m.Name, a.Name, name)
		}
		if p.names == nil {
			if _, err := strconv.ParseUint(value, 10, 63); err != nil {
				return edgewise.Errorf("onnx.Load", edgewise.Invalid,
					"model %q: accelerator %q: parameter %q: want a whole number, got %q", m.Name, a.Name, name, value)
			}
			options[p.key] = value
			continue
		}
		meant, ok := p.names[value]
		switch {
		case !ok:
			return edgewise.Errorf("onnx.Load", edgewise.Invalid,
				"model %q: accelerator %q: parameter %q: want one of %s, got %q", m.Name, a.Name, name,
				strings.Join(slices.Sorted(maps.Keys(p.names)), ", "), value)
		case p.key != "":
			options[p.key] = meant
		case meant != "": // the value is the name of a switch
			options[meant] = "1"
		}
	}
	return nil
}
