package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/tensorfile"
)

// shownValues is how many values of an output the text form prints.
const shownValues = 8

func (p *program) infer() *cobra.Command {
	var inputs []string
	var save, scale, format string
	var sequence sequenceFlags
	cmd := &cobra.Command{
		Use:   "infer MODEL[:VERSION]",
		Short: "Send one request with tensors from files, and print the answer",
		Long: "Infer reads each input from a file: .npy, .json, .bin, a picture (resized to what the model takes) or a .wav sound.\n" +
			"\n  edgewise infer face -i input:0=photo.jpg --scale signed\n  edgewise infer cat:3 -i x=features.npy --save out\n",
		Args: arguments("MODEL[:VERSION]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := modelID(args[0])
			if err != nil {
				return err
			}
			s, err := tensorfile.ParseScale(scale)
			if err != nil {
				return usageError{fmt.Errorf("--scale: %w", err)}
			}
			options := tensorfile.Options{Format: edgewise.TensorFormat(format), Scale: s}
			box, err := p.box()
			if err != nil {
				return err
			}
			metadata, err := box.ModelMetadata(cmd.Context(), id)
			if err != nil {
				return err
			}
			req := &edgewise.Request{Model: id}
			if req.Sequence, err = sequence.read(); err != nil {
				return err
			}
			if req.Inputs, err = readInputs(inputs, metadata, options); err != nil {
				return err
			}
			res, err := box.Infer(cmd.Context(), req)
			if err != nil {
				return err
			}
			defer res.Release()
			if save != "" {
				return saveOutputs(save, res.Outputs)
			}
			return p.printOutputs(res)
		},
	}
	cmd.Flags().StringArrayVarP(&inputs, "input", "i", nil,
		"an input, as name=FILE; the name may be left out when the model has one input; may be repeated")
	cmd.Flags().StringVar(&save, "save", "", "write each output to DIR/<name>.npy instead of printing it")
	cmd.Flags().StringVar(&scale, "scale", "raw", "range of a picture's samples: raw (0..255), unit (0..1) or signed (-1..1)")
	cmd.Flags().StringVar(&format, "format", "", "layout of a picture: FORMAT_NHWC or FORMAT_NCHW; default: what the shape tells")
	cmd.Flags().StringVar(&sequence.id, "sequence", "", "id of the sequence that the request belongs to: a number above 0, or a name")
	cmd.Flags().BoolVar(&sequence.start, "sequence-start", false, "the request is the first of its sequence")
	cmd.Flags().BoolVar(&sequence.end, "sequence-end", false, "the request is the last of its sequence")
	return cmd
}

// sequenceFlags place a request in a sequence.
type sequenceFlags struct {
	id         string
	start, end bool
}

// read returns the sequence that the flags name; a number is an id of its own kind.
func (f *sequenceFlags) read() (edgewise.Sequence, error) {
	s := edgewise.Sequence{Start: f.start, End: f.end}
	n, err := strconv.ParseUint(f.id, 10, 64)
	switch {
	case f.id == "" && (f.start || f.end):
		return s, usageError{errors.New("--sequence-start and --sequence-end need --sequence ID")}
	case err != nil:
		s.Name = f.id
	case n == 0:
		return s, usageError{errors.New("--sequence 0: want a number above 0, or a name")}
	default:
		s.ID = n
	}
	return s, nil
}

// modelID reads NAME or NAME:VERSION.
func modelID(text string) (edgewise.ModelID, error) {
	name, number, versioned := strings.Cut(text, ":")
	id := edgewise.ModelID{Name: name}
	if err := edgewise.CheckName(name); err != nil {
		return id, usageError{err}
	}
	if !versioned {
		return id, nil
	}
	var err error
	if id.Version, err = strconv.ParseInt(number, 10, 64); err != nil || id.Version < 1 {
		return id, usageError{fmt.Errorf("%q: want NAME or NAME:VERSION, the version a number above 0", text)}
	}
	return id, nil
}

// tensorArguments are the tensors of a model that the arguments of a flag may name.
type tensorArguments struct {
	model, flag, what string // such as "-i" and "inputs"
	tensors           []kserve.TensorMetadata
}

// readInputs makes the inputs that the arguments name.
func readInputs(arguments []string, m *kserve.ModelMetadata, o tensorfile.Options) ([]edgewise.Tensor, error) {
	return readTensors(tensorArguments{m.Name, "-i", "inputs", m.Inputs}, arguments, o)
}

// readTensors makes the tensors that the arguments name, in the shapes that the model declares.
func readTensors(known tensorArguments, arguments []string, o tensorfile.Options) ([]edgewise.Tensor, error) {
	var tensors []edgewise.Tensor
	for _, argument := range arguments {
		name, file, named := cutLast(argument, known.tensors)
		if !named && len(known.tensors) == 1 && (!strings.Contains(argument, "=") || exists(argument)) {
			name, file = known.tensors[0].Name, argument
		}
		i := slices.IndexFunc(known.tensors, func(t kserve.TensorMetadata) bool { return t.Name == name })
		if i < 0 {
			return nil, usageError{fmt.Errorf("%s %q: model %q has the %s %s; want %s name=FILE", known.flag, argument, known.model,
				known.what, tensorNames(known.tensors), known.flag)}
		}
		kind, ok := edgewise.ParseDataType(known.tensors[i].Datatype)
		if !ok {
			return nil, edgewise.Errorf("infer", edgewise.Unsupported, "%s %q has type %q, which this program does not know",
				known.flag, name, known.tensors[i].Datatype)
		}
		t, err := tensorfile.Read(file, edgewise.Spec{Name: name, Type: kind, Shape: known.tensors[i].Shape}, o)
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

// saveOutputs writes one .npy file for each output.
func saveOutputs(dir string, outputs []edgewise.Tensor) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	written := map[string]bool{}
	for _, t := range outputs {
		path := dir + "/" + tensorfile.FileName(written, t.Name) + ".npy"
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		err = tensorfile.WriteNpy(f, t)
		if closing := f.Close(); err == nil {
			err = closing
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// printOutputs prints the whole answer as JSON, or the beginning of each output as text.
func (p *program) printOutputs(res *edgewise.Response) error {
	body, _, err := kserve.AppendInferResponse(nil, &kserve.InferRequest{}, res)
	if err != nil {
		return err
	}
	if p.output == "json" {
		_, err := fmt.Fprintf(p.out, "%s\n", body)
		return err
	}
	var answer struct {
		Outputs []struct {
			Name, Datatype string
			Shape          edgewise.Shape
			Data           []json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("the answer holds values that only --output json prints: %w", err)
	}
	fmt.Fprintf(p.out, "model %v\n", res.Model)
	for _, t := range answer.Outputs {
		fmt.Fprintf(p.out, "%s %s%v %s\n", t.Name, t.Datatype, t.Shape, beginning(t.Data))
	}
	return nil
}

func beginning(values []json.RawMessage) string {
	var b strings.Builder
	for i, v := range values {
		if i == shownValues {
			fmt.Fprintf(&b, " ... %d values", len(values))
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.Write(v)
	}
	return b.String()
}
