package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/api/repository"
	"github.com/edgewise-ai/edgewise/appliance"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

func (p commands) push() *cobra.Command {
	var version int64
	var stage bool
	cmd := &cobra.Command{
		Use:   "push NAME PATH... | push NAME[:VERSION] oci://REGISTRY/REPOSITORY:TAG",
		Short: "Upload a model file, or a folder of files, as a new version and make it live; or publish a version in a registry",
		Long: "Push uploads PATH: the file of a model, such as model.onnx, or a folder with it and what belongs to it (config.pbtxt, labels).\n" +
			"Files in which an .onnx file keeps its weights, such as net.onnx.data, are uploaded with it; more files may be named behind it.\n" +
			"Of a model's folder of Triton's layout, config.pbtxt beside folders of versions, it is the highest version.\n" +
			"An ensemble is a configuration alone: one .pbtxt, .yaml or .json file, or a folder with it.\n" +
			"The box loads the version before it makes it live; when that fails, what was live stays live,\n" +
			"and the next push replaces the version that failed, unless its number was chosen.\n" +
			"With oci:// the box publishes a version that it has, the live one or VERSION, in an OCI registry, with the credentials of the box.",
		Args: func(cmd *cobra.Command, args []string) error {
			return cli.Arguments("NAME", "PATH")(cmd, args[:min(len(args), 2)])
		},
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			if strings.HasPrefix(args[1], client.RegistryScheme) {
				return p.publish(ctx, box, args)
			}
			v, err := pathVersion(formatsOf(ctx, box), args[0], args[1], args[2:]...)
			if err != nil {
				return err
			}
			v.ID.Version = version
			pushed, err := p.upload(ctx, box, v, !stage)
			if err != nil {
				return err
			}
			return p.Print(pushed, func(w io.Writer) {
				describePush(w, pushed, !stage)
				// What it may be meant for is beside the point of a push: without an answer nothing is said.
				if list, err := box.Propose(ctx, edgewise.ModelID{Name: pushed.Name, Version: pushed.Version}); err == nil {
					hintProposals(w, pushed.Name, list)
				}
			})
		}),
	}
	cmd.Flags().Int64Var(&version, "version", 0, "number of the version; default: the next one")
	cmd.Flags().BoolVar(&stage, "stage", false, "only store it; \"edgewise model promote\" makes it live later")
	return cmd
}

func describePush(w io.Writer, v *admin.Version, live bool) {
	state := "is live"
	switch {
	case !live:
		state = "is stored"
	case v.Staged:
		state = "goes live by stages"
	}
	fmt.Fprintf(w, "model %q version %d %s (%s, sha256 %.12s)\n", v.Name, v.Version, state, humanize.IBytes(uint64(v.Size)), v.Digest)
	if v.Health != nil && v.Health.Unverified != "" {
		fmt.Fprintf(w, "  not verified: %s\n", v.Health.Unverified)
	}
	describeChanges(w, v.SignatureChanges)
}

// formatsOf returns the formats of this program and those of the box's backends; without an answer the former alone.
func formatsOf(ctx context.Context, box *client.Client) edgewise.Formats {
	formats := appliance.Formats()
	backends, err := box.Backends(ctx)
	if err != nil {
		return formats
	}
	for _, b := range backends {
		if b.Usable && b.File != "" {
			formats = append(formats, edgewise.Format{Backend: b.Name, File: b.File})
		}
	}
	return formats
}

