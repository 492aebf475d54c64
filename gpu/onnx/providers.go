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

// providers returns what a model runs on, first choice first, with every option of a provider in one map: a later
// update would forget the earlier ones. A model that names accelerators gets those; any other gets CUDA. stream, where
// there is one, is the one that the session works on.
func providers(m *edgewise.Model, device int, stream *cuda.Stream, graphs bool) ([]ort.Provider, error) {
	cudaOptions := map[string]string{
		"device_id":                 strconv.Itoa(device),
		"arena_extend_strategy":     "kSameAsRequested", // the other one reserves up to twice the need of a memory that many share
		"cudnn_conv_algo_search":    "HEURISTIC",        // the other one stalls for seconds at each new shape
		"do_copy_in_default_stream": "1",
	}
	var list []ort.Provider
	for _, a := range m.Accelerators().GPU {
		switch strings.ToLower(a.Name) {
		case "cuda":
			if err := settle(m, a, cudaParameters, cudaOptions); err != nil {
				return nil, err
			}
		case "tensorrt":
			options := map[string]string{"device_id": strconv.Itoa(device)}
			if err := settle(m, a, tensorRTParameters, options); err != nil {
				return nil, err
			}
			addStream(options, stream)
			list = append(list, ort.Provider{Kind: ort.TensorRT, Options: options})
		default:
			return nil, edgewise.Errorf("onnx.Load", edgewise.Unsupported,
				"model %q: gpu_execution_accelerator %q: ONNX models know cuda and tensorrt", m.Name, a.Name)
		}
	}
	for key := range cudaParameters { // Triton's own place for these
		if value, ok := m.Parameters[key]; ok {
			if err := settle(m, edgewise.Accelerator{Name: "cuda", Parameters: map[string]string{key: value.StringValue}},
				cudaParameters, cudaOptions); err != nil {
				return nil, err
			}
		}
	}
	if graphs {
		cudaOptions["enable_cuda_graph"] = "1"
	}
	addStream(cudaOptions, stream)
	return append(list, ort.Provider{Kind: ort.CUDA, Options: cudaOptions}), nil // what TensorRT cannot run, CUDA can
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
