// Package rollout has the commands of rollouts: bringing a version live by stages.
package rollout

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

// commands are the commands of this noun in one invocation of the program.
type commands struct{ *cli.Program }

// Command is "edgewise rollout" with the commands below it.
func Command(program *cli.Program) *cobra.Command {
	p := commands{program}
	cmd := cli.Group("rollout", "Bring a version live by stages, and take it back when it is worse",
		p.start(), p.list(), p.settings(),
		p.of("show", "Show the present or the latest rollout of a model, with its evidence", (*client.Client).Rollout))
	for action, short := range map[string]string{
		"promote": "Make the candidate live now", "stop": "End a rollout: what is live stays live",
		"rollback": "Take the candidate back",
	} {
		cmd.AddCommand(p.of(action, short, func(box *client.Client, ctx context.Context, name string) (admin.Rollout, error) {
			return box.MoveRollout(ctx, name, action)
		}))
	}
	return cmd
}

func (p commands) start() *cobra.Command {
	var options planOptions
	cmd := &cobra.Command{
		Use:   "start NAME:VERSION",
		Short: "Send a growing share of the requests to a version, and make it live",
		Long: "Start loads a stored version beside the live one and sends it the share of the first stage. A stage is passed after\n" +
			"its time or its number of requests to the version, whichever comes first; after the last one the version goes live.\n" +
			"The box takes it back by itself when it fails more often or answers later than the live one.",
		Args: cli.Arguments("NAME:VERSION"),
	}
	options.register(cmd)
	cmd.RunE = p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
		id, err := cli.ModelID(args[0])
		if err != nil {
			return err
		}
		if id.Version == 0 {
			return cli.Usagef("%q names no version: want NAME:VERSION", args[0])
		}
		plan, err := options.plan(cmd, id.Version)
		if err != nil {
			return cli.Usage(err)
		}
		begun, err := box.StartRollout(ctx, id.Name, plan)
		if err != nil {
			return err
		}
		return p.printRollout(begun)
	})
	return cmd
}

// rolloutOf is a command that prints the rollout that do returns.
func (p commands) of(
	name, short string, do func(box *client.Client, ctx context.Context, model string) (admin.Rollout, error),
) *cobra.Command {
	return &cobra.Command{
		Use:   name + " NAME",
		Short: short,
		Args:  cli.Arguments("NAME"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			r, err := do(box, ctx, args[0])
			if err != nil {
				return err
			}
			return p.printRollout(r)
		}),
	}
}

func (p commands) list() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the present or the latest rollout of each model",
		Args:    cli.Arguments(),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, _ []string) error {
			list, err := box.Rollouts(ctx)
			if err != nil {
				return err
			}
			return p.Print(list, func(w io.Writer) {
				for _, r := range list {
					fmt.Fprintln(w, &r)
				}
			})
		}),
	}
}

func (p commands) printRollout(r admin.Rollout) error {
	return p.Print(r, r.Describe)
}
