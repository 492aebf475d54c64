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

func (p commands) pull() *cobra.Command {
	var name string
	var stage bool
	cmd := &cobra.Command{
		Use:   "pull REGISTRY/REPOSITORY:TAG",
		Short: "Let the box fetch a version from an OCI registry and make it live",
		Long: "Pull lets the box fetch a version that \"edgewise model push\" has published, or an image with files below /models, as\n" +
			"KServe reads it. With @sha256:DIGEST in place of :TAG nothing but that is fetched. The box asks with its own credentials,\n" +
			"and refuses what is not signed where its configuration says so (registry.require_signature).",
		Args: cli.Arguments("REFERENCE"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			bar := p.Bar(-1, args[0])
			job, err := box.Pull(ctx, args[0], name, !stage, func(job admin.Job) {
				for _, step := range job.Steps {
					if step.State == admin.StepRunning && step.Total > 0 {
						bar.ChangeMax64(step.Total)
						_ = bar.Set64(step.Done)
					}
				}
			})
			_ = bar.Finish()
			if err != nil {
				return err
			}
			return p.Print(job, func(w io.Writer) { describePull(w, job, !stage) })
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the model; default: the last part of the repository's name")
	cmd.Flags().BoolVar(&stage, "stage", false, "only store it; \"edgewise model promote\" makes it live later")
	return cmd
}

func describePull(w io.Writer, job *admin.Job, live bool) {
	if job.Understood == nil {
		return
	}
	for _, m := range job.Understood.Models {
		state := "is stored"
		switch {
		case live && m.Staged:
			state = "goes live by stages"
		case live:
			state = "is live"
		}
		fmt.Fprintf(w, "model %q version %d %s\n", m.Name, m.Stored, state)
	}
}

// publish publishes a version that the box has.
func (p commands) publish(ctx context.Context, box *client.Client, args []string) error {
	if len(args) != 2 {
		return cli.Usagef("want NAME[:VERSION] and one reference of a registry")
	}
	id, err := cli.ModelID(args[0])
	if err != nil {
		return err
	}
	if id.Version == 0 {
		m, err := box.Model(ctx, id.Name)
		if err != nil {
			return err
		}
		for _, l := range m.Labels {
			if l.Name == edgewise.LiveLabel {
				id.Version = l.Version
			}
		}
		if id.Version == 0 {
			return edgewise.Errorf("model.publish", edgewise.NotFound, "model %q has no live version: name one as %s:VERSION", id.Name, id.Name)
		}
	}
	published, err := box.Publish(ctx, id, args[1])
	if err != nil {
		return err
	}
	return p.Print(published, func(w io.Writer) {
		fmt.Fprintf(w, "model %q version %d is published as %s\n", id.Name, id.Version, published.Reference)
	})
}
