package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/tensorfile"
)

// TensorArguments are the tensors of a model that the arguments of a flag may name.
type TensorArguments struct {
	Model, Flag, What string // such as "-i" and "inputs"
	Tensors           []kserve.TensorMetadata
}

// ReadInputs makes the inputs that the arguments name.
func ReadInputs(arguments []string, m *kserve.ModelMetadata, o tensorfile.Options) ([]edgewise.Tensor, error) {
	return ReadTensors(TensorArguments{Model: m.Name, Flag: "-i", What: "inputs", Tensors: m.Inputs}, arguments, o)
}

// ReadTensors makes the tensors that the arguments name, in the shapes that the model declares.
func ReadTensors(known TensorArguments, arguments []string, o tensorfile.Options) ([]edgewise.Tensor, error) {
	var tensors []edgewise.Tensor
	for _, argument := range arguments {
		name, file, named := cutLast(argument, known.Tensors)
		if !named && len(known.Tensors) == 1 && (!strings.Contains(argument, "=") || exists(argument)) {
			name, file = known.Tensors[0].Name, argument
		}
		i := slices.IndexFunc(known.Tensors, func(t kserve.TensorMetadata) bool { return t.Name == name })
		if i < 0 {
			return nil, Usagef("%s %q: model %q has the %s %s; want %s name=FILE", known.Flag, argument, known.Model,
				known.What, tensorNames(known.Tensors), known.Flag)
		}
		kind, ok := edgewise.ParseDataType(known.Tensors[i].Datatype)
		if !ok {
			return nil, edgewise.Errorf("infer", edgewise.Unsupported, "%s %q has type %q, which this program does not know",
				known.Flag, name, known.Tensors[i].Datatype)
		}
		t, err := tensorfile.Read(file, edgewise.Spec{Name: name, Type: kind, Shape: known.Tensors[i].Shape}, o)
		if err != nil {
			return nil, err
		}
		tensors = append(tensors, t)
	}
	return tensors, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// cutLast splits name=FILE at the equals sign behind a name that the model has; names may contain one themselves.
func cutLast(argument string, tensors []kserve.TensorMetadata) (name, file string, ok bool) {
	for _, in := range tensors {
		if rest, found := strings.CutPrefix(argument, in.Name+"="); found {
			return in.Name, rest, true
		}
	}
	return "", "", false
}

func tensorNames(tensors []kserve.TensorMetadata) string {
	var names []string
	for _, t := range tensors {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}
