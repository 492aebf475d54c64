package model

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

func (p commands) propose() *cobra.Command {
	var version int64
	cmd := &cobra.Command{
		Use:   "propose NAME",
		Short: "Say which pipelines of the gallery's steps a model may be meant for",
		Long: "Propose looks at a model's inputs and outputs. For each pipeline that fits it prints what speaks for it, " +
			"the steps to push (from\n" +
			"sdk/gallery, \"make steps\" builds them) with the parameters of their configuration, and the configuration of the pipeline,\n" +
			"which \"edgewise model push\" takes as a .json file.",
		Args: cli.Arguments("NAME"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			id := edgewise.ModelID{Name: args[0], Version: version}
			if version == 0 {
				m, err := box.Model(ctx, args[0])
				if err != nil {
					return err
				}
				id.Version = shownVersion(m)
			}
			list, err := box.Propose(ctx, id)
			if err != nil {
				return err
			}
			return p.Print(list, func(w io.Writer) { describeProposals(w, list) })
		}),
	}
	cmd.Flags().Int64Var(&version, "version", 0, "number of the version; default: the live one")
	return cmd
}

// shownVersion is the live version, or the newest when none is live.
func shownVersion(m *admin.Model) int64 {
	if live := m.Label(edgewise.LiveLabel); live != 0 || len(m.Versions) == 0 {
		return live
	}
	return m.Versions[len(m.Versions)-1].Version
}

// hintProposals says in a line what a model looks like.
func hintProposals(w io.Writer, name string, list []admin.Proposal) {
	for _, one := range list {
		fmt.Fprintf(w, "it looks like %s: \"edgewise model propose %s\" prints a pipeline for it\n", one.Task, name)
	}
}

func describeProposals(w io.Writer, list []admin.Proposal) {
	if len(list) == 0 {
		fmt.Fprintln(w, "no pipeline of the gallery's steps fits its inputs and outputs")
	}
	for i, one := range list {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s\n  %s\n", one.Task, one.Because)
		for _, s := range one.Steps {
			fmt.Fprintf(w, "  step %q: sdk/gallery/%s\n", s.Name, s.Gallery)
			for _, key := range sortedKeys(s.Parameters) {
				fmt.Fprintf(w, "    parameters { key: %q value { string_value: %q } }\n", key, s.Parameters[key])
			}
		}
		if one.Pipeline == nil {
			continue
		}
		text, _ := json.MarshalIndent(declaration(one.Pipeline), "  ", "  ") // made of texts and numbers: it cannot fail
		fmt.Fprintf(w, "  pipeline:\n  %s\n", text)
	}
}

// declaration leaves out of an ensemble what its author does not write.
func declaration(m *edgewise.Model) any {
	type tensor struct {
		Name     string            `json:"name"`
		DataType edgewise.DataType `json:"data_type"`
		Dims     edgewise.Shape    `json:"dims"`
	}
	type step struct {
		ModelName    string            `json:"model_name"`
		ModelVersion int64             `json:"model_version"`
		InputMap     map[string]string `json:"input_map"`
		OutputMap    map[string]string `json:"output_map"`
	}
	d := struct {
		Name     string   `json:"name"`
		Platform string   `json:"platform"`
		Input    []tensor `json:"input"`
		Output   []tensor `json:"output"`
		Ensemble struct {
			Step []step `json:"step"`
		} `json:"ensemble_scheduling"`
	}{Name: m.Name, Platform: m.Platform}
	for _, in := range m.Input {
		d.Input = append(d.Input, tensor{in.Name, in.DataType, in.Dims})
	}
	for _, out := range m.Output {
		d.Output = append(d.Output, tensor{out.Name, out.DataType, out.Dims})
	}
	for _, s := range m.EnsembleScheduling.Step {
		d.Ensemble.Step = append(d.Ensemble.Step, step{s.ModelName, s.ModelVersion, s.InputMap, s.OutputMap})
	}
	return d
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
