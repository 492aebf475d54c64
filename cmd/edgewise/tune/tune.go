// Package tune has the command that has a box find the configuration of a model.
package tune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

// options are those of one invocation.
type options struct {
	*cli.Program
	p99, limit         time.Duration
	throughput         float64
	memory, weights    string
	power              bool
	store, stop, shown bool
}

// Command is "edgewise tune".
func Command(program *cli.Program) *cobra.Command {
	o := options{Program: program}
	cmd := &cobra.Command{
		Use:   "tune NAME[:VERSION]",
		Short: "Find the configuration of a model that suits an objective best on this machine",
		Long: "Tune has the box load other configurations of the live version beside it, measure them while no client sends requests,\n" +
			"and make a version of the best one, which goes live as an uploaded version does and can be rolled back. Without\n" +
			"an objective it looks for the lowest latency that loses no more than 5 % throughput, or for what the parameter\n" +
			"\"tune\" of the model's configuration says. The command follows the tuning. It can be interrupted: the tuning goes\n" +
			"on, and the same command follows it again.",
		Args: cli.Arguments("NAME[:VERSION]"),
	}
	f := cmd.Flags()
	f.DurationVar(&o.p99, "p99", 0, "the most that 99 % of the requests may take, such as 40ms")
	f.Float64Var(&o.throughput, "throughput", 0, "requests per second that it has to carry")
	f.StringVar(&o.memory, "memory", "", "memory that its process may take, such as 500MiB")
	f.BoolVar(&o.power, "power", false, "find the lowest energy per request, where the machine tells of its energy")
	f.StringVar(&o.weights, "weights", "", "what counts, such as latency=2,throughput=1,memory=1,power=1")
	f.DurationVar(&o.limit, "limit", 0, "time of measurement at the most (default 5m0s)")
	f.BoolVar(&o.store, "store-only", false, "store the new version and leave live what is live")
	f.BoolVar(&o.stop, "stop", false, "end the tuning of the model")
	f.BoolVar(&o.shown, "report", false, "show what was found of a version, by default of the live one")
	cmd.MarkFlagsMutuallyExclusive("stop", "report")
	cmd.RunE = o.Boxed(o.run)
	return cmd
}

func (o *options) run(ctx context.Context, box *client.Client, args []string) error {
	id, err := cli.ModelID(args[0])
	if err != nil {
		return err
	}
	switch {
	case o.shown:
		return o.report(ctx, box, id)
	case id.Version != 0:
		return cli.Usagef("%q names a version: the live one is tuned", args[0])
	case o.stop:
		t, err := box.StopTuning(ctx, id.Name)
		if err != nil {
			return err
		}
		return o.print(t)
	}
	ask, err := o.ask()
	if err != nil {
		return err
	}
	t, err := box.Tuning(ctx, id.Name)
	if err != nil && edgewise.KindOf(err) != edgewise.NotFound {
		return err
	}
	if err != nil || !t.Active() {
		if t, err = box.StartTuning(ctx, id.Name, ask); err != nil {
			return err
		}
	} else if ask.Objective != nil {
		return cli.Usagef("model %q is being tuned for %v: --stop ends that", id.Name, t.Objective)
	}
	return o.follow(ctx, box, t)
}

// ask is what the options ask for.
func (o *options) ask() (ask admin.TuneRequest, err error) {
	ask.Seconds, ask.StoreOnly = int(o.limit/time.Second), o.store
	wanted := admin.TuneObjective{P99: float64(o.p99) / float64(time.Millisecond), Throughput: o.throughput, Power: o.power}
	if o.memory != "" {
		bytes, err := humanize.ParseBytes(o.memory)
		if err != nil {
			return ask, cli.Usagef("--memory %q: want a size such as 500MiB", o.memory)
		}
		wanted.MemoryBytes = int64(bytes)
	}
	if wanted.Weights, err = weightsOf(o.weights); err != nil {
		return ask, err
	}
	if wanted != (admin.TuneObjective{}) {
		ask.Objective = &wanted
	}
	return ask, nil
}

// weightsOf reads weights such as "latency=2,throughput=1"; nil for none.
func weightsOf(text string) (*admin.TuneWeights, error) {
	if text == "" {
		return nil, nil
	}
	var w admin.TuneWeights
	for part := range strings.SplitSeq(text, ",") {
		name, number, _ := strings.Cut(part, "=")
		value, err := strconv.ParseFloat(number, 64)
		target, ok := map[string]*float64{
			"latency": &w.Latency, "throughput": &w.Throughput, "memory": &w.Memory, "power": &w.Power,
		}[name]
		if err != nil || !ok {
			return nil, cli.Usagef("--weights %q: want names of latency, throughput, memory and power with numbers, such as latency=2,memory=1",
				text)
		}
		*target = value
	}
	return &w, nil
}

// followEvery is how often the box is asked for the progress.
const followEvery = time.Second

// follow prints the progress of a tuning until it ends.
func (o *options) follow(ctx context.Context, box *client.Client, t admin.Tuning) error {
	last := ""
	for t.Active() {
		if line := o.progress(t); line != last && o.Output == "text" {
			fmt.Fprintln(o.Err, line)
			last = line
		}
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
			fmt.Fprintf(o.Err, "the tuning goes on: \"edgewise tune %s\" follows it, with --stop it ends\n", t.Model)
			return ctx.Err()
		}
		var err error
		if t, err = box.Tuning(ctx, t.Model); err != nil && ctx.Err() == nil {
			return err
		}
	}
	if err := o.print(t); err != nil {
		return err
	}
	switch t.State {
	case admin.TuneFailed:
		return errors.New(t.Error)
	case admin.TuneStopped:
		return errors.New("the tuning was stopped")
	}
	return nil
}

// progress is one line of what a tuning does.
func (o *options) progress(t admin.Tuning) string {
	switch t.State {
	case admin.TuneQueued:
		return "queued: one model is tuned at a time"
	case admin.TuneWaiting:
		return "waiting until no client sends requests"
	}
	if t.Phase == "" {
		return fmt.Sprintf("tuning version %d of %s for %v", t.Version, t.Model, t.Objective)
	}
	return t.Phase
}

func (o *options) print(t admin.Tuning) error {
	return o.Print(t, func(w io.Writer) {
		if t.Report != nil {
			t.Report.Describe(w)
			return
		}
		fmt.Fprintf(w, "the tuning of %s is %s\n", t.Model, t.State)
	})
}

// report prints what was found of a version.
func (o *options) report(ctx context.Context, box *client.Client, id edgewise.ModelID) error {
	if id.Version == 0 {
		m, err := box.Model(ctx, id.Name)
		if err != nil {
			return err
		}
		if id.Version = m.Label(edgewise.LiveLabel); id.Version == 0 {
			return cli.Usagef("model %q has no live version: want NAME:VERSION", id.Name)
		}
	}
	r, err := box.TuneReport(ctx, id)
	if err != nil {
		return err
	}
	return o.Print(r, r.Describe)
}
