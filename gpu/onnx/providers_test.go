package onnx

import (
	"maps"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
)

func asking(name string, parameters map[string]string) *edgewise.Model {
	return &edgewise.Model{
		Name: "m",
		Optimization: &edgewise.Optimization{ExecutionAccelerators: &edgewise.ExecutionAccelerators{
			GPU: []edgewise.Accelerator{{Name: name, Parameters: parameters}},
		}},
	}
}

func TestProviderOptions(t *testing.T) {
	usual := map[string]string{
		"device_id": "1", "arena_extend_strategy": "kSameAsRequested",
		"cudnn_conv_algo_search": "HEURISTIC", "do_copy_in_default_stream": "1",
	}
	with := func(m map[string]string, more ...string) map[string]string {
		m = maps.Clone(m)
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	for _, test := range []struct {
		name  string
		model *edgewise.Model
		want  []ort.Provider
	}{
		{"nothing said", &edgewise.Model{}, []ort.Provider{{Kind: ort.CUDA, Options: usual}}},
		{
			"Triton's numbers", asking("cuda", map[string]string{"cudnn_conv_algo_search": "0", "gpu_mem_limit": "1000"}),
			[]ort.Provider{{Kind: ort.CUDA, Options: with(usual, "cudnn_conv_algo_search", "EXHAUSTIVE", "gpu_mem_limit",
				"1000")}},
		},
		{
			"Triton's parameters",
			&edgewise.Model{Parameters: map[string]edgewise.ModelParam{"arena_extend_strategy": {
				StringValue: "0",
			}}},
			[]ort.Provider{
				{Kind: ort.CUDA, Options: with(usual, "arena_extend_strategy", "kNextPowerOfTwo")},
			},
		},
		{
			"precision", asking("cuda", map[string]string{"use_tf32": "false", "prefer_nhwc": "1"}),
			[]ort.Provider{{Kind: ort.CUDA, Options: with(usual, "use_tf32", "0", "prefer_nhwc", "1")}},
		},
		{"TensorRT", asking("tensorrt", map[string]string{
			"precision_mode":           "FP16",
			"max_workspace_size_bytes": "1073741824",
		}), []ort.Provider{
			{Kind: ort.TensorRT, Options: map[string]string{
				"device_id": "1", "trt_fp16_enable": "1",
				"trt_max_workspace_size": "1073741824",
			}}, {Kind: ort.CUDA, Options: usual},
		}},
	} {
		list, err := providers(test.model, edgewise.Device{Kind: edgewise.GPU, Index: 1}, session{})
		if err != nil || len(list) != len(test.want) {
			t.Errorf("%s: %v, %v", test.name, list, err)
			continue
		}
		for i := range list {
			if list[i].Kind != test.want[i].Kind || !maps.Equal(list[i].Options, test.want[i].Options) {
				t.Errorf("%s: %v, want %v", test.name, list[i], test.want[i])
			}
		}
	}
	for name, test := range map[string]struct {
		model *edgewise.Model
		want  string
	}{
		"accelerator": {asking("openvino", nil), "know cuda, tensorrt and webgpu"},
		"file":        {asking("tensorrt", map[string]string{"trt_engine_cache_path": "/etc"}), "not on the list"},
		"value":       {asking("cuda", map[string]string{"use_tf32": "maybe"}), "want one of 0, 1, false, true"},
		"number":      {asking("cuda", map[string]string{"gpu_mem_limit": "-1"}), "want a whole number"},
	} {
		_, err := providers(test.model, edgewise.Device{Kind: edgewise.GPU}, session{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWebGPUKeepsTheLayoutOfTheModel: with the provider's own layout some convolutions are wrong. What a model says for
// accelerators of another kind of devices is left out.
func TestWebGPUKeepsTheLayoutOfTheModel(t *testing.T) {
	m := asking("webgpu", map[string]string{"validationMode": "full"})
	m.Optimization.ExecutionAccelerators.GPU = append(m.Optimization.ExecutionAccelerators.GPU,
		edgewise.Accelerator{Name: "tensorrt"})
	list, err := providers(m, edgewise.Device{Kind: edgewise.Vulkan, Index: 1}, session{})
	want := map[string]string{"preferredLayout": "NCHW", "validationMode": "full"}
	if err != nil || len(list) != 1 || list[0].Kind != ort.WebGPU || !maps.Equal(list[0].Options, want) ||
		len(list[0].Lost) == 0 {
		t.Errorf("%+v, %v", list, err)
	}
	for key, value := range map[string]string{"preferredLayout": "NHWC", "validationMode": "disabled"} {
		m = asking("webgpu", map[string]string{key: value})
		if _, err := providers(m, edgewise.Device{Kind: edgewise.Vulkan}, session{}); err == nil {
			t.Errorf("a model may set %s to %s", key, value)
		}
	}
}

func TestOperatorsThatNeedCuDNN(t *testing.T) {
	i := &edgewise.Inspection{Operators: map[string]int{
		"ai.onnx.Conv": 3, "ai.onnx.MatMul": 1,
		"com.microsoft.FusedConv": 1, "LSTM": 2,
	}}
	if got := strings.Join(needCuDNN(i), " "); got != "Conv FusedConv LSTM" {
		t.Errorf("got %s", got)
	}
}

func TestPrecisionThatAConfigurationAsksFor(t *testing.T) {
	for _, test := range []struct {
		name string
		m    *edgewise.Model
		kind edgewise.DeviceKind
		want string
	}{
		{"nothing", &edgewise.Model{}, edgewise.GPU, ""},
		{"TF32", asking("cuda", map[string]string{"use_tf32": "true"}), edgewise.GPU, "TF32"},
		{"no TF32", asking("cuda", map[string]string{"use_tf32": "0"}), edgewise.GPU, ""},
		{"Triton's place", &edgewise.Model{Parameters: map[string]edgewise.ModelParam{"use_tf32": {StringValue: "1"}}}, edgewise.GPU, "TF32"},
		{"on another device", asking("cuda", map[string]string{"use_tf32": "1"}), edgewise.Vulkan, ""},
		{"FP16", asking("tensorrt", map[string]string{"precision_mode": "FP16"}), edgewise.GPU, "FP16"},
		{"FP32", asking("tensorrt", map[string]string{"precision_mode": "FP32"}), edgewise.GPU, ""},
		{"the least of two", asking("tensorrt", map[string]string{"trt_fp16_enable": "1", "trt_int8_enable": "1"}), edgewise.GPU, "INT8"},
		{"what there is not", asking("tensorrt", map[string]string{"precision_mode": "FP4"}), edgewise.GPU, ""},
	} {
		if got := Precision(test.m, test.kind); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestEnginesAreKeptInTheFolderOfTheModelAlone(t *testing.T) {
	on := edgewise.Device{Kind: edgewise.GPU}
	list, err := providers(asking("tensorrt", nil), on, session{kept: "/kept"})
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	want := map[string]string{
		"device_id": "0", "trt_engine_cache_enable": "1", "trt_engine_cache_path": "/kept",
		"trt_timing_cache_enable": "1", "trt_timing_cache_path": "/kept",
	}
	if !maps.Equal(list[0].Options, want) {
		t.Errorf("%v, want %v", list[0].Options, want)
	}
	for _, name := range []string{
		"trt_engine_cache_enable", "trt_engine_cache_path", "trt_engine_cache_prefix", "trt_timing_cache_enable",
		"trt_timing_cache_path", "trt_ep_context_file_path", "trt_dump_ep_context_model",
	} {
		_, err := providers(asking("tensorrt", map[string]string{name: "1"}), on, session{kept: "/kept"})
		if err == nil || !strings.Contains(err.Error(), "is not on the list of those a model may set") {
			t.Errorf("a model sets %s: %v", name, err)
		}
	}
}
