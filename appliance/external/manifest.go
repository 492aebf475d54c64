package external

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
	"github.com/edgewise-ai/edgewise/appliance/child"
	"github.com/edgewise-ai/edgewise/appliance/document"
	"github.com/edgewise-ai/edgewise/appliance/external/remote"
)

// ManifestFile is the file that makes a folder a backend.
const ManifestFile = "backend.yaml"

// Manifest says what a backend is: a program that is started for each instance, or a server that is there. Its fields are
// the keys of the file.
type Manifest struct {
	Protocol int      `json:"protocol"`
	Command  []string `json:"command"` // the program and its arguments
	// instead of a command: where a server of the inference protocol listens on this machine, a file with what it asks for as
	// "Authorization: Bearer", and whether its models are loaded and unloaded as versions are
	Address   string `json:"address"`
	TokenFile string `json:"token_file"`
	Load      bool   `json:"load"`
	// the models that it serves: platforms, of which the first is the name of the folder where there are none, and the
	// default name of a model's file; empty: a model is a configuration alone
	Platforms []string `json:"platforms"`
	File      string   `json:"file"`

	Complete    bool              `json:"complete"`    // it says what a configuration leaves open
	Trial       bool              `json:"trial"`       // a made-up request may be run when a model is loaded
	Threads     int               `json:"threads"`     // cores of one execution
	Read        []string          `json:"read"`        // files and folders that it reads beside its own, the model's and the system's
	Environment map[string]string `json:"environment"` // variables
	Memory      Size              `json:"memory"`      // most of a process
	Scratch     Size              `json:"scratch"`     // most of a folder of its own to write files in; 0: it has none
	GPU         bool              `json:"gpu"`         // it can use GPUs of CUDA
	GPUMemory   Size              `json:"gpu_memory"`  // what a process takes of one, where its model does not say
	Network     bool              `json:"network"`     // it may use the network
	Processes   bool              `json:"processes"`   // it may start processes
	Input       Size              `json:"input_memory"`
	Output      Size              `json:"output_memory"`
	LoadTimeout time.Duration     `json:"load_timeout"` // until READY
	Grace       time.Duration     `json:"grace"`        // until the last response to a request that was cancelled
	Spare       bool              `json:"spare"`        // another process of a version waits for the end of one
	Conformance string            `json:"conformance"`  // folder of the conformance model; empty: there is none
	SelfCheck   bool              `json:"self_check"`   // with the argument --check it says what it lacks to run here, and ends

	Name   string `json:"-"` // that of the folder
	Folder string `json:"-"`
}

// Defaults of a manifest.
var defaults = Manifest{
	Threads: 1, Memory: 2 << 30, GPUMemory: 1 << 30, Input: 256 << 20, Output: 256 << 20,
	LoadTimeout: 5 * time.Minute, Grace: 10 * time.Second,
}

// Bounds of a manifest.
const (
	maxManifest = 64 << 10
	maxThreads  = 256
	maxShared   = 16 << 30
	minShared   = 1 << 20
	maxFormats  = 64
)

// Size is a number of bytes: 1048576, 1MiB.
type Size int64

// UnmarshalText reads a number with or without a unit.
func (s *Size) UnmarshalText(text []byte) error {
	number, unit := strings.TrimSpace(string(text)), int64(1)
	for suffix, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if rest, ok := strings.CutSuffix(number, suffix); ok {
			number, unit = strings.TrimSpace(rest), factor
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("want a number of bytes such as 512MiB, got %.64q", text)
	}
	*s = Size(n * unit)
	return nil
}

