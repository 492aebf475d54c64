package modelconfig_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
)

func TestTheSameFileOfSeveralVersionsHasSeveralSums(t *testing.T) {
	one, two := strings.Repeat("0", 32), strings.Repeat("A", 32)
	m := &edgewise.Model{ModelRepositoryAgents: &edgewise.ModelRepositoryAgents{Agents: []edgewise.RepositoryAgent{
		{Name: "checksum", Parameters: map[string]string{"MD5:1/model.onnx": one, "MD5:2/model.onnx": two}},
	}}}
	if got := modelconfig.Checksums(m)["model.onnx"]; !slices.Equal(got, []string{one, strings.ToLower(two)}) {
		t.Errorf("%q", got)
	}
}
