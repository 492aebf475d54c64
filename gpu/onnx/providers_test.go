package onnx

import (
	"maps"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
)

func accelerator(name string, parameters map[string]string) *edgewise.Model {
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
			"Triton's numbers", accelerator("cuda", map[string]string{"cudnn_conv_algo_search": "0", "gpu_mem_limit": "1000"}),
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
			"precision", accelerator("cuda", map[string]string{"use_tf32": "false", "prefer_nhwc": "1"}),
			[]ort.Provider{{Kind: ort.CUDA, Options: with(usual, "use_tf32", "0", "prefer_nhwc", "1")}},
		},
		{"TensorRT", accelerator("tensorrt", map[string]string{
			"precision_mode":           "FP16",
			"max_workspace_size_bytes": "1073741824",
		}), []ort.Provider{
			{Kind: ort.TensorRT, Options: map[string]string{
				"device_id": "1", "trt_fp16_enable": "1",
				"trt_max_workspace_size": "1073741824",
			}}, {Kind: ort.CUDA, Options: usual},
		}},
	} {
		list, err := providers(test.model, 1, nil, false)
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
		"accelerator": {accelerator("openvino", nil), "know cuda and tensorrt"},
		"file":        {accelerator("tensorrt", map[string]string{"trt_engine_cache_path": "/etc"}), "not on the list"},
		"value":       {accelerator("cuda", map[string]string{"use_tf32": "maybe"}), "want one of 0, 1, false, true"},
		"number":      {accelerator("cuda", map[string]string{"gpu_mem_limit": "-1"}), "want a whole number"},
	} {
		if _, err := providers(test.model, 0, nil, false); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
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
