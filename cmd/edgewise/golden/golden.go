// Package golden has the commands of goldens: requests with the answers that versions must give.
package golden

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/appliance/example"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/tensorfile"
)

// commands are the commands of this noun in one invocation of the program.
type commands struct{ *cli.Program }

// Command is "edgewise golden" with the commands below it.
func Command(program *cli.Program) *cobra.Command {
	p := commands{program}
	return cli.Group("golden", "Keep requests with expected answers, which versions must answer before they go live",
		p.add(), p.list(), p.run(), p.diff(), p.remove(), p.policy())
}

func (p commands) add() *cobra.Command {
	var inputs, expected []string
	var name, scale, file string
	cmd := &cobra.Command{
		Use:   "add MODEL[:VERSION]",
		Short: "Store a request with the answer of a version, or with the answer that you expect",
		Long: "Add reads the inputs from files, as infer does. The live version, or the one that is named, answers, and its answer is\n" +
			"what later versions are compared with. With --expect the answer comes from files, and nothing runs.\n" +
			"\n  edgewise golden add digits -i x=three.npy --name three\n  edgewise golden add digits -i x=three.npy --expect y=scores.npy\n",
		Args: cli.Arguments("MODEL[:VERSION]"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			id, err := cli.ModelID(args[0])
			if err != nil {
				return err
			}
			added, err := addGolden(ctx, box, id, goldenFiles{name, scale, file, inputs, expected})
			if err != nil {
				return err
			}
			return p.Print(added, func(w io.Writer) {
				fmt.Fprintf(w, "model %q: golden %s is stored, %s\n", id.Name, added.ID, humanize.IBytes(uint64(added.Size)))
			})
		}),
	}
	cmd.Flags().StringArrayVarP(&inputs, "input", "i", nil, "an input, as name=FILE; may be repeated")
	cmd.Flags().StringArrayVar(&expected, "expect", nil, "an output that is expected, as name=FILE; may be repeated")
	cmd.Flags().StringVar(&name, "name", "", "a name for people")
	cmd.Flags().StringVar(&scale, "scale", "raw", "range of a picture's samples: raw (0..255), unit (0..1) or signed (-1..1)")
	cmd.Flags().StringVar(&file, "example", "", "an example in one file, instead of inputs")
	return cmd
}

// goldenFiles are what golden add is told.
type goldenFiles struct {
	name, scale, example string
	inputs, expected     []string
}

func addGolden(ctx context.Context, box *client.Client, id edgewise.ModelID, f goldenFiles) (admin.Golden, error) {
	if f.example != "" {
		data, err := os.ReadFile(f.example)
		if err != nil {
			return admin.Golden{}, err
		}
		return box.AddExample(ctx, id.Name, f.name, data)
	}
	scale, err := tensorfile.ParseScale(f.scale)
	if err != nil {
		return admin.Golden{}, cli.Usagef("--scale: %w", err)
	}
	options := tensorfile.Options{Scale: scale}
	metadata, err := box.ModelMetadata(ctx, id)
	if err != nil {
		return admin.Golden{}, err
	}
	req := &edgewise.Request{Model: id}
	if req.Inputs, err = cli.ReadInputs(f.inputs, metadata, options); err != nil {
		return admin.Golden{}, err
	}
	if len(f.expected) == 0 {
		return box.AddGolden(ctx, f.name, req)
	}
	known := cli.TensorArguments{Model: metadata.Name, Flag: "--expect", What: "outputs", Tensors: metadata.Outputs}
	outputs, err := cli.ReadTensors(known, f.expected, options)
	if err != nil {
		return admin.Golden{}, err
	}
	data, err := example.Encode(example.Of(req, &edgewise.Response{Model: edgewise.ModelID{Name: id.Name}, Outputs: outputs}))
	if err != nil {
		return admin.Golden{}, err
	}
	return box.AddExample(ctx, id.Name, f.name, data)
}

func (p commands) list() *cobra.Command {
	return &cobra.Command{
		Use:     "list MODEL",
		Aliases: []string{"ls"},
		Short:   "List the goldens of a model",
		Args:    cli.Arguments("MODEL"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			all, err := box.Goldens(ctx, args[0])
			if err != nil {
				return err
			}
			return p.Print(all, func(w io.Writer) { listGoldens(w, args[0], &all) })
		}),
	}
}

