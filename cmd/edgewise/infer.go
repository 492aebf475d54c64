package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/tensorfile"
)

func (p *program) infer() *cobra.Command {
	var inputs []string
	var save, scale, format string
	var timeout time.Duration
	var sequence sequenceFlags
	cmd := &cobra.Command{
		Use:   "infer MODEL[:VERSION]",
		Short: "Send one request with tensors from files, and print the answer",
		Long: "Infer reads each input from a file: .npy, .json, .bin, a picture (resized to what the model takes) or a .wav sound.\n" +
			"Each response of a decoupled model is printed as a line of JSON when it comes, until the last, or until Ctrl-C.\n" +
			"\n  edgewise infer face -i input:0=photo.jpg --scale signed\n  edgewise infer cat:3 -i x=features.npy --save out\n",
		Args: cli.Arguments("MODEL[:VERSION]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := cli.ModelID(args[0])
			if err != nil {
				return err
			}
			s, err := tensorfile.ParseScale(scale)
			if err != nil {
				return cli.Usagef("--scale: %w", err)
			}
			options := tensorfile.Options{Format: edgewise.TensorFormat(format), Scale: s}
			box, err := p.Box()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			metadata, err := box.ModelMetadata(ctx, id)
			if err != nil {
				return err
			}
			req := &edgewise.Request{Model: id}
			if req.Sequence, err = sequence.read(); err != nil {
				return err
			}
			if req.Inputs, err = cli.ReadInputs(inputs, metadata, options); err != nil {
				return err
			}
			many, err := decoupled(ctx, box, id)
			switch {
			case err != nil:
				return err
			case many && save != "":
				return cli.Usagef("--save: model %q is decoupled: it has any number of responses", id.Name)
			case many:
				return box.GenerateStream(ctx, req, shapes(metadata.Inputs), func(event []byte) error {
					_, err := fmt.Fprintf(p.Out, "%s\n", event)
					return err
				})
			}
			res, err := box.Infer(ctx, req)
			if err != nil {
				return err
			}
			defer res.Release()
			if save != "" {
				return cli.SaveOutputs(save, res.Outputs)
			}
			return p.PrintOutputs(res)
		},
	}
	cmd.Flags().StringArrayVarP(&inputs, "input", "i", nil,
		"an input, as name=FILE; the name may be left out when the model has one input; may be repeated")
	cmd.Flags().StringVar(&save, "save", "", "write each output to DIR/<name>.npy instead of printing it")
	cmd.Flags().StringVar(&scale, "scale", "raw", "range of a picture's samples: raw (0..255), unit (0..1) or signed (-1..1)")
	cmd.Flags().StringVar(&format, "format", "", "layout of a picture: FORMAT_NHWC or FORMAT_NCHW; default: what the shape tells")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this time, such as 10s; default: never")
	cmd.Flags().StringVar(&sequence.id, "sequence", "", "id of the sequence that the request belongs to: a number above 0, or a name")
	cmd.Flags().BoolVar(&sequence.start, "sequence-start", false, "the request is the first of its sequence")
	cmd.Flags().BoolVar(&sequence.end, "sequence-end", false, "the request is the last of its sequence")
	return cmd
}

// decoupled tells whether a request to a model has any number of responses.
func decoupled(ctx context.Context, box *client.Client, id edgewise.ModelID) (bool, error) {
	text, err := box.ModelConfig(ctx, id)
	if err != nil {
		return false, err
	}
	var m edgewise.Model
	if err := json.Unmarshal(text, &m); err != nil {
		return false, fmt.Errorf("the configuration of model %v: %w", id, err)
	}
	return m.Decoupled(), nil
}

// shapes are those of inputs by their names.
func shapes(inputs []kserve.TensorMetadata) map[string]edgewise.Shape {
	byName := map[string]edgewise.Shape{}
	for _, in := range inputs {
		byName[in.Name] = in.Shape
	}
	return byName
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
		return s, cli.Usagef("--sequence-start and --sequence-end need --sequence ID")
	case err != nil:
		s.Name = f.id
	case n == 0:
		return s, cli.Usagef("--sequence 0: want a number above 0, or a name")
	default:
		s.ID = n
	}
	return s, nil
}
