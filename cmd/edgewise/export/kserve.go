// Package export has the commands that write what other systems need to run a model of the box.
package export

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
	"github.com/edgewise-ai/edgewise/pattern"
)

// runtime is the ClusterServingRuntime in configs/kubernetes/kserve.
const runtime = "edgewise"

// commands are the commands of this noun in one invocation of the program.
type commands struct{ *cli.Program }

// Command is "edgewise export" with the commands below it.
func Command(program *cli.Program) *cobra.Command {
	p := commands{program}
	return cli.Group("export", "Write what other systems need to run a model of the box", p.kserve())
}

// options are what the flags say.
type options struct {
	name, namespace, uri string
	gpus                 int
}

func (p commands) kserve() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "kserve MODEL",
		Short: "Write the InferenceService with which KServe runs a model",
		Long: "Kserve writes an InferenceService for the live version of a model, to the standard output. It wants the ClusterServingRuntime\n" +
			"\"" + runtime + "\" of configs/kubernetes/kserve in the cluster. KServe fetches the model's files from where the version came\n" +
			"from, an object store or a registry; for an uploaded model --storage-uri says where they stand.\n\n" +
			"  edgewise export kserve cat --storage-uri s3://models/cat | kubectl apply -f -\n",
		Args: cli.Arguments("MODEL"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			m, err := box.Model(ctx, args[0])
			if err != nil {
				return err
			}
			s, err := service(m, o)
			if err != nil {
				return err
			}
			return p.Print(s, s.write)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.uri, "storage-uri", "", "where KServe fetches the model's folder from; default: where the version came from")
	flags.StringVar(&o.name, "name", "", "name of the InferenceService; default: the model's")
	flags.StringVar(&o.namespace, "namespace", "", "its namespace; default: that of who applies it")
	flags.IntVar(&o.gpus, "gpus", 0, "NVIDIA GPUs of each replica")
	return cmd
}

// object is an InferenceService, as KServe's serving.kserve.io/v1beta1 has it.
type object struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       spec     `json:"spec"`

	Notes []string `json:"-"` // for the person who applies it
}

type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	Annotations map[string]string `json:"annotations"`
}

type spec struct {
	Predictor predictor `json:"predictor"`
}

type predictor struct {
	MinReplicas int   `json:"minReplicas"`
	Model       model `json:"model"`
}

type model struct {
	ModelFormat     named      `json:"modelFormat"`
	ProtocolVersion string     `json:"protocolVersion"`
	Runtime         string     `json:"runtime"`
	StorageURI      string     `json:"storageUri"`
	Resources       *resources `json:"resources,omitempty"`
}

type named struct {
	Name string `json:"name"`
}

type resources struct {
	Limits map[string]string `json:"limits"`
}

// service makes the InferenceService of a model's live version. Errors: Invalid, NotFound, Unsupported.
func service(m *admin.Model, o options) (*object, error) {
	live, err := liveVersion(m)
	if err != nil {
		return nil, err
	}
	format, err := formatOf(m, o.uri != "")
	if err != nil {
		return nil, err
	}
	s := &object{APIVersion: "serving.kserve.io/v1beta1", Kind: "InferenceService", Notes: []string{
		"It wants the ClusterServingRuntime \"" + runtime + "\": configs/kubernetes/kserve/runtime.yaml.",
	}}
	s.Metadata.Annotations = map[string]string{"serving.kserve.io/deploymentMode": "Standard"}
	s.Spec.Predictor = predictor{MinReplicas: 1, Model: model{
		ModelFormat: named{format}, ProtocolVersion: "v2", Runtime: runtime,
	}}
	if err := s.call(m.Name, o); err != nil {
		return nil, err
	}
	if err := s.place(m.Name, live, o.uri); err != nil {
		return nil, err
	}
	if o.gpus < 0 || o.gpus > 64 {
		return nil, cli.Usagef("--gpus %d: want 0 to 64", o.gpus)
	}
	if o.gpus > 0 {
		s.Spec.Predictor.Model.Resources = &resources{Limits: map[string]string{"nvidia.com/gpu": fmt.Sprint(o.gpus)}}
	}
	return s, nil
}