// ReadManifest reads the backend in a folder. The error names each problem with its line.
func ReadManifest(folder string) (*Manifest, error) {
	path := filepath.Join(folder, ManifestFile)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxManifest {
		return nil, edgewise.Errorf("external.ReadManifest", edgewise.TooLarge, "%s: %d bytes, at most %d are allowed", path,
			info.Size(), maxManifest)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	doc, err := document.Parse(path, document.YAML, text)
	if err != nil {
		return nil, err
	}
	m := defaults
	if err := doc.Decode(&m, document.Schema{Name: "backend"}); err != nil {
		return nil, err
	}
	if m.Folder, err = filepath.Abs(folder); err != nil {
		return nil, err
	}
	m.Name = filepath.Base(m.Folder)
	if len(m.Platforms) == 0 {
		m.Platforms = []string{m.Name}
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &m, nil
}

// check reports everything that is wrong with a manifest.
func (m *Manifest) check() error {
	var problems []error
	problem := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	problem(edgewise.CheckName(m.Name) != nil, "the folder's name %q is no name of a backend", m.Name)
	if m.Address != "" {
		problems = append(problems, m.checkServer()...)
	} else {
		problem(m.Protocol != backend.Version, "protocol: want %d, got %d", backend.Version, m.Protocol)
		problem(len(m.Command) == 0 || m.Command[0] == "", "command: the program is missing")
		problem(m.TokenFile != "" || m.Load, "token_file, load: they are keys of a server, which has an address")
	}
	problem(len(m.Platforms) > maxFormats, "platforms: %d of them, at most %d are allowed", len(m.Platforms), maxFormats)
	problem(slices.Contains(m.Platforms, ""), "platforms: one is empty")
	problem(m.File != "" && (filepath.Ext(m.File) == "" || filepath.Base(m.File) != m.File),
		"file: want the name of a file with an extension, got %q", m.File)
	problem(m.Threads < 1 || m.Threads > maxThreads, "threads: want 1 to %d, got %d", maxThreads, m.Threads)
	problem(m.Memory < minShared, "memory: want %d bytes at least, got %d", minShared, m.Memory)
	problem(m.GPUMemory < minShared, "gpu_memory: want %d bytes at least, got %d", minShared, m.GPUMemory)
	problem(m.GPUMemory != defaults.GPUMemory && !m.GPU, "gpu_memory: the backend uses no GPU: gpu is false")
	for name, size := range map[string]Size{"input_memory": m.Input, "output_memory": m.Output} {
		problem(size < minShared || size > maxShared, "%s: want %d to %d bytes, got %d", name, minShared, maxShared, size)
	}
	problem(m.LoadTimeout <= 0, "load_timeout: want a time above 0, got %v", m.LoadTimeout)
	problem(m.Grace <= 0, "grace: want a time above 0, got %v", m.Grace)
	return errors.Join(problems...)
}

// checkServer reports what is wrong with the manifest of a server.
func (m *Manifest) checkServer() (problems []error) {
	if _, err := remote.ParseAddress(m.Address); err != nil {
		problems = append(problems, err)
	}
	if m.TokenFile != "" && !filepath.IsAbs(m.TokenFile) {
		problems = append(problems, fmt.Errorf("token_file: want a path from /, got %q", m.TokenFile))
	}
	own := *m // with what concerns both kinds, or is made of the folder, as it is by default
	own.Address, own.TokenFile, own.Load = "", "", false
	own.Platforms, own.Name, own.Folder, own.Trial = nil, "", "", false
	own.Input, own.Output, own.LoadTimeout = defaults.Input, defaults.Output, defaults.LoadTimeout
	if !reflect.DeepEqual(own, defaults) {
		problems = append(problems, errors.New("address: a server has no other keys than platforms, trial, token_file, load, "+
			"input_memory, output_memory and load_timeout: the others are those of a program"))
	}
	return problems
}

// Formats are those of the models that the backend serves.
func (m *Manifest) Formats() []edgewise.Format {
	var list []edgewise.Format
	devices := []edgewise.DeviceKind{edgewise.CPU}
	if m.GPU {
		devices = append(devices, edgewise.GPU)
	}
	for _, platform := range m.Platforms {
		list = append(list, edgewise.Format{
			Platform: platform, Backend: m.Name, File: m.File, Devices: devices, Answers: true,
			External: true, GPUMemory: int64(m.GPUMemory), Untried: !m.Trial, Remote: m.Address != "",
		})
	}
	return list
}

// expand replaces ${backend} and the names in more by what they stand for.
func (m *Manifest) expand(text string, more map[string]string) string {
	text = strings.ReplaceAll(text, "${backend}", m.Folder)
	for name, value := range more {
		text = strings.ReplaceAll(text, "${"+name+"}", value)
	}
	return text
}

// access is what a process of the backend may use for a model in some folders. scratch is "" where it has none.
func (m *Manifest) access(scratch string, folders ...string) child.Access {
	names := map[string]string{"scratch": scratch}
	a := child.Access{
		ReadPaths: append([]string{m.Folder}, folders...), Network: m.Network,
		Environment: []string{
			fmt.Sprintf("%s=%d", backend.EnvironmentKey, backend.Version), "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8",
			"HOME=" + scratch,
		},
	}
	if scratch != "" {
		a.WritePaths = []string{scratch}
		a.Environment = append(a.Environment, "TMPDIR="+scratch)
	}
	for _, path := range m.Read {
		a.ReadPaths = append(a.ReadPaths, m.expand(path, names))
	}
	for name, value := range m.Environment {
		a.Environment = append(a.Environment, name+"="+m.expand(value, names))
	}
	return a
}

// Unusable is a folder with a backend that cannot be used, or one that cannot be read.
type Unusable struct {
	Folder string
	Err    error
}

// Discover reads the backends in folders: each folder in one of them that has a manifest. The first one of a name, and
// of a platform, counts. A folder that does not exist has none.
func Discover(folders []string) (list []*Manifest, others []Unusable) {
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				others = append(others, Unusable{folder, err})
			}
			continue
		}
		for _, entry := range entries {
			own := filepath.Join(folder, entry.Name())
			m, err := ReadManifest(own)
			switch {
			case errors.Is(err, fs.ErrNotExist) || notFolder(err):
			case err != nil:
				others = append(others, Unusable{own, err})
			case clashes(list, m) != "":
				others = append(others, Unusable{own, fmt.Errorf("%s: %s", m.Folder, clashes(list, m))})
			default:
				list = append(list, m)
			}
		}
	}
	return list, others
}

func notFolder(err error) bool {
	e, ok := errors.AsType[*fs.PathError](err)
	return ok && strings.Contains(e.Err.Error(), "not a directory")
}

// clashes says what a backend has in common with one that was found before; "": nothing.
func clashes(list []*Manifest, m *Manifest) string {
	for _, other := range list {
		if other.Name == m.Name {
			return fmt.Sprintf("there is a backend %q in %s already", m.Name, other.Folder)
		}
		for _, platform := range m.Platforms {
			if slices.Contains(other.Platforms, platform) {
				return fmt.Sprintf("platform %q is that of the backend in %s already", platform, other.Folder)
			}
		}
	}
	return ""
}
