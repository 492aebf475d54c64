package rollout

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

// settings is the command for how uploaded versions go live.
func (p commands) settings() *cobra.Command {
	var options planOptions
	var byStages, atOnce bool
	cmd := &cobra.Command{
		Use:   "settings NAME",
		Short: "Show or change how uploaded versions of a model go live",
		Long: "Settings shows how versions of a model go live that are pushed, imported or published: at once, or by the stages of\n" +
			"a plan. --by-stages changes it to the plan of the other options, --at-once back. The parameter \"rollout\" of a\n" +
			"version's own configuration comes before it.",
		Args: cli.Arguments("NAME"),
	}
	cmd.Flags().BoolVar(&byStages, "by-stages", false, "from now on they go live by stages")
	cmd.Flags().BoolVar(&atOnce, "at-once", false, "from now on they go live at once")
	cmd.MarkFlagsMutuallyExclusive("by-stages", "at-once")
	options.register(cmd)
	cmd.RunE = p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
		plan, err := options.plan(cmd, 0)
		if err != nil {
			return cli.Usage(err)
		}
		var s admin.RolloutSettings
		switch {
		case byStages:
			s, err = box.SetRolloutSettings(ctx, args[0], admin.RolloutSettings{Plan: &plan})
		case atOnce:
			s, err = box.SetRolloutSettings(ctx, args[0], s)
		default:
			s, err = box.RolloutSettings(ctx, args[0])
		}
		if err != nil {
			return err
		}
		return p.Print(s, func(w io.Writer) {
			fmt.Fprintf(w, "model %q: uploaded versions go live %s\n", args[0], describeSettings(s))
		})
	})
	return cmd
}

// describeSettings says how versions go live.
func describeSettings(s admin.RolloutSettings) string {
	if s.Plan == nil {
		return "at once"
	}
	var stages []string
	for _, stage := range s.Plan.Stages {
		stages = append(stages, fmt.Sprintf("%g %%", stage.Percent))
	}
	text := "by stages: " + strings.Join(stages, ", ")
	if len(stages) == 0 {
		text = "by stages"
	}
	if s.Plan.Shadow != nil {
		text += fmt.Sprintf(", shadow of %g %%", s.Plan.Shadow.Percent)
	}
	if m := s.Plan.Metric; m != nil {
		text += fmt.Sprintf(", metric %q", m.Output)
	}
	return text
}
