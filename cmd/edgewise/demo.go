package main

import (
	"context"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/demo"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/tensorfile"
)

func (p *program) demo() *cobra.Command {
	cmd := cli.Group("demo", "Read text, hear speech or find faces with the demo's models",
		p.demoPicture("ocr", "Read the text in a picture", func(ctx context.Context, r requester) (drawable, error) {
			return demo.ReadText(ctx, r.box, r.file)
		}),
		p.demoVAD(),
		p.demoPicture("face", "Find the faces in a picture", func(ctx context.Context, r requester) (drawable, error) {
			return demo.FindFaces(ctx, r.box, r.file)
		}))
	cmd.Long = "The demo sends a file to one of the demo's pipelines, which run on the box: WebAssembly steps around the\n" +
		"models. \"make run\" serves them."
	return cmd
}

// requester is a box and the file that it is sent.
type requester struct {
	box  edgewise.Inferer
	file edgewise.Tensor
}

// requester reads a file as the one element of a pipeline's input.
func (p *program) requester(path, input string) (r requester, err error) {
	spec := edgewise.Spec{Name: input, Type: edgewise.Bytes, Shape: edgewise.Shape{1}}
	if r.file, err = tensorfile.Read(path, spec, tensorfile.Options{}); err != nil {
		return r, err
	}
	r.box, err = p.Box()
	return r, err
}

// drawable is what a demo finds in a picture.
type drawable interface {
	fmt.Stringer
	Draw(picture *image.RGBA) *image.RGBA
}

func (p *program) demoPicture(
	name, short string, find func(context.Context, requester) (drawable, error),
) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   name + " PICTURE",
		Short: short,
		Args:  cli.Arguments("PICTURE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := p.requester(args[0], "image")
			if err != nil {
				return err
			}
			found, err := find(cmd.Context(), r)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if out != "" {
				picture, err := tensorfile.ReadPicture(args[0])
				if err != nil {
					return err
				}
				if err := writePicture(out, found.Draw(picture)); err != nil {
					return err
				}
			}
			return p.Print(found, func(w io.Writer) { fmt.Fprint(w, found) })
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write the picture with what was found drawn on it, as PNG")
	return cmd
}

func writePicture(path string, picture image.Image) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = png.Encode(f, picture)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}

func (p *program) demoVAD() *cobra.Command {
	return &cobra.Command{
		Use:   "vad SOUND",
		Short: "Say when somebody speaks in a WAV file",
		Args:  cli.Arguments("SOUND"),
		RunE: func(cmd *cobra.Command, args []string) error {
			sound, err := tensorfile.ReadSound(args[0])
			if err != nil {
				return err
			}
			r, err := p.requester(args[0], "sound")
			if err != nil {
				return err
			}
			speech, err := demo.FindSpeech(cmd.Context(), r.box, r.file, float64(len(sound.Samples))/float64(sound.Rate))
			if err != nil {
				return err
			}
			return p.Print(speech, func(w io.Writer) { fmt.Fprint(w, speech) })
		},
	}
}
