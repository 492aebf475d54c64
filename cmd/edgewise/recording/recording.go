// Package recording has the commands of recorded requests, and their replay.
package recording

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/recorded"
)

// How many of the latest recorded requests commands take where nothing is said, and at most.
const (
	listedRequests  = 20
	archiveRequests = 1000
	mostRequests    = 50_000
)

// commands are the commands of this noun in one invocation of the program.
type commands struct{ *cli.Program }

// Command is "edgewise recording" with the commands below it.
func Command(program *cli.Program) *cobra.Command {
	p := commands{program}
	return cli.Group("recording", "Record requests of clients with their answers, and use what was recorded",
		p.show(), p.start(), p.stop(), p.list(), p.save(),
		p.export(), p.remove(), p.promote())
}

func (p commands) show() *cobra.Command {
	return &cobra.Command{
		Use:   "show [MODEL]",
		Short: "Show which requests are recorded, and how many there are",
		Args:  cli.Arguments("[MODEL]"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			if len(args) == 1 {
				one, err := box.Recording(ctx, args[0])
				if err != nil {
					return err
				}
				return p.Print(one, func(w io.Writer) { recorded.Describe(w, &one) })
			}
			list, err := box.Recordings(ctx)
			if err != nil {
				return err
			}
			return p.Print(list, func(w io.Writer) {
				for i := range list {
					recorded.Describe(w, &list[i])
				}
			})
		}),
	}
}

func (p commands) start() *cobra.Command {
	var share float64
	var quota string
	var keep time.Duration
	var masks []string
	cmd := &cobra.Command{
		Use:   "start MODEL",
		Short: "Record a share of the requests to a model from now on",
		Long: "Start records requests with their answers on the disk of the box, until it is told to stop. What a flag does not say stays\n" +
			"as it was.\n\n  edgewise recording start cat --share 0.05 --mask photo=blur --mask name=drop\n",
		Args: cli.Arguments("MODEL"),
	}
	flags := cmd.Flags()
	flags.Float64Var(&share, "share", 0.1, "of the requests, above 0 and up to 1")
	flags.StringVar(&quota, "quota", "1GiB", "room on the disk; the oldest requests go first")
	flags.DurationVar(&keep, "keep", 7*24*time.Hour, "time after which a request is deleted")
	flags.StringArrayVar(&masks, "mask", nil, "TENSOR=drop, hash or blur; may be repeated; in place of all masks before")
	cmd.RunE = p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
		found, err := box.Recording(ctx, args[0])
		if err != nil {
			return err
		}
		s := found.Settings
		s.Enabled = true
		if flags.Changed("share") {
			s.Share = share
		}
		if flags.Changed("keep") {
			s.RetentionSeconds = int64(keep / time.Second)
		}
		if flags.Changed("quota") {
			bytes, err := humanize.ParseBytes(quota)
			if err != nil {
				return cli.Usagef("--quota %q: want a number of bytes, such as 500MB or 1GiB", quota)
			}
			s.QuotaBytes = int64(bytes)
		}
		if flags.Changed("mask") {
			if s.Masks, err = parseMasks(masks); err != nil {
				return err
			}
		}
		return p.setRecording(ctx, box, args[0], s)
	})
	return cmd
}

// parseMasks reads TENSOR=HOW; names may contain equals signs themselves.
func parseMasks(texts []string) ([]admin.RecordingMask, error) {
	masks := []admin.RecordingMask{}
	for _, text := range texts {
		at := strings.LastIndexByte(text, '=')
		if at <= 0 {
			return nil, cli.Usagef("--mask %q: want TENSOR=drop, TENSOR=hash or TENSOR=blur", text)
		}
		masks = append(masks, admin.RecordingMask{Tensor: text[:at], How: text[at+1:]})
	}
	return masks, nil
}

func (p commands) setRecording(ctx context.Context, box *client.Client, model string, s admin.RecordingSettings) error {
	set, err := box.SetRecording(ctx, model, s)
	if err != nil {
		return err
	}
	return p.Print(set, func(w io.Writer) { recorded.Describe(w, &set) })
}

func (p commands) stop() *cobra.Command {
	return &cobra.Command{
		Use:   "stop MODEL",
		Short: "Record no further requests; those that are recorded stay until their time is over",
		Args:  cli.Arguments("MODEL"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			found, err := box.Recording(ctx, args[0])
			if err != nil {
				return err
			}
			found.Settings.Enabled = false
			return p.setRecording(ctx, box, args[0], found.Settings)
		}),
	}
}

