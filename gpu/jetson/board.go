package jetson

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxFile bounds what is read of a file.
const maxFile = 1 << 16

// Board is a Jetson.
type Board struct {
	Model   string // such as "NVIDIA Jetson AGX Orin Developer Kit"
	Chip    string // such as "tegra234"
	Release string // of L4T, such as "36.4.3"; empty when it is not told

	root string
	gpu  []string // folders of devfreq, the one with the compute clock first
}

// Find returns the Jetson below root, which is "/" but in tests; nil when there is none.
func Find(root string) *Board {
	compatible := strings.Split(read(root, "proc/device-tree/compatible"), "\x00")
	i := slices.IndexFunc(compatible, func(s string) bool { return strings.HasPrefix(s, "nvidia,tegra") })
	if i < 0 {
		return nil
	}
	b := &Board{
		root: root, Chip: strings.TrimPrefix(compatible[i], "nvidia,"),
		Model: strings.TrimRight(read(root, "proc/device-tree/model"), "\x00"),
	}
	b.Release = release(read(root, "etc/nv_tegra_release"))
	b.gpu = b.findGPU()
	return b
}

// release reads "# R36 (release), REVISION: 4.3, ..." as 36.4.3.
func release(text string) string {
	major, rest, ok := strings.Cut(strings.TrimPrefix(text, "# R"), " ")
	_, revision, there := strings.Cut(rest, "REVISION: ")
	if !ok || !there {
		return ""
	}
	minor, _, _ := strings.Cut(revision, ",")
	return major + "." + strings.TrimSpace(minor)
}

// gpuNames are the names of the GPU in the device tree, and of its clocks on chips that have no such name.
var gpuNames = []string{"gpu", "gv11b", "ga10b", "gb10b"}

func (b *Board) findGPU() []string {
	var found []string
	for _, folder := range glob(b.root, "sys/class/devfreq/*") {
		name := strings.TrimRight(read("", filepath.Join(folder, "device/of_node/name")), "\x00\n")
		base := filepath.Base(folder)
		if slices.Contains(gpuNames, name) || strings.HasPrefix(base, "gpu-gpc") || strings.HasSuffix(base, ".gpu") ||
			strings.HasSuffix(base, ".ga10b") || strings.HasSuffix(base, ".gv11b") {
			found = append(found, folder)
		}
	}
	return found
}

// String returns the board's name, chip and release.
func (b *Board) String() string {
	if b.Release == "" {
		return b.Model + ", " + b.Chip
	}
	return b.Model + ", " + b.Chip + ", L4T " + b.Release
}

// read returns the content of a file below root, empty when it cannot be read.
func read(root, path string) string {
	f, err := os.Open(filepath.Join(root, path))
	if err != nil {
		return ""
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return "" // such as EAGAIN, which a sensor answers while its part is disabled
	}
	return string(content)
}

// number reads a file that holds one number.
func number(path string) (float64, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(read("", path)), 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}

// glob lists what matches below root, sorted.
func glob(root, pattern string) []string {
	list, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		return nil
	}
	return list
}