func listGoldens(w io.Writer, model string, all *admin.Goldens) {
	fmt.Fprintf(w, "model %q: %d goldens of at most %d, policy %s, %d rules\n", model, len(all.Goldens), all.MaxGoldens,
		all.Policy, len(all.Rules))
	if len(all.Goldens) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "GOLDEN\tNAME\tANSWER OF\tSIZE")
	for _, g := range all.Goldens {
		of := "the caller"
		if g.Version != 0 {
			of = fmt.Sprintf("version %d", g.Version)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", g.ID, g.Name, of, humanize.IBytes(uint64(g.Size)))
	}
	_ = table.Flush()
}

func (p commands) run() *cobra.Command {
	return p.report("run MODEL:VERSION", "Have a version answer the goldens of its model, loading it for that if need be",
		(*client.Client).RunGoldens, listResults)
}

func (p commands) diff() *cobra.Command {
	return p.report("diff MODEL:VERSION", "Say by how much the answers of a version differ, in its latest run",
		(*client.Client).GoldenReport, describeResults)
}

// goldenReport is a command that shows a report. It fails when the version has not passed.
func (p commands) report(
	use, short string, get func(*client.Client, context.Context, edgewise.ModelID) (admin.GoldenReport, error),
	describe func(io.Writer, *admin.GoldenReport),
) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cli.Arguments("MODEL:VERSION"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			id, err := cli.ModelID(args[0])
			if err != nil {
				return err
			}
			if id.Version == 0 {
				return cli.Usagef("%q names no version: want MODEL:VERSION", args[0])
			}
			report, err := get(box, ctx, id)
			if err != nil {
				return err
			}
			if err := p.Print(report, func(w io.Writer) { describe(w, &report) }); err != nil || report.Passed {
				return err
			}
			return edgewise.Errorf("golden", edgewise.Conflict, "version %d of model %q fails %d of %d goldens", id.Version, id.Name,
				report.Failed, len(report.Results))
		}),
	}
}

func listResults(w io.Writer, r *admin.GoldenReport) {
	fmt.Fprintf(w, "model %q: version %d passes %d of %d goldens\n", r.Model, r.Version, len(r.Results)-r.Failed, len(r.Results))
	for _, one := range r.Results {
		if !one.Passed {
			fmt.Fprintf(w, "  %s: %s\n", titleOf(one), failure(one))
		}
	}
}

func titleOf(r admin.GoldenResult) string { return strings.TrimSpace(r.Golden + " " + r.Name) }

// failure says in a line why a golden failed.
func failure(r admin.GoldenResult) string {
	if r.Error != "" {
		return r.Error
	}
	for _, out := range r.Outputs {
		if !out.Agrees {
			return fmt.Sprintf("output %q: %s", out.Output, out.Reason)
		}
	}
	return "the answer differs"
}

func describeResults(w io.Writer, r *admin.GoldenReport) {
	listResults(w, r)
	for _, one := range r.Results {
		for _, out := range one.Outputs {
			if out.Agrees {
				continue
			}
			fmt.Fprintf(w, "\n%s, output %q by %s: %s; largest difference %.6g\n", titleOf(one), out.Output, out.Kind, out.Reason,
				out.Largest)
			for _, d := range out.Worst {
				fmt.Fprintf(w, "  %v: want %s, got %s, by %.6g\n", d.Index, d.Want, d.Got, d.By)
			}
		}
	}
}

func (p commands) remove() *cobra.Command {
	return &cobra.Command{
		Use:   "rm MODEL GOLDEN",
		Short: "Delete a golden",
		Args:  cli.Arguments("MODEL", "GOLDEN"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			if err := box.RemoveGolden(ctx, args[0], args[1]); err != nil {
				return err
			}
			return p.Print(args[1], func(w io.Writer) { fmt.Fprintf(w, "golden %s of model %q is deleted\n", args[1], args[0]) })
		}),
	}
}

func (p commands) policy() *cobra.Command {
	var rules string
	cmd := &cobra.Command{
		Use:   "policy MODEL require|warn|off",
		Short: "Say what follows when a version fails the goldens, and how answers are compared",
		Args:  cli.Arguments("MODEL", "POLICY"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			all, err := box.Goldens(ctx, args[0])
			if err != nil {
				return err
			}
			s := all.GoldenSettings
			s.Policy = args[1]
			if rules != "" {
				if s.Rules, err = cli.ReadRules(rules); err != nil {
					return err
				}
			}
			if err := box.SetGoldens(ctx, args[0], s); err != nil {
				return err
			}
			return p.Print(s, func(w io.Writer) {
				fmt.Fprintf(w, "model %q: policy %s, %d rules\n", args[0], s.Policy, len(s.Rules))
			})
		}),
	}
	cmd.Flags().StringVar(&rules, "rules", "", "a JSON file with the rules; without it they stay")
	return cmd
}
