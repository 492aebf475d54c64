package serving

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
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

// External finds the backends of other programs. Those that cannot be used are logged and left out: the models of all
// others are served.
func External(c config.Config, infer edgewise.Inferer, control external.Controller, logger *slog.Logger) *external.Backend {
	places := BackendFolders(c)
	manifests, others := external.Discover(places)
	for _, other := range others {
		logger.Error("a backend cannot be used", "folder", other.Folder, "error", other.Err)
	}
	return external.New(external.Config{
		Manifests: manifests, Unusable: others, Places: places, Folder: filepath.Join(c.DataDir, "cache", "backends"),
		Infer: infer, Suspend: cores.Suspend, Control: control, Metrics: external.NewMetrics(), Logger: logger,
	})
}
