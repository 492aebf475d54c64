// Package roofline has the command that shows what the processor of a box does at most.
package roofline

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

// Command is "edgewise roofline".
func Command(program *cli.Program) *cobra.Command {
	var measure bool
	cmd := &cobra.Command{
		Use:   "roofline",
		Short: "Show what the processor of the box does at most: operations and bytes a second",
		Long: "Roofline shows how many floating-point operations a second the runtime reaches with matrix products on one core and on\n" +
			"all, and how many bytes a second are read from memory. The box measures it once, for some seconds in which no client\n" +
			"sends requests. \"edgewise model show\" says beside it what bounds a model.",
		Args: cli.Arguments(),
	}
	cmd.Flags().BoolVar(&measure, "measure", false, "measure now, when no client has sent a request for 2 seconds")
	cmd.RunE = program.Boxed(func(ctx context.Context, box *client.Client, _ []string) (err error) {
		var r *admin.Roofline
		if measure {
			r, err = box.MeasureRoofline(ctx)
		} else {
			r, err = box.Roofline(ctx)
		}
		if err != nil {
			return err
		}
		return program.Print(r, r.Describe)
	})
	return cmd
}
