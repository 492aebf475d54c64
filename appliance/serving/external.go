package serving

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/backend/conformance"
	"github.com/edgewise-ai/edgewise/appliance/child"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/external"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
)

// LaunchVerb is the program's first argument when it is to become a backend's program; see RunLaunch.
const LaunchVerb = child.LaunchVerb

// RunLaunch lowers the rights of this process and becomes a backend's program. It returns an exit code when that fails.
func RunLaunch() int { return child.RunLaunch() }

// BackendFolders are where backends of other programs are looked for: beside the program, then where the configuration
// says.
func BackendFolders(c config.Config) []string {
	var folders []string
	if program, err := os.Executable(); err == nil {
		folders = append(folders, filepath.Join(filepath.Dir(program), "lib", "backends"))
	}
	return append(folders, c.Engine.Backends...)
}

// Backends lists the backends of other programs that a configuration has, and what cannot be one, or cannot run here.
func Backends(ctx context.Context, c config.Config) []admin.Backend {
	manifests, others := external.Discover(BackendFolders(c))
	return external.New(external.Config{Manifests: manifests, Unusable: others}).Examine(ctx)
}

// CheckBackend checks whether a backend keeps the rules of docs/backends.md. where is its folder, or its name when a
// configuration has it. model is the folder of a model that it serves; "": its own conformance model. lines is given what
// it writes. Errors: NotFound, those of its manifest.
func CheckBackend(
	ctx context.Context, c config.Config, where, model string, lines func([]byte), tell func(conformance.Result),
) error {
	for _, folder := range append([]string{where}, named(c, where)...) {
		m, err := external.ReadManifest(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return edgewise.Errorf("serving.CheckBackend", edgewise.Invalid, "%w", err)
		}
		return m.Check(ctx, model, lines, tell)
	}
	return edgewise.Errorf("serving.CheckBackend", edgewise.NotFound,
		"there is no backend %q: want its name, or a folder with a %s", where, external.ManifestFile)
}

// named are the folders that a backend of a name may have.
func named(c config.Config, name string) (list []string) {
	for _, folder := range BackendFolders(c) {
		list = append(list, filepath.Join(folder, name))
	}
	return list
}

// External finds the backends of other programs. Those that cannot be used are logged and left out: the models of all
// others are served.
func External(
	c config.Config, d *Hardware, infer edgewise.Inferer, control external.Controller, logger *slog.Logger,
) *external.Backend {
	places := BackendFolders(c)
	manifests, others := external.Discover(places)
	for _, other := range others {
		logger.Error("a backend cannot be used", "folder", other.Folder, "error", other.Err)
	}
	return external.New(external.Config{
		Manifests: manifests, Unusable: others, Places: places, Folder: filepath.Join(c.DataDir, "cache", "backends"),
		Infer: infer, Suspend: cores.Suspend, Control: control, Metrics: external.NewMetrics(), Device: d.programAccess, Logger: logger,
	})
}
