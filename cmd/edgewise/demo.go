package main

import (
	"context"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/demo"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/tensorfile"
)

func (p *program) demo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Read text, hear speech or find faces with the demo's models",
		Long:  "The demo does the pre- and post-processing here, in the client, and the models run on the box. \"make run\" serves them.",
		Args:  cobra.ArbitraryArgs,
		RunE:  unknownCommand,
	}
	cmd.AddCommand(p.demoOCR(), p.demoVAD(), p.demoFace())
	return cmd
}

func (p *program) demoOCR() *cobra.Command {
	return p.demoPicture("ocr", "Read the text in a picture",
		func(ctx context.Context, box *client.Client, picture *image.RGBA) (drawable, error) {
			models := demo.OCRModels{Detect: "ocr_detect", Direction: "ocr_direction", Recognise: "ocr_recognize"}
			return demo.NewOCR(box, models).Read(ctx, picture)
		})
}

func (p *program) demoFace() *cobra.Command {
	return p.demoPicture("face", "Find the faces in a picture",
		func(ctx context.Context, box *client.Client, picture *image.RGBA) (drawable, error) {
			return demo.NewFaceDetector(box, "face").Find(ctx, picture)
		})
}

// drawable is what a demo finds in a picture.
type drawable interface {
	fmt.Stringer
	Draw(picture *image.RGBA) *image.RGBA
}

func (p *program) demoPicture(
	name, short string, find func(context.Context, *client.Client, *image.RGBA) (drawable, error),
) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   name + " PICTURE",
		Short: short,
		Args:  arguments("PICTURE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			picture, err := tensorfile.ReadPicture(args[0])
			if err != nil {
				return err
			}
			box, err := p.box()
			if err != nil {
				return err
			}
			found, err := find(cmd.Context(), box, picture)
			if err != nil {
				return err
			}
			if out != "" {
				if err := writePicture(out, found.Draw(picture)); err != nil {
					return err
				}
			}
			return p.print(found, func(w io.Writer) { fmt.Fprint(w, found) })
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
		Args:  arguments("SOUND"),
		RunE: func(cmd *cobra.Command, args []string) error {
			sound, err := tensorfile.ReadSound(args[0])
			if err != nil {
				return err
			}
			if sound, err = sound.Resample(demo.SpeechRate, tensorfile.MaxFileBytes); err != nil {
				return err
			}
			box, err := p.box()
			if err != nil {
				return err
			}
			vad := demo.NewVAD(box, "vad")
			bar := p.bar(-1, "listening")
			vad.Progress = func(done, total int) {
				bar.ChangeMax(total)
				_ = bar.Set(done)
			}
			speech, err := vad.Find(cmd.Context(), sound.Samples)
			_ = bar.Finish()
			if err != nil {
				return err
			}
			return p.print(speech, func(w io.Writer) { fmt.Fprint(w, speech) })
		},
	}
}

// bar shows the progress of long work on standard error, when that is a terminal.
func (p *program) bar(total int64, what string) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(p.err), progressbar.OptionSetDescription(what), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetVisibility(isTerminal(p.err)), progressbar.OptionThrottle(100_000_000))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
