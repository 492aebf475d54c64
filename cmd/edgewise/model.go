package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/api/repository"
)

func (p *program) model() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Upload, list, activate, roll back and delete models",
		Args:  arguments("push|import|list|show|promote|rollback|rm"),
		RunE:  unknownCommand,
	}
	cmd.AddCommand(p.modelPush(), p.modelImport(), p.modelList(), p.modelShow(), p.modelPromote(), p.modelRollback(), p.modelRemove())
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

func (p *program) modelPush() *cobra.Command {
	var version int64
	var stage bool
	cmd := &cobra.Command{
		Use:   "push NAME PATH",
		Short: "Upload a model file, or a folder of files, as a new version and make it live",
		Long: "Push uploads PATH: one .onnx file, or a folder with model.onnx and what belongs to it (config.pbtxt, external data, labels).\n" +
			"The box loads the version before it makes it live; when that fails, what was live stays live.",
		Args: arguments("NAME", "PATH"),
		RunE: p.boxed(func(ctx context.Context, box *client.Client, args []string) error {
			v, err := pathVersion(args[0], args[1])
			if err != nil {
				return err
			}
			v.ID.Version = version
			pushed, err := p.push(ctx, box, v, !stage)
			if err != nil {
				return err
			}
			return p.print(pushed, func(w io.Writer) { describePush(w, pushed, !stage) })
		}),
	}
	cmd.Flags().Int64Var(&version, "version", 0, "number of the version; default: the next one")
	cmd.Flags().BoolVar(&stage, "stage", false, "only store it; \"edgewise model promote\" makes it live later")
	return cmd
}

func describePush(w io.Writer, v *admin.Version, live bool) {
	state := "is live"
	if !live {
		state = "is stored"
	}
	fmt.Fprintf(w, "model %q version %d %s (%s, sha256 %.12s)\n", v.Name, v.Version, state, humanize.IBytes(uint64(v.Size)), v.Digest)
}

// pathVersion makes a version of one file, stored as model.onnx, or of a folder's files.
func pathVersion(name, path string) (repository.Version, error) {
	if err := edgewise.CheckName(name); err != nil {
		return repository.Version{}, usageError{err}
	}
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return repository.Version{}, edgewise.Errorf("model.push", edgewise.NotFound, "%w", err)
	}
	if err != nil {
		return repository.Version{}, err
	}
	if info.IsDir() {
		return repository.ReadFolder(edgewise.ModelID{Name: name}, path)
	}
	file := repository.File{Path: "model" + strings.ToLower(filepath.Ext(path)), Source: path, Size: info.Size()}
	return repository.Version{ID: edgewise.ModelID{Name: name}, Files: []repository.File{file}, Size: info.Size()}, nil
}

// push uploads a version with a progress bar.
func (p *program) push(ctx context.Context, box *client.Client, v repository.Version, promote bool) (*admin.Version, error) {
	up, files := v.Upload("push")
	defer func() { _ = files.Close() }()
	bar := p.bar(v.Size, v.ID.Name)
	pushed, err := box.Push(ctx, up, promote, func(sent int64) { _ = bar.Set64(sent) })
	_ = bar.Finish()
	return pushed, err
}

func (p *program) modelImport() *cobra.Command {
	return &cobra.Command{
		Use:   "import DIR",
		Short: "Upload a folder in Triton's model repository layout",
		Long:  "Import uploads every version that the box does not have and makes the highest new version of each model live.",
		Args:  arguments("DIR"),
		RunE: p.boxed(func(ctx context.Context, box *client.Client, args []string) error {
			versions, err := repository.Read(args[0])
			if err != nil {
				return err
			}
			var results []imported
			var failures []error
			for i, v := range versions {
				last := i+1 == len(versions) || versions[i+1].ID.Name != v.ID.Name
				r, err := p.importVersion(ctx, box, v, last)
				if err != nil {
					failures = append(failures, fmt.Errorf("model %v: %w", v.ID, err))
					continue
				}
				results = append(results, r)
			}
			printing := p.print(results, func(w io.Writer) {
				for _, r := range results {
					fmt.Fprintf(w, "model %q version %d: %s\n", r.Name, r.Version, r.Result)
				}
			})
			return errors.Join(append(failures, printing)...)
		}),
	}
}

// imported is what became of one version.
type imported struct {
	Name    string `json:"name"`
	Version int64  `json:"version"`
	Result  string `json:"result"`
}

func (p *program) importVersion(ctx context.Context, box *client.Client, v repository.Version, promote bool) (imported, error) {
	result := imported{v.ID.Name, v.ID.Version, "stored"}
	m, err := box.Model(ctx, v.ID.Name)
	if err != nil && edgewise.KindOf(err) != edgewise.NotFound {
		return result, err
	}
	if err == nil {
		for _, stored := range m.Versions {
			if stored.Version == v.ID.Version {
				result.Result = "there already"
				return result, v.SameAs(stored.Files)
			}
		}
	}
	if promote {
		result.Result = "live"
	}
	_, err = p.push(ctx, box, v, promote)
	return result, err
}

func (p *program) modelList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List models",
		Args:    arguments(),
		RunE: p.boxed(func(ctx context.Context, box *client.Client, _ []string) error {
			models, err := box.Models(ctx)
			if err != nil {
				return err
			}
			return p.print(models, func(w io.Writer) { listModels(w, models) })
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
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", m.Name, live, state, len(m.Versions), humanize.IBytes(uint64(size)), reason)
	}
	_ = table.Flush()
}

func (p *program) modelShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a model's versions, labels and signature",
		Args:  arguments("NAME"),
		RunE: p.boxed(func(ctx context.Context, box *client.Client, args []string) error {
			m, err := box.Model(ctx, args[0])
			if err != nil {
				return err
			}
			shown := struct {
				*admin.Model
				Inspection *edgewise.Inspection `json:"inspection,omitempty"`
			}{Model: m}
			if len(m.Versions) > 0 {
				version := m.Label(edgewise.LiveLabel)
				if version == 0 {
					version = m.Versions[len(m.Versions)-1].Version
				}
				if shown.Inspection, err = box.Inspect(ctx, edgewise.ModelID{Name: m.Name, Version: version}); err != nil {
					return err
				}
			}
			return p.print(shown, func(w io.Writer) { showModel(w, m, shown.Inspection) })
		}),
	}
}

func showModel(w io.Writer, m *admin.Model, i *edgewise.Inspection) {
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
	if i != nil {
		showInspection(w, i)
	}
}

func showInspection(w io.Writer, i *edgewise.Inspection) {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, t := range i.Inputs {
		fmt.Fprintf(table, "\ninput\t%s\t%s\t%s", t.Name, t.Datatype, dims(t))
	}
	for _, t := range i.Outputs {
		fmt.Fprintf(table, "\noutput\t%s\t%s\t%s", t.Name, t.Datatype, dims(t))
	}
	_ = table.Flush()
	fmt.Fprintf(w, "\n\n%d operators, %s parameters in %s\n", i.Nodes, humanize.Comma(i.Parameters), humanize.IBytes(uint64(i.ParameterBytes)))
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

func (p *program) printLabel(name string, l edgewise.Label) error {
	return p.print(l, func(w io.Writer) {
		fmt.Fprintf(w, "model %q: label %q points to version %d\n", name, l.Name, l.Version)
	})
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
