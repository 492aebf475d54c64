package export

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

// export runs the command with a box that has one model.
func export(t *testing.T, m admin.Model, arguments ...string) (string, error) {
	t.Helper()
	box := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/models/"+m.Name {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(m)
	}))
	defer box.Close()
	var out strings.Builder
	command := Command(&cli.Program{Server: box.URL, Out: &out, Output: "text"})
	command.SetArgs(append([]string{"kserve", m.Name}, arguments...))
	command.SilenceErrors, command.SilenceUsage = true, true
	err := command.ExecuteContext(t.Context())
	return out.String(), err
}

// from is a model whose live version came from somewhere.
func from(name, kind, origin string) admin.Model {
	return admin.Model{
		Name: name, Kind: kind, Labels: []edgewise.Label{{Name: edgewise.LiveLabel, Version: 3}},
		Versions: []admin.Version{{Name: name, Version: 2, Origin: "upload"}, {Name: name, Version: 3, Origin: origin}},
	}
}

func TestAModelOfABucketIsWrittenForKServe(t *testing.T) {
	said, err := export(t, from("cat", "onnx", "s3://models/cat"), "--namespace=vision", "--gpus=1")
	want := `# It wants the ClusterServingRuntime "edgewise": configs/kubernetes/kserve/runtime.yaml.
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: "cat"
  namespace: "vision"
  annotations:
    serving.kserve.io/deploymentMode: Standard
spec:
  predictor:
    minReplicas: 1
    model:
      modelFormat: {name: onnx}
      protocolVersion: v2
      runtime: edgewise
      storageUri: "s3://models/cat"
      resources:
        limits:
          nvidia.com/gpu: "1"
`
	if err != nil || said != want {
		t.Errorf("got %v\n%swant\n%s", err, said, want)
	}
}

func TestWhereAVersionCameFromIsWhereKServeFetchesIt(t *testing.T) {
	digested := "oci://registry.example/cat@sha256:" + strings.Repeat("a1", 32)
	for origin, want := range map[string][]string{
		"gs://models/cat":                       {`storageUri: "gs://models/cat"`},
		"as://shop/models/cat":                  {`storageUri: "https://shop.blob.core.windows.net/models/cat"`},
		"as://shop.example/models/cat":          {`storageUri: "https://shop.example/models/cat"`},
		"s3://https://minio.example:9000/b/cat": {`storageUri: "s3://b/cat"`, "# The bucket is at https://minio.example:9000:"},
		"s3://minio:9000/b/cat":                 {`storageUri: "s3://b/cat"`, "# The bucket is at http://minio:9000:"},
		digested:                                {`storageUri: "` + digested + `"`, "only images"},
	} {
		said, err := export(t, from("cat", "wasm", origin))
		for _, part := range want {
			if err != nil || !strings.Contains(said, part) {
				t.Errorf("%s: %v, no %q in\n%s", origin, err, part, said)
			}
		}
	}
}

func TestAFlagSaysWhereAModelStands(t *testing.T) {
	said, err := export(t, from("Cat_2", "ensemble", "upload"), "--storage-uri=pvc://models/all", "--name=cat")
	for _, part := range []string{`storageUri: "pvc://models/all"`, "{name: triton}", `name: "cat"`, "/v2/models/cat/infer"} {
		if err != nil || !strings.Contains(said, part) {
			t.Errorf("%v, no %q in\n%s", err, part, said)
		}
	}
}

func TestWhatKServeCannotRunIsRefused(t *testing.T) {
	staged := from("cat", "onnx", "s3://models/cat")
	staged.Labels = nil
	for _, c := range []struct {
		name      string
		model     admin.Model
		arguments []string
		want      string
	}{
		{"uploaded", from("cat", "onnx", "upload"), nil, `model "cat" version 3 came by "upload"`},
		{"a registry as repository", from("cat", "onnx", "oci://r.example/cat:1/cat"), nil, "no place that KServe fetches from"},
		{"no live version", staged, nil, "no live version"},
		{"ensemble", from("cat", "ensemble", "upload"), nil, "one repository in Triton's layout"},
		{"backend", from("cat", "llama", "s3://models/cat"), nil, `of the kind "llama"`},
		{"name", from("Cat_2", "onnx", "s3://models/cat"), nil, "say one by --name"},
		{"long name", from(strings.Repeat("a", 64), "onnx", "s3://models/cat"), nil, "say one by --name"},
		{"flag's name", from("cat", "onnx", "s3://models/cat"), []string{"--name=-a"}, `--name "-a"`},
		{"namespace", from("cat", "onnx", "s3://models/cat"), []string{"--namespace=a.b"}, `--namespace "a.b"`},
		{"scheme", from("cat", "onnx", "upload"), []string{"--storage-uri=ftp://a/b"}, "want a URL of KServe: gs://"},
		{"no URL", from("cat", "onnx", "upload"), []string{"--storage-uri=/srv/models"}, "want a URL of KServe"},
		{"bucket", from("cat", "onnx", "upload"), []string{"--storage-uri=s3:///cat"}, "names no bucket"},
		{"broken", from("cat", "onnx", "upload"), []string{"--storage-uri=s3://%zz"}, "--storage-uri"},
		{"secret", from("cat", "onnx", "upload"), []string{"--storage-uri=https://a:b@c/d"}, "belong into a Secret"},
		{"gpus", from("cat", "onnx", "s3://models/cat"), []string{"--gpus=-1"}, "--gpus -1"},
	} {
		if said, err := export(t, c.model, c.arguments...); err == nil || !strings.Contains(err.Error(), c.want) || said != "" {
			t.Errorf("%s: %v, want %q; printed %q", c.name, err, c.want, said)
		}
	}
}
