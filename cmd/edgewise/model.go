package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
)

func (p *program) model() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Upload, list, compare, activate, roll back, rename and delete models",
		Args:  cobra.ArbitraryArgs,
		RunE:  unknownCommand,
	}
	cmd.AddCommand(p.modelPush(), p.modelImport(), p.modelList(), p.modelShow(), p.modelDiff(), p.modelPropose(), p.modelPromote(),
		p.modelRollback(), p.modelRename(), p.modelRemove())
	return cmd
}

// boxed runs a command with a client of the box.
func (p *program) boxed(run func(ctx context.Context, box *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		box, err := p.box()
		if err != nil {
			return err
		}
		return run(cmd.Context(), box, args)
	}
}

func (p *program) modelPromote() *cobra.Command {
	label := edgewise.LiveLabel
	cmd := &cobra.Command{
		Use:   "promote NAME:VERSION",
		Short: "Point a label to a version, once the box has loaded it",
		Args:  arguments("NAME:VERSION"),
		RunE: p.boxed(func(ctx context.Context, box *client.Client, args []string) error {
			id, err := modelID(args[0])
			if err != nil {
				return err
			}
			if id.Version == 0 {
				return usageError{fmt.Errorf("%q names no version: want NAME:VERSION", args[0])}
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

func (p *program) modelRollback() *cobra.Command {
	label := edgewise.LiveLabel
	cmd := &cobra.Command{
		Use:   "rollback NAME",
		Short: "Point a label back to where it pointed before",
		Args:  arguments("NAME"),
		RunE: p.boxed(func(ctx context.Context, box *client.Client, args []string) error {
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

func (p *program) modelRename() *cobra.Command {
	return &cobra.Command{
		Use:   "rename NAME TO",
		Short: "Give a model that no ensemble runs another name",
		Args:  arguments("NAME", "TO"),
		RunE: p.boxed(func(ctx context.Context, box *client.Client, args []string) error {
			m, err := box.Rename(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			return p.print(m, func(w io.Writer) { fmt.Fprintf(w, "model %q is %q now\n", args[0], m.Name) })
		}),
	}
}

func (p *program) printLabel(name string, l admin.LabelMove) error {
	return p.print(l, func(w io.Writer) {
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

func (p *program) modelRemove() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME[:VERSION]",
		Short: "Delete a version that no label points to, or a model with all its versions",
		Args:  arguments("NAME[:VERSION]"),
		RunE: p.boxed(func(ctx context.Context, box *client.Client, args []string) error {
			id, err := modelID(args[0])
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
			return p.print(id, func(w io.Writer) { fmt.Fprintf(w, "model %v is deleted\n", id) })
		}),
	}
}