func (p commands) list() *cobra.Command {
	limit := listedRequests
	cmd := &cobra.Command{
		Use:     "list MODEL",
		Aliases: []string{"ls"},
		Short:   "List the latest recorded requests",
		Args:    cli.Arguments("MODEL"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			list, err := box.RecordedRequests(ctx, args[0], limit)
			if err != nil {
				return err
			}
			return p.Print(list, func(w io.Writer) { recorded.List(w, list) })
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "how many, at most 1000")
	return cmd
}

func (p commands) save() *cobra.Command {
	limit := archiveRequests
	cmd := &cobra.Command{
		Use:   "save MODEL FILE",
		Short: "Save the latest recorded requests as a tar archive, for replay or export",
		Args:  cli.Arguments("MODEL", "FILE"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			archive, err := box.RecordingArchive(ctx, args[0], limit)
			if err != nil {
				return err
			}
			defer func() { _ = archive.Close() }()
			return save(args[1], archive)
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "how many, at most 50000")
	return cmd
}

// save writes a new file of what r has, and removes it when that breaks off.
func save(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		_ = os.Remove(path)
	}
	return err
}

func (p commands) export() *cobra.Command {
	var file, format string
	var limit int
	var boxes recorded.Detector
	cmd := &cobra.Command{
		Use:   "export MODEL DIR",
		Short: "Write recorded requests as NumPy archives, or as pictures with a table of the answers",
		Long: "Export writes what the box has recorded of a model, or an archive that recording save has written, to a new folder.\n" +
			"npz makes a file for each request, with arrays in.NAME and out.NAME. folder makes a file for each input, a picture where\n" +
			"it is one, and answers.csv; with --boxes also annotations.json in the form of COCO, with the boxes as they were answered.\n" +
			"\n  edgewise recording export cat friday --format folder --boxes boxes --classes labels --scores scores\n",
		Args: cli.Arguments("MODEL", "DIR"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			if format != recorded.NPZ && format != recorded.Folder {
				return cli.Usagef("--format %q: want npz or folder", format)
			}
			archive, err := openRecorded(ctx, box, args[0], file, limit)
			if err != nil {
				return err
			}
			defer func() { _ = archive.Close() }()
			n, err := recorded.Export(archive, args[1], format, boxes)
			if err != nil {
				return err
			}
			return p.Print(n, func(w io.Writer) { fmt.Fprintf(w, "%d recorded requests of model %q are in %s\n", n, args[0], args[1]) })
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&file, "file", "", "archive of recorded requests; without it, those of the box")
	flags.IntVar(&limit, "limit", archiveRequests, "how many of the latest requests of the box are taken, at most 50000")
	flags.StringVar(&format, "format", recorded.NPZ, "npz or folder")
	flags.StringVar(&boxes.Boxes, "boxes", "", "the output with boxes, as x1 y1 x2 y2 in each row")
	flags.StringVar(&boxes.Classes, "classes", "", "the output with the class of each box")
	flags.StringVar(&boxes.Scores, "scores", "", "the output with the score of each box")
	return cmd
}

func recordedNumber(text string) (uint64, error) {
	number, err := strconv.ParseUint(text, 10, 62)
	if err != nil || number == 0 {
		return 0, cli.Usagef("%q: want the number of a recorded request", text)
	}
	return number, nil
}

func (p commands) promote() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "promote MODEL NUMBER",
		Short: "Make a recorded request a golden of its model",
		Args:  cli.Arguments("MODEL", "NUMBER"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			number, err := recordedNumber(args[1])
			if err != nil {
				return err
			}
			data, err := box.RecordedRequest(ctx, args[0], number)
			if err != nil {
				return err
			}
			added, err := box.AddExample(ctx, args[0], name, data)
			if err != nil {
				return err
			}
			return p.Print(added, func(w io.Writer) {
				fmt.Fprintf(w, "model %q: recorded request %d is golden %s\n", args[0], number, added.ID)
			})
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "a name for people")
	return cmd
}

func (p commands) remove() *cobra.Command {
	return &cobra.Command{
		Use:   "rm MODEL [NUMBER]",
		Short: "Delete a recorded request, or end a recording and delete all of it",
		Args:  cli.Arguments("MODEL", "[NUMBER]"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			if len(args) == 1 {
				if err := box.DeleteRecording(ctx, args[0]); err != nil {
					return err
				}
				return p.Print(args[0], func(w io.Writer) { fmt.Fprintf(w, "the recording of model %q is deleted\n", args[0]) })
			}
			number, err := recordedNumber(args[1])
			if err != nil {
				return err
			}
			if err := box.DeleteRecordedRequest(ctx, args[0], number); err != nil {
				return err
			}
			return p.Print(number, func(w io.Writer) { fmt.Fprintf(w, "recorded request %d of model %q is deleted\n", number, args[0]) })
		}),
	}
}
