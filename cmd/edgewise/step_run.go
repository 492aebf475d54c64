package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/step"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/tensorfile"
	"github.com/edgewise-ai/edgewise/wasm"
)

// stepRunFlags are the request of one run, and what becomes of the answer.
type stepRunFlags struct {
	step.Limits
	inputs, parameters  []string
	save, record, scale string
}

func (p *program) stepRun() *cobra.Command {
	f := &stepRunFlags{}
	cmd := &cobra.Command{
		Use:   "run [DIR]",
		Short: "Run the built step in DIR once, on inputs from files, and print what it answers",
		Long: "Run reads each input from a file as \"edgewise infer\" does: .npy, .json, .bin, a picture or a .wav sound. What the step\n" +
			"writes into its log, and what it used, go to standard error.\n" +
			"\n  edgewise step run -i x=features.json -p factor=2\n  edgewise step run -i image=cat.jpg --save out --record cat\n",
		Args: cli.Arguments("[DIR]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := step.Load(cmd.Context(), folderOf(args), f.Limits)
			if err != nil {
				return err
			}
			err = p.runStep(cmd, loaded, folderOf(args), f)
			if closing := loaded.Close(); err == nil {
				err = closing
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.inputs, "input", "i", nil,
		"an input, as name=FILE; the name may be left out when the step has one input; may be repeated")
	flags.StringArrayVarP(&f.parameters, "parameter", "p", nil, "a parameter of the request, as name=value; may be repeated")
	flags.StringVar(&f.save, "save", "", "write each output to FOLDER/<name>.npy instead of printing it")
	flags.StringVar(&f.record, "record", "", "write the request and the answer as the new case DIR/"+step.CasesFolder+"/NAME.json")
	flags.StringVar(&f.scale, "scale", "raw", "range of a picture's samples: raw (0..255), unit (0..1) or signed (-1..1)")
	flags.Int64Var(&f.Memory, "max-memory", wasm.DefaultMaxMemory, "bytes of the step's memory, as the box has it")
	flags.DurationVar(&f.Timeout, "timeout", 30*time.Second, "for the request")
	return cmd
}

func (p *program) runStep(cmd *cobra.Command, loaded *step.Loaded, dir string, f *stepRunFlags) error {
	req, err := f.request(loaded.Model)
	if err != nil {
		return err
	}
	response, err := loaded.Infer(cmd.Context(), req)
	for _, line := range loaded.Log() {
		fmt.Fprintf(p.Err, "log: %s\n", line)
	}
	if err != nil {
		return err
	}
	defer response.Release()
	guest := response.Timing.Guest
	fmt.Fprintf(p.Err, "fuel %d, memory %s, guest %v, host calls %v\n", guest.Fuel, kibibytes(guest.Memory),
		short(guest.Time), short(guest.Host))
	if f.record != "" {
		path, err := step.NewCase(dir, f.record, req, response)
		if err != nil {
			return err
		}
		fmt.Fprintf(p.Err, "recorded %s\n", path)
	}
	if f.save != "" {
		return cli.SaveOutputs(f.save, response.Outputs)
	}
	return p.PrintOutputs(response)
}

// request makes the request that the flags describe.
func (f *stepRunFlags) request(m *edgewise.Model) (*edgewise.Request, error) {
	scale, err := tensorfile.ParseScale(f.scale)
	if err != nil {
		return nil, cli.Usagef("--scale: %w", err)
	}
	metadata := &kserve.ModelMetadata{Name: m.Name}
	for _, s := range m.Inputs() {
		metadata.Inputs = append(metadata.Inputs, kserve.TensorMetadata{Name: s.Name, Datatype: s.Type.String(), Shape: s.Shape})
	}
	req := &edgewise.Request{Model: edgewise.ModelID{Name: m.Name}, Parameters: map[string]any{}}
	for _, text := range f.parameters {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, cli.Usagef("-p %q: want name=value", text)
		}
		req.Parameters[name] = parameterValue(value)
	}
	req.Inputs, err = cli.ReadInputs(f.inputs, metadata, tensorfile.Options{Scale: scale})
	return req, err
}

// parameterValue is a number or a truth value where the text is one in JSON, else the text itself.
func parameterValue(text string) any {
	var value any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil || decoder.More() {
		return text
	}
	switch v := value.(type) {
	case bool:
		return v
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if x, err := v.Float64(); err == nil {
			return x
		}
	}
	return text
}
