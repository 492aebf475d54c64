package modelconfig

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

const sum = "0123456789abcdefABCDEF0123456789"

func agent(key, value string) string {
	return fmt.Sprintf(`model_repository_agents { agents { name: "checksum" parameters { key: %q value: %q } } }`, key,
		value)
}

func buckets(list string) string {
	return `model_metrics { metric_control { metric_identifier { family: "nv_inference_first_response_histogram_ms" } ` +
		`histogram_options { buckets: [` + list + `] } } }`
}

func TestAgentsAndMetrics(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("1,", MaxBuckets+1), ",")
	tests := []struct{ name, config, want string }{
		{"a sum", agent("MD5:model.onnx", sum), ""},
		{"a sum in the version's folder", agent("MD5:12/model.onnx", sum), ""},
		{"no sums", `model_repository_agents { agents { name: "checksum" } }`, ""},
		{"no agents", `model_repository_agents {}`, ""},
		{
			"sum of another kind", agent("SHA256:model.onnx", sum),
			`model_repository_agents: agents[0]: parameter "SHA256:model.onnx": want MD5: and the path of a file`,
		},
		{
			"short sum", agent("MD5:model.onnx", sum[1:]),
			`model_repository_agents: agents[0]: parameter "MD5:model.onnx": want 32 hexadecimal digits, got "123456789abcdefABCDEF0123456789"`,
		},
		{
			"file that is not there", agent("MD5:1/x.onnx", sum),
			`model_repository_agents: agents[0]: parameter "MD5:1/x.onnx": there is no file "x.onnx" among the model's files`,
		},
		{
			"file elsewhere", agent("MD5:../x", sum),
			`model_repository_agents: agents[0]: parameter "MD5:../x": file path "../x": want a clean path inside the model's folder`,
		},
		{"buckets", buckets("0.05, 1, 86400000"), ""},
		{"no buckets", buckets(""), "model_metrics: metric_control[0]: histogram_options: buckets: want 1 to 64, got 0"},
		{"many buckets", buckets(many), "model_metrics: metric_control[0]: histogram_options: buckets: want 1 to 64, got 65"},
		{"buckets that descend", buckets("2, 1"), "model_metrics: metric_control[0]: histogram_options: buckets: want " +
			"milliseconds above 0 and up to 8.64e+07, ascending, got [2 1]"},
		{"a bucket of nothing", buckets("0, 1"), "model_metrics: metric_control[0]: histogram_options: buckets: want " +
			"milliseconds above 0 and up to 8.64e+07, ascending, got [0 1]"},
		{"a large bucket", buckets("86400001"), "model_metrics: metric_control[0]: histogram_options: buckets: want " +
			"milliseconds above 0 and up to 8.64e+07, ascending, got [8.6400001e+07]"},
		{"nothing in a control", "model_metrics { metric_control {} }", "model_metrics: metric_control[0]: " +
			"metric_identifier is missing\nmodel \"cat\": model_metrics: metric_control[0]: histogram_options is missing"},
		{
			"no family", "model_metrics { metric_control { metric_identifier {} histogram_options { buckets: 1 } } }",
			"model_metrics: metric_control[0]: metric_identifier: family is empty",
		},
		{
			"a family twice", buckets("1")[:len(buckets("1"))-1] + strings.TrimPrefix(buckets("2"), "model_metrics {"),
			`model_metrics: metric_control[1]: family "nv_inference_first_response_histogram_ms" is listed twice`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Validate(complete(t, tt.config, validSignature), validFiles, nil, testDefaults)
			if tt.want == "" && err != nil || tt.want != "" &&
				(err == nil || err.Error() != `model "cat": `+tt.want || edgewise.KindOf(err) != edgewise.Invalid) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if got := Checksums(complete(t, agent("MD5:7/a/b", sum), validSignature)); len(got) != 1 ||
		strings.Join(got["a/b"], " ") != strings.ToLower(sum) {
		t.Errorf("sums %v", got)
	}
	m := complete(t, agent("MD5:model.onnx", sum), validSignature)
	for i := range MaxChecksums {
		m.ModelRepositoryAgents.Agents[0].Parameters[fmt.Sprint("MD5:", i)] = sum
	}
	if err := Validate(m, validFiles, nil, testDefaults); err == nil ||
		!strings.Contains(err.Error(), "1025 parameters, at most 1024 are allowed") {
		t.Errorf("many sums: %v", err)
	}
	m = complete(t, buckets("1"), validSignature)
	m.ModelMetrics.MetricControl[0].HistogramOptions.Buckets[0] = math.NaN()
	if Validate(m, validFiles, nil, testDefaults) == nil {
		t.Error("a bucket that is no number is taken")
	}
}
