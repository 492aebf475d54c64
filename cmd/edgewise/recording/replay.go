package recording

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/recorded"
)

// maxReplayed bounds the requests of a replay that are in progress.
const maxReplayed = 256

// Replay is "edgewise replay".
func Replay(program *cli.Program) *cobra.Command {
	p := commands{program}
	var file, rules string
	var limit int
	o := recorded.Options{}
	cmd := &cobra.Command{
		Use:   "replay MODEL[:VERSION]",
		Short: "Send recorded requests to a version again, and compare the answers with the recorded ones",
		Long: "Replay takes what the box has recorded of the model, or an archive that recording save has written, also one of another\n" +
			"box. Answers are compared by the rules of --rules, or else by the defaults of their data types; --exact wants equal bits.\n" +
			"It fails when an answer differs.\n\n  edgewise replay cat:8\n  edgewise replay cat:8 --file friday.tar --speed 1 --exact\n",
		Args: cli.Arguments("MODEL[:VERSION]"),
	}
	flags := cmd.Flags()
	flags.StringVar(&file, "file", "", "archive of recorded requests; without it, those of the box")
	flags.IntVar(&limit, "limit", archiveRequests, "how many of the latest requests of the box are taken, at most 50000")
	flags.Float64Var(&o.Speed, "speed", 0, "1: at the recorded speed; 2: twice as fast; 0: as fast as the box answers")
	flags.IntVar(&o.Concurrency, "concurrency", 1, "requests in progress, at most 256")
	flags.StringVar(&rules, "rules", "", "JSON file with an array of rules by which outputs are compared")
	flags.BoolVar(&o.Exact, "exact", false, "answers must have equal bits")
	cmd.RunE = p.Boxed(func(ctx context.Context, box *client.Client, args []string) (err error) {
		if o.Target, err = cli.ModelID(args[0]); err != nil {
			return err
		}
		if o.Concurrency < 1 || o.Concurrency > maxReplayed || !(o.Speed >= 0) {
			return cli.Usagef("--concurrency %d --speed %v: want 1 to %d requests, and no speed below 0", o.Concurrency,
				o.Speed, maxReplayed)
		}
		if o.Rules, err = cli.ReadRules(rules); err != nil {
			return err
		}
		archive, err := openRecorded(ctx, box, o.Target.Name, file, limit)
		if err != nil {
			return err
		}
		defer func() { _ = archive.Close() }()
		report, err := recorded.Replay(ctx, box, archive, o)
		if err != nil {
			return err
		}
		if err := p.Print(report, report.WriteText); err != nil || report.Agreed == report.Requests {
			return err
		}
		return edgewise.Errorf("replay", edgewise.Conflict, "%d of %d recorded requests to model %v are answered otherwise",
			report.Requests-report.Agreed, report.Requests, o.Target)
	})
	return cmd
}

// openRecorded opens an archive of recorded requests: a file, or, for "", what the box has recorded of a model.
func openRecorded(ctx context.Context, box *client.Client, model, file string, limit int) (io.ReadCloser, error) {
	if file != "" {
		return os.Open(file)
	}
	if limit < 1 || limit > mostRequests {
		return nil, cli.Usagef("--limit %d: want 1 to %d", limit, mostRequests)
	}
	return box.RecordingArchive(ctx, model, limit)
}
