// Package model has the commands of models: upload, list, compare, propose, activate, rename and delete.
package model

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

// commands are the commands of this noun in one invocation of the program.
type commands struct{ *cli.Program }

// Command is "edgewise model" with the commands below it.
func Command(program *cli.Program) *cobra.Command {
	p := commands{program}
	return cli.Group("model", "Upload, list, compare, measure, activate, roll back, rename and delete models",
		p.push(), p.pull(), p.sign(), p.importFolder(), p.list(), p.show(), p.diff(), p.propose(), p.measure(), p.promote(),
		p.rollback(), p.rename(), p.remove())
}

func (p commands) promote() *cobra.Command {
	label := edgewise.LiveLabel
	cmd := &cobra.Command{
		Use:   "promote NAME:VERSION",
		Short: "Point a label to a version, once the box has loaded it",
		Args:  cli.Arguments("NAME:VERSION"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			id, err := cli.ModelID(args[0])
			if err != nil {
				return err
			}
			if id.Version == 0 {
				return cli.Usagef("%q names no version: want NAME:VERSION", args[0])
			}
			l, err := box.Promote(ctx, id.Name, label, id.Version)
			if err != nil {
				return err
			}
			return p.printLabel(id.Name, l)
		}),
	}
	cmd.Flags().StringVar(&label, "label", label, "the label")
	return cmd
}

func (p commands) rollback() *cobra.Command {
	label := edgewise.LiveLabel
	cmd := &cobra.Command{
		Use:   "rollback NAME",
		Short: "Point a label back to where it pointed before",
		Args:  cli.Arguments("NAME"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			l, err := box.Rollback(ctx, args[0], label)
			if err != nil {
				return err
			}
			return p.printLabel(args[0], l)
		}),
	}
	cmd.Flags().StringVar(&label, "label", label, "the label")
	return cmd
}

func (p commands) rename() *cobra.Command {
	return &cobra.Command{
		Use:   "rename NAME TO",
		Short: "Give a model that no ensemble runs another name",
		Args:  cli.Arguments("NAME", "TO"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			m, err := box.Rename(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			return p.Print(m, func(w io.Writer) { fmt.Fprintf(w, "model %q is %q now\n", args[0], m.Name) })
		}),
	}
}

func (p commands) printLabel(name string, l admin.LabelMove) error {
	return p.Print(l, func(w io.Writer) {
		fmt.Fprintf(w, "model %q: label %q points to version %d\n", name, l.Name, l.Version)
		describeChanges(w, l.SignatureChanges)
	})
}

// describeChanges lists what a move of a label has changed in the signature.
func describeChanges(w io.Writer, list []admin.Difference) {
	for _, d := range list {
		fmt.Fprintf(w, "  signature: %v\n", d)
	}
}

func (p commands) remove() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME[:VERSION]",
		Short: "Delete a version that no label points to, or a model with all its versions",
		Args:  cli.Arguments("NAME[:VERSION]"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			id, err := cli.ModelID(args[0])
			if err != nil {
				return err
			}
			if id.Version == 0 {
				err = box.DeleteModel(ctx, id.Name)
			} else {
				err = box.DeleteVersion(ctx, id)
			}
			if err != nil {
				return err
			}
			return p.Print(id, func(w io.Writer) { fmt.Fprintf(w, "model %v is deleted\n", id) })
		}),
	}
}