// pathVersion makes a version of one file, stored as model.onnx, model.wasm or config.pbtxt by its extension, with the
// files in which it keeps its weights and with others, or of a folder's files.
func pathVersion(formats edgewise.Formats, name, path string, others ...string) (repository.Version, error) {
	if err := edgewise.CheckName(name); err != nil {
		return repository.Version{}, cli.Usage(err)
	}
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return repository.Version{}, edgewise.Errorf("model.push", edgewise.NotFound, "%w", err)
	}
	if err != nil {
		return repository.Version{}, err
	}
	if info.IsDir() {
		if len(others) > 0 {
			return repository.Version{}, cli.Usagef("%s is a folder: want one folder, or files", path)
		}
		return repository.ReadFolder(edgewise.ModelID{Name: name}, path)
	}
	if info.Size() == 0 {
		return repository.Version{}, edgewise.Errorf("model.push", edgewise.Invalid, "%s is empty", path)
	}
	stored, err := storedName(formats, path)
	if err != nil {
		return repository.Version{}, err
	}
	v := repository.Version{ID: edgewise.ModelID{Name: name}, Size: info.Size()}
	v.Files = []repository.File{{Path: stored, Source: path, Size: info.Size()}}
	err = addFiles(&v, path, others)
	return v, err
}

// addFiles adds to a version of one file those in which it keeps its weights, under the names that it has for them, and
// others under their own.
func addFiles(v *repository.Version, model string, others []string) error {
	beside, err := appliance.ExternalFiles(model)
	if err != nil {
		beside = nil // the box says what is wrong with the file
	}
	for _, name := range beside {
		if err := addFile(v, filepath.ToSlash(name), filepath.Join(filepath.Dir(model), name)); err != nil {
			return err
		}
	}
	for _, path := range others {
		if err := addFile(v, filepath.Base(path), path); err != nil {
			return err
		}
	}
	slices.SortFunc(v.Files, func(a, b repository.File) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// addFile adds a file, unless it is there already.
func addFile(v *repository.Version, stored, source string) error {
	if at := slices.IndexFunc(v.Files, func(f repository.File) bool { return f.Path == stored }); at >= 0 {
		if before, err := filepath.Abs(v.Files[at].Source); err == nil {
			if again, err := filepath.Abs(source); err == nil && before == again {
				return nil
			}
		}
		return cli.Usagef("%s and %s would both be stored as %s", v.Files[at].Source, source, stored)
	}
	info, err := os.Stat(source)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return edgewise.Errorf("model.push", edgewise.NotFound, "%w", err)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return cli.Usagef("%s is not a file", source)
	}
	v.Files = append(v.Files, repository.File{Path: stored, Source: source, Size: info.Size()})
	v.Size += info.Size()
	return nil
}

// storedName returns the name on the box of a version's only file, by the extension of its name here.
func storedName(formats edgewise.Formats, path string) (string, error) {
	if f, ok := formats.OfFile(filepath.Base(path)); ok {
		return f.File, nil
	}
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".pbtxt", ".yaml", ".yml", ".json":
		return "config" + ext, nil
	}
	return "", edgewise.Errorf("model.push", edgewise.Invalid,
		"%s: its name does not tell what it is: want one that ends in %s (a model) or in .pbtxt, .yaml, .yml "+
			"or .json (an ensemble), or a folder", path, strings.Join(formats.Extensions(), " or "))
}

// push uploads a version with a progress bar.
func (p commands) upload(ctx context.Context, box *client.Client, v repository.Version, promote bool) (*admin.Version, error) {
	up, files := v.Upload("push")
	defer func() { _ = files.Close() }()
	bar := p.Bar(v.Size, v.ID.Name)
	pushed, err := box.Push(ctx, up, promote, func(sent int64) { _ = bar.Set64(sent) })
	_ = bar.Finish()
	return pushed, err
}

func (p commands) importFolder() *cobra.Command {
	return &cobra.Command{
		Use:   "import DIR",
		Short: "Upload a folder in Triton's model repository layout",
		Long:  "Import uploads every version that the box does not have. The highest version of each model goes live when it is new.",
		Args:  cli.Arguments("DIR"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			versions, err := repository.Dir(args[0]).Versions()
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
			printing := p.Print(results, func(w io.Writer) {
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

func (p commands) importVersion(ctx context.Context, box *client.Client, v repository.Version, promote bool) (imported, error) {
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
	_, err = p.upload(ctx, box, v, promote)
	return result, err
}
