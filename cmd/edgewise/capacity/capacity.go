// Package capacity has the command that asks a box what it can carry.
package capacity

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

// options are those of one invocation.
type options struct {
	*cli.Program
	file           string
	check, measure bool
	seconds        time.Duration
	scale          float64
}

// Command is "edgewise capacity".
func Command(program *cli.Program) *cobra.Command {
	o := options{Program: program}
	cmd := &cobra.Command{
		Use:   "capacity [MODEL=RATE[,p99=DURATION]]...",
		Short: "Say whether the box carries models at rates, and which resource breaks first",
		Long: "Capacity takes models with requests a second, such as ocr=5,p99=300ms, and says whether the box carries them together,\n" +
			"what breaks first, and by what factor all rates may grow. The box measures each model once, for some seconds in which\n" +
			"no client sends requests. --check sends requests at these rates and prints what came of it beside the prediction. The\n" +
			"exit code is 1 when the load is not feasible or a check did not hold.\n\n" +
			"--file reads the same as JSON: {\"models\": [{\"model\": \"ocr\", \"rate\": 5, \"p99_ms\": 300}]}",
	}
	f := cmd.Flags()
	f.StringVar(&o.file, "file", "", "read the models and rates from this file")
	f.BoolVar(&o.check, "check", false, "send requests at these rates, and compare")
	f.DurationVar(&o.seconds, "seconds", 0, "of the check, 1s to 1m0s (default 5s)")
	f.BoolVar(&o.measure, "measure", false, "measure the models again")
	f.Float64Var(&o.scale, "scale", 1, "multiply all rates")
	cmd.RunE = o.Boxed(o.run)
	return cmd
}

func (o *options) run(ctx context.Context, box *client.Client, args []string) error {
	ask := admin.CapacityRequest{}
	if o.file != "" {
		text, err := os.ReadFile(o.file)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &ask); err != nil {
			return cli.Usagef("%s: %v", o.file, err)
		}
	}
	for _, arg := range args {
		m, err := parse(arg)
		if err != nil {
			return err
		}
		ask.Models = append(ask.Models, m)
	}
	for i := range ask.Models {
		ask.Models[i].Rate *= o.scale
	}
	ask.Check, ask.Measure, ask.Seconds = ask.Check || o.check, ask.Measure || o.measure, max(ask.Seconds, int(o.seconds/time.Second))
	found, err := box.Capacity(ctx, ask)
	if err != nil {
		return err
	}
	if err := o.Print(found, found.Describe); err != nil {
		return err
	}
	switch {
	case !found.Feasible:
		return errors.New("the load is not feasible")
	case found.Check != nil && !found.Check.Held:
		return errors.New("the box did not hold the load")
	}
	return nil
}

// parse reads a model with its rate, such as "ocr=5,p99=300ms".
func parse(arg string) (m admin.CapacityModel, err error) {
	name, rest, ok := strings.Cut(arg, "=")
	rate, bound, bounded := strings.Cut(rest, ",")
	wrong := func() (admin.CapacityModel, error) {
		return m, cli.Usagef("%q: want a model with its requests a second, such as ocr=5 or ocr=5,p99=300ms", arg)
	}
	if m.Model = name; !ok || name == "" {
		return wrong()
	}
	if m.Rate, err = strconv.ParseFloat(rate, 64); err != nil || !(m.Rate > 0) {
		return wrong()
	}
	if !bounded {
		return m, nil
	}
	text, ok := strings.CutPrefix(bound, "p99=")
	d, bad := time.ParseDuration(text)
	if !ok || bad != nil || d <= 0 {
		return wrong()
	}
	m.P99 = float64(d) / float64(time.Millisecond)
	return m, nil
}
