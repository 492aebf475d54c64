package model

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

func (p commands) list() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List models",
		Args:    cli.Arguments(),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, _ []string) error {
			models, err := box.Models(ctx)
			if err != nil {
				return err
			}
			return p.Print(models, func(w io.Writer) { listModels(w, models) })
		}),
	}
}

func listModels(w io.Writer, models []admin.Model) {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "MODEL\tLIVE\tSTATE\tVERSIONS\tSIZE\tREASON")
	for i := range models {
		m := &models[i]
		live, state, reason, size := "-", "not served", "", int64(0)
		for _, v := range m.Versions {
			size += v.Size
			if v.Version == m.Label(edgewise.LiveLabel) {
				live, reason = fmt.Sprint(v.Version), v.Reason
				if v.State != "" {
					state = v.State
				}
				if v.Health != nil && v.Health.Failing {
					state, reason = "FAILING", failing(v.Health)
				}
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", m.Name, live, state, len(m.Versions), humanize.IBytes(uint64(size)), reason)
	}
	_ = table.Flush()
}

// failing says what the latest requests to a version came to.
func failing(h *edgewise.Health) string {
	text := fmt.Sprintf("%d of the last %d requests have failed", h.Failed, h.Recent)
	if h.LastError != nil {
		text += fmt.Sprintf("; the last error (%s): %s", h.LastError.Code, h.LastError.Message)
	}
	return text
}

func (p commands) show() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a model's versions, labels and signature",
		Args:  cli.Arguments("NAME"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			m, err := box.Model(ctx, args[0])
			if err != nil {
				return err
			}
			shown := described{Model: m}
			if len(m.Versions) > 0 {
				if err := shown.inspect(ctx, box); err != nil {
					return err
				}
			}
			return p.Print(shown, shown.print)
		}),
	}
}

// described is a model with what is known of its live version, or of the latest one.
type described struct {
	*admin.Model
	Inspection *edgewise.Inspection  `json:"inspection,omitempty"`
	Process    *admin.VersionProcess `json:"process,omitempty"` // nil unless a program of a backend serves it
	Choice     *admin.Choice         `json:"choice,omitempty"`  // nil: nothing was measured
	Bound      *admin.Bound          `json:"bound,omitempty"`   // nil: it is not ready
}

// inspect asks the box for what it knows of the version.
func (d *described) inspect(ctx context.Context, box *client.Client) (err error) {
	id := edgewise.ModelID{Name: d.Name, Version: d.Label(edgewise.LiveLabel)}
	if id.Version == 0 {
		id.Version = d.Versions[len(d.Versions)-1].Version
	}
	if d.Inspection, err = box.Inspect(ctx, id); err != nil {
		return err
	}
	version, err := box.Version(ctx, id)
	if err == nil {
		d.Choice = version.Choice
	}
	if err == nil && d.Inspection.Backend != "" {
		d.Process = version.Process
	}
	if bound, missing := box.Bound(ctx, id); missing == nil {
		d.Bound = bound
	}
	return err
}

func (d *described) print(w io.Writer) {
	m := d.Model
	served := "served"
	if !m.Wanted {
		served = "not served"
	}
	fmt.Fprintf(w, "model %s, %s\n\n", m.Name, served)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "VERSION\tSTATE\tLABELS\tSIZE\tDIGEST\tCREATED\tORIGIN")
	for _, v := range m.Versions {
		var labels []string
		for _, l := range m.Labels {
			if l.Version == v.Version {
				labels = append(labels, l.Name)
			}
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%.12s\t%s\t%s\n", v.Version, v.State, strings.Join(labels, ","),
			humanize.IBytes(uint64(v.Size)), v.Digest, v.Created.Local().Format("2006-01-02 15:04:05"), v.Origin)
	}
	_ = table.Flush()
	for _, v := range m.Versions {
		if v.Reason != "" {
			fmt.Fprintf(w, "\nversion %d: %s\n", v.Version, v.Reason)
		}
		if v.Batching != nil {
			fmt.Fprintf(w, "\nversion %d: requests are %s: %s\n", v.Version, merged(v.Batching), v.Batching.Reason)
		}
		if v.Health != nil && v.Health.Failing {
			fmt.Fprintf(w, "\nversion %d fails: %s\n", v.Version, failing(v.Health))
		}
	}
	if d.Inspection != nil {
		d.showInspection(w)
	}
	if d.Choice != nil {
		fmt.Fprintln(w)
		printChoice(w, d.Choice)
	}
	if d.Bound != nil && d.Bound.Kind != admin.BoundFew {
		fmt.Fprintf(w, "\nbound by: %s\n", d.Bound.Sentence)
		for _, text := range d.Bound.Unsaid {
			fmt.Fprintf(w, "  %s\n", text)
		}
	}
}

// merged says whether requests run together.
func merged(b *edgewise.Batching) string {
	if b.Merged {
		return "merged into batches"
	}
	return "not merged into batches"
}

func (d *described) showInspection(w io.Writer) {
	i := d.Inspection
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, t := range i.Inputs {
		fmt.Fprintf(table, "\ninput\t%s\t%s\t%s", t.Name, t.Datatype, dims(t))
	}
	for _, t := range i.Outputs {
		fmt.Fprintf(table, "\noutput\t%s\t%s\t%s", t.Name, t.Datatype, dims(t))
	}
	for _, o := range i.Omitted {
		fmt.Fprintf(table, "\nnot served\t%s\t%s\t", o.Name, o.Reason)
	}
	for n, id := range i.Steps {
		fmt.Fprintf(table, "\nstep %d\t%s\tversion %d\t", n, id.Name, id.Version)
	}
	_ = table.Flush()
	switch {
	case len(i.Steps) > 0:
		fmt.Fprintln(w)
	case i.Backend != "":
		fmt.Fprintf(w, "\n\n%s\n", d.servedBy())
	default:
		fmt.Fprintf(w, "\n\n%d operators, %s parameters in %s\n", i.Nodes, humanize.Comma(i.Parameters),
			humanize.IBytes(uint64(i.ParameterBytes)))
	}
}

// servedBy names the backend, what it loads, and what its program says of that.
func (d *described) servedBy() string {
	text := "served by the backend " + d.Inspection.Backend
	if d.Inspection.File != "" {
		text += " from " + d.Inspection.File
	}
	if d.Process != nil && d.Process.Note != "" {
		text += ": " + d.Process.Note
	}
	return text
}

// dims writes a shape with its symbolic names.
func dims(t edgewise.TensorInfo) string {
	parts := make([]string, len(t.Shape))
	for d, size := range t.Shape {
		parts[d] = fmt.Sprint(size)
		if size < 0 && d < len(t.Dims) && t.Dims[d] != "" {
			parts[d] = t.Dims[d]
		}
	}
	return "[" + strings.Join(parts, ",") + "]"
}