func liveVersion(m *admin.Model) (*admin.Version, error) {
	number := m.Label(edgewise.LiveLabel)
	at := slices.IndexFunc(m.Versions, func(v admin.Version) bool { return v.Version == number })
	if at < 0 {
		return nil, edgewise.Errorf("export.kserve", edgewise.NotFound, "model %q has no live version", m.Name)
	}
	return &m.Versions[at], nil
}

// formatOf returns what the runtime calls the format of a model. Errors: Unsupported for what the runtime's image does
// not run; Invalid for an ensemble, which is several models, where placed does not say that somebody has put them together.
func formatOf(m *admin.Model, placed bool) (string, error) {
	switch m.Kind {
	case "onnx", "wasm":
		return m.Kind, nil
	case "ensemble":
		if placed {
			return "triton", nil
		}
		return "", edgewise.Errorf("export.kserve", edgewise.Invalid, "model %q is an ensemble, which needs the models that it runs: "+
			"put them into one repository in Triton's layout, and name its place by --storage-uri", m.Name)
	}
	return "", edgewise.Errorf("export.kserve", edgewise.Unsupported, "model %q is of the kind %q, which the image of the "+
		"runtime %q does not run: want onnx, wasm or an ensemble of them", m.Name, m.Kind, runtime)
}

// label is the name of an InferenceService: it becomes part of a host name.
var label = pattern.New(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)

// call names the InferenceService.
func (s *object) call(name string, o options) error {
	s.Metadata.Name, s.Metadata.Namespace = name, o.namespace
	if o.name != "" {
		s.Metadata.Name = o.name
	}
	const want = "small letters, digits and hyphens, a letter first, at most 63"
	switch {
	case !label.MatchString(s.Metadata.Name) && o.name != "":
		return cli.Usagef("--name %q: want %s", o.name, want)
	case !label.MatchString(s.Metadata.Name):
		return edgewise.Errorf("export.kserve", edgewise.Invalid, "model %q cannot be the name of an InferenceService, which has %s: "+
			"say one by --name", name, want)
	case o.namespace != "" && !label.MatchString(o.namespace):
		return cli.Usagef("--namespace %q: want %s", o.namespace, want)
	}
	if s.Metadata.Name != name {
		s.Notes = append(s.Notes,
			fmt.Sprintf("Requests go to /v2/models/%s/infer, unless the model's configuration has a name.", s.Metadata.Name))
	}
	return nil
}

// place says where KServe fetches the model from: uri, else where the version came from.
func (s *object) place(name string, v *admin.Version, uri string) (err error) {
	if uri != "" {
		if err := checkURI(uri); err != nil {
			return cli.Usagef("--storage-uri %q: %w", uri, err)
		}
		s.Spec.Predictor.Model.StorageURI = uri
		return nil
	}
	uri, note := storageURI(v.Origin)
	if uri == "" || checkURI(uri) != nil {
		return edgewise.Errorf("export.kserve", edgewise.Invalid, "model %q version %d came by %q, which is no place that KServe fetches "+
			"from: put its folder into a store, and name that by --storage-uri", name, v.Version, v.Origin)
	}
	if note != "" {
		s.Notes = append(s.Notes, note)
	}
	s.Spec.Predictor.Model.StorageURI = uri
	return nil
}

// text is the object as people write it, with what there is to know of it. Everything that is not the same each time is quoted.
var text = template.Must(template.New("").Parse(`{{range .Notes}}# {{.}}
{{end}}apiVersion: {{.APIVersion}}
kind: {{.Kind}}
metadata:
  name: {{printf "%q" .Metadata.Name}}
{{with .Metadata.Namespace}}  namespace: {{printf "%q" .}}
{{end}}  annotations:{{range $key, $value := .Metadata.Annotations}}
    {{$key}}: {{$value}}{{end}}
spec:
  predictor:
    minReplicas: {{.Spec.Predictor.MinReplicas}}
{{- with .Spec.Predictor.Model}}
    model:
      modelFormat: {name: {{.ModelFormat.Name}}}
      protocolVersion: {{.ProtocolVersion}}
      runtime: {{.Runtime}}
      storageUri: {{printf "%q" .StorageURI}}
{{- with .Resources}}
      resources:
        limits:{{range $key, $value := .Limits}}
          {{$key}}: {{printf "%q" $value}}{{end}}
{{- end}}
{{- end}}
`))

func (s *object) write(w io.Writer) { _ = text.Execute(w, s) }
