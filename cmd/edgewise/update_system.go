package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/api/client"
)

// updateAsk is a command that asks a box for one thing and says what that means.
func (p *program) updateAsk(use, short, done string, ask func(ctx context.Context, box *client.Client) error) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			box, err := p.box()
			if err != nil {
				return err
			}
			if err := ask(cmd.Context(), box); err != nil {
				return err
			}
			return p.print(map[string]string{"done": done}, func(w io.Writer) { fmt.Fprintln(w, done) })
		},
	}
}

func (p *program) updateCancel() *cobra.Command {
	return p.updateAsk("cancel", "Give an update up, also one that is ready", "the update is given up",
		func(ctx context.Context, box *client.Client) error { return box.CancelUpdate(ctx) })
}

func (p *program) updateRollback() *cobra.Command {
	return p.updateAsk("rollback", "Go back to the version that ran before",
		"the version before is next; a box that was flashed goes back with its next restart",
		func(ctx context.Context, box *client.Client) error { return box.RollBackSystem(ctx) })
}

func (p *program) updateRestart() *cobra.Command {
	return p.updateAsk("restart", "Restart the box, which brings an update that is ready", "the box restarts",
		func(ctx context.Context, box *client.Client) error { return box.RestartSystem(ctx) })
}

func (p *program) updateReset() *cobra.Command {
	var word string
	cmd := p.updateAsk("factory-reset", "Erase models, accounts and settings of the box, and restart it", "the box erases itself and restarts",
		func(ctx context.Context, box *client.Client) error { return box.EraseSystem(ctx, word) })
	cmd.Flags().StringVar(&word, "confirm", "", `the word "erase"`)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if word == "" {
			return usageError{errors.New("this erases all models, accounts and settings: say --confirm erase")}
		}
		return nil
	}
	return cmd
}
