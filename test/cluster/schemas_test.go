//go:build cluster

package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kind is one that an API description says a definition is of.
type kind struct{ Group, Version, Kind string }

// writeSchemas turns a description of Kubernetes' API (OpenAPI 2) into the schemas that kubeconform reads, one for each
// kind. Keys that a definition does not list are not allowed.
func writeSchemas(t *testing.T, file, to string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Definitions map[string]map[string]any `json:"definitions"`
	}
	if err := json.Unmarshal(data, &api); err != nil {
		t.Fatal(err)
	}
	const quantity, either = "io.k8s.apimachinery.pkg.api.resource.Quantity", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
	for name, d := range api.Definitions {
		if name == quantity || name == either {
			d["type"] = []string{"string", "number"}
		} else if d["properties"] != nil {
			d["additionalProperties"] = false
		}
	}
	writeJSON(t, filepath.Join(to, "definitions.json"), map[string]any{"definitions": api.Definitions})
	for name, d := range api.Definitions {
		for _, k := range kindsOf(t, d["x-kubernetes-group-version-kind"]) {
			suffix := strings.ToLower(k.Version)
			if k.Group != "" {
				suffix = strings.Split(k.Group, ".")[0] + "-" + suffix
			}
			writeJSON(t, filepath.Join(to, strings.ToLower(k.Kind)+"-"+suffix+".json"),
				map[string]string{"$ref": "definitions.json#/definitions/" + name})
		}
	}
}

func kindsOf(t *testing.T, field any) (kinds []kind) {
	t.Helper()
	data, err := json.Marshal(field)
	if err == nil {
		err = json.Unmarshal(data, &kinds)
	}
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

func writeJSON(t *testing.T, file string, value any) {
	t.Helper()
	data, err := json.Marshal(value)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
