package model

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

func (p commands) measure() *cobra.Command {
	return &cobra.Command{
		Use:   "measure NAME[:VERSION]",
		Short: "Measure a model once more on each device of the box, and serve it from the fastest that answers right",
		Args:  cli.Arguments("NAME[:VERSION]"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			id, err := cli.ModelID(args[0])
			if err != nil {
				return err
			}
			if id.Version == 0 {
				m, err := box.Model(ctx, id.Name)
				if err != nil {
					return err
				}
				id.Version = m.Label(edgewise.LiveLabel)
			}
			if id.Version == 0 {
				return cli.Usagef("model %q has no live version: want NAME:VERSION", id.Name)
			}
			found, err := box.Measure(ctx, id)
			if err != nil {
				return err
			}
			return p.Print(found, func(w io.Writer) { printChoice(w, found) })
		}),
	}
}

// printChoice writes what was measured of a version as a table, and where it serves.
func printChoice(w io.Writer, c *admin.Choice) {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "DEVICE\tSTATE\tMEDIAN\t95 % INTERVAL\tDIFFERENCE\tDESCRIPTION")
	for _, one := range c.Candidates {
		var medians, intervals []string
		for _, f := range one.Figures {
			medians = append(medians, f.String())
			intervals = append(intervals, fmt.Sprintf("%.3g to %.3g ms", f.Low, f.High))
		}
		difference := "-"
		if d := one.Difference; d != nil {
			difference = fmt.Sprintf("%.2g of output %q", d.Largest, d.Output)
			if d.Allowed > 0 {
				difference = fmt.Sprintf("%.2g of %.2g, output %q", d.Largest, d.Allowed, d.Output)
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", one.Device, strings.ReplaceAll(one.State, "_", " "),
			listed(medians), listed(intervals), difference, one.Description)
	}
	_ = table.Flush()
	for _, one := range c.Candidates {
		if one.Reason != "" {
			fmt.Fprintf(w, "\n%s: %s\n", one.Device, one.Reason)
		}
	}
	if c.Precision != "" {
		fmt.Fprintf(w, "\nasks for %s, and is compared with FP32 on the CPU\n", c.Precision)
	}
	fmt.Fprintf(w, "\n%s serves%s (measured %s with %s inputs)\n", cmp.Or(c.Device, "nothing"), because(c.Reason),
		c.Measured.Local().Format("2006-01-02 15:04:05"), inputs(c.Inputs))
}

func listed(texts []string) string {
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, ", ")
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func inputs(origin string) string {
	if origin == "" {
		return "no"
	}
	return origin
}
