package vulkan

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// folders are where drivers put their manifests.
var folders = []string{"etc/vulkan/icd.d", "usr/local/share/vulkan/icd.d", "usr/share/vulkan/icd.d"}

// Bounds of what is read of drivers.
const (
	maxManifests = 16
	maxManifest  = 64 << 10 // bytes of one
)

// Manifests returns the manifests of the drivers that there are, sorted: those of the configuration alone when there are
// some, otherwise those below root.
func Manifests(configured []string, root string) []string {
	if len(configured) > 0 {
		return configured
	}
	var list []string
	for _, folder := range folders {
		found, _ := filepath.Glob(filepath.Join(root, folder, "*.json")) // the pattern is a good one
		list = append(list, found...)
	}
	slices.Sort(list)
	return list[:min(len(list), maxManifests)]
}

// Nodes returns the device files for rendering below root.
func Nodes(root string) []string {
	found, _ := filepath.Glob(filepath.Join(root, "dev/dri/renderD*")) // the pattern is a good one
	return found
}

// Library reads which library a manifest names: a path, or a name that the dynamic linker searches. Errors: NotFound,
// Invalid.
func Library(manifest string) (string, error) {
	const op = "vulkan.Library"
	f, err := os.Open(manifest)
	if err != nil {
		return "", edgewise.Errorf(op, edgewise.NotFound, "%w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return "", edgewise.Errorf(op, edgewise.Invalid, "%s: %w", manifest, err)
	}
	var m struct {
		ICD struct {
			Library string `json:"library_path"`
		} `json:"ICD"`
	}
	if err := json.Unmarshal(content, &m); err != nil || m.ICD.Library == "" {
		return "", edgewise.Errorf(op, edgewise.Invalid, "%s is no manifest of a Vulkan driver", manifest)
	}
	if strings.ContainsRune(m.ICD.Library, '/') && !filepath.IsAbs(m.ICD.Library) {
		return filepath.Join(filepath.Dir(manifest), m.ICD.Library), nil
	}
	return m.ICD.Library, nil
}

// CacheEnvironment makes a driver keep the shaders that it has compiled in a folder, up to so many bytes.
func CacheEnvironment(folder string, bytes int64) []string {
	return []string{
		"MESA_SHADER_CACHE_DIR=" + folder, "MESA_SHADER_CACHE_MAX_SIZE=" + strconv.FormatInt(max(bytes>>10, 1), 10) + "K",
		"__GL_SHADER_DISK_CACHE_PATH=" + folder, "__GL_SHADER_DISK_CACHE_SIZE=" + strconv.FormatInt(bytes, 10),
	}
}

// Environment is what makes the loader open the driver of one manifest and nothing else: no layers of the user or of
// the system, of which some open connections to a display.
func Environment(manifest string) []string {
	return []string{
		"VK_DRIVER_FILES=" + manifest, "VK_ICD_FILENAMES=" + manifest, // the later name is not known to older loaders
		"VK_LOADER_LAYERS_DISABLE=~all~", "NODEVICE_SELECT=1",
	}
}
