package repository

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// Folder is where one model stands in a repository.
type Folder struct {
	Name string // of the model
	Dir  string // absolute
	bare bool   // it has no folders of versions: the files in it are version 1
}

// Folders lists the models of a repository, by name. refused says of each folder that cannot hold a model why. A
// model's own folder may be given instead of a repository, and so may one that holds nothing but the files of one
// version, as KServe mounts them at /mnt/models: its name is what its configuration says, otherwise the folder's.
// Unlike Read it follows links: what is served is copied into the store, not read where it stands. Errors: NotFound,
// Invalid.
func Folders(dir string) (folders []Folder, refused []error, err error) {
	const op = "repository.Folders"
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	entries, err := os.ReadDir(absolute)
	if err != nil {
		return nil, nil, edgewise.Errorf(op, edgewise.NotFound, "model repository: %w", err)
	}
	if len(entries) > MaxModels {
		return nil, nil, invalid(dir, "more than %d entries", MaxModels)
	}
	if bare := isBare(entries); bare || isModel(entries) {
		f := Folder{Name: rootName(absolute, entries), Dir: absolute, bare: bare}
		if err := edgewise.CheckName(f.Name); err != nil {
			return nil, nil, invalid(dir, "%w", err)
		}
		return []Folder{f}, nil, nil
	}
	for _, entry := range entries {
		source := filepath.Join(absolute, entry.Name())
		info, err := os.Stat(source)
		switch {
		case strings.HasPrefix(entry.Name(), "."):
		case err != nil:
			refused = append(refused, invalid(source, "%w", err))
		case !info.IsDir():
		case edgewise.CheckName(entry.Name()) != nil:
			refused = append(refused, invalid(source, "%w", edgewise.CheckName(entry.Name())))
		default:
			folders = append(folders, Folder{Name: entry.Name(), Dir: source})
		}
	}
	return folders, refused, nil
}

// isBare tells whether a folder holds the files of a version, and no folders of versions.
func isBare(entries []os.DirEntry) bool {
	numbered := slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		_, ok := versionNumber(e.Name())
		return ok
	})
	return !numbered && slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return slices.Contains([]string{"model.onnx", "model.wasm"}, e.Name())
	})
}

var ownName = regexp.MustCompile(`(?m)^[ \t{]*"?name"?[ \t]*:[ \t]*(?:["']([A-Za-z0-9_.,-]+)|([A-Za-z0-9_.-]+))`)

// rootName is the name of a model whose folder was given in place of a repository.
func rootName(dir string, entries []os.DirEntry) string {
	for _, e := range entries {
		if !isConfig(e.Name()) {
			continue
		}
		if match := ownName.FindSubmatch(beginning(filepath.Join(dir, e.Name()))); match != nil {
			return string(match[1]) + string(match[2])
		}
	}
	return filepath.Base(dir)
}

// Contents are the files of a model, as they were found at one moment or as a client gave them.
type Contents struct {
	Name     string
	Shared   []File           // of every version, sorted by Path
	Versions map[int64][]File // of one version alone; also versions without such files
}

// Contents reads what stands in the folder. configName chooses the configuration configs/<configName>.pbtxt where there
// is one; "" chooses none. Errors: NotFound when the folder has gone, Invalid with the path.
func (f Folder) Contents(configName string) (*Contents, error) {
	c, err := f.files(walk{follow: true})
	if err != nil {
		return nil, err
	}
	if f.bare {
		c.Versions[1] = slices.DeleteFunc(slices.Clone(c.Shared), func(f File) bool { return isConfig(f.Path) })
		c.Shared = slices.DeleteFunc(c.Shared, func(f File) bool { return !isConfig(f.Path) })
	}
	c.chooseConfig(configName)
	return c, nil
}

// files lists the files of the model, each folder with a walk as empty as empty.
func (f Folder) files(empty walk) (*Contents, error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return nil, edgewise.Errorf("repository.Contents", edgewise.NotFound, "model '%s': %w", f.Name, err)
	}
	c := &Contents{Name: f.Name, Versions: map[int64][]File{}}
	for _, entry := range entries {
		number, isVersion := versionNumber(entry.Name())
		source, w := filepath.Join(f.Dir, entry.Name()), empty
		if !isVersion || f.bare {
			if err := w.add(source, entry.Name()); err != nil {
				return nil, err
			}
			c.Shared = append(c.Shared, w.files...)
			continue
		}
		info, err := w.stat(source)
		switch {
		case err != nil:
			return nil, invalid(source, "%w", err)
		case !info.IsDir(): // a file that is named like a version
			continue
		}
		if err := w.below(source, ""); err != nil {
			return nil, err
		}
		c.Versions[number] = w.files
	}
	if len(c.Versions) > MaxVersions {
		return nil, invalid(f.Dir, "more than %d version folders", MaxVersions)
	}
	return c, nil
}

// configsFolder holds configurations to choose from; it is no part of a version.
const configsFolder = "configs/"

func (c *Contents) chooseConfig(name string) {
	chosen := slices.IndexFunc(c.Shared, func(f File) bool { return name != "" && f.Path == configsFolder+name+".pbtxt" })
	if chosen >= 0 {
		f := c.Shared[chosen]
		f.Path = "config.pbtxt"
		c.Shared = append(slices.DeleteFunc(slices.Clone(c.Shared), func(f File) bool { return isConfig(f.Path) }), f)
	}
	c.Shared = slices.DeleteFunc(c.Shared, func(f File) bool {
		return strings.HasPrefix(f.Path, configsFolder) && strings.HasSuffix(f.Path, ".pbtxt")
	})
	slices.SortFunc(c.Shared, byPath)
}

// FilesOf makes the contents of a model of files by path, such as "1/model.onnx". Errors: Invalid for a path that
// leaves the model's folder.
func FilesOf(name string, files map[string][]byte) (*Contents, error) {
	c := &Contents{Name: name, Versions: map[int64][]File{}}
	for p, data := range files {
		clean := path.Clean(p)
		if err := edgewise.CheckPath(clean); err != nil {
			return nil, edgewise.Errorf("repository.FilesOf", edgewise.Invalid,
				"Invalid file parameter 'file:%.200s' must stay within model directory: %w", p, err)
		}
		f := File{Path: clean, Data: data, Size: int64(len(data))}
		folder, rest, below := strings.Cut(clean, "/")
		if number, ok := versionNumber(folder); ok && below {
			f.Path = rest
			c.Versions[number] = append(c.Versions[number], f)
			continue
		}
		c.Shared = append(c.Shared, f)
	}
	slices.SortFunc(c.Shared, byPath)
	return c, nil
}

// SetConfig puts a configuration in place of the one that is there; file is its name, such as "config.json".
func (c *Contents) SetConfig(file string, data []byte) {
	c.Shared = slices.DeleteFunc(slices.Clone(c.Shared), func(f File) bool { return isConfig(f.Path) })
	c.Shared = append(c.Shared, File{Path: file, Data: data, Size: int64(len(data))})
	slices.SortFunc(c.Shared, byPath)
}

// Config returns the configuration file; "" when there is none. Errors: Invalid, TooLarge over MaxConfigBytes.
func (c *Contents) Config() (file string, data []byte, err error) {
	for _, f := range c.Shared {
		if !isConfig(f.Path) {
			continue
		}
		if data = f.Data; data == nil {
			if data, err = start(f.Source, MaxConfigBytes+1); err != nil {
				return "", nil, invalid(f.Source, "%w", err)
			}
			if len(data) > MaxConfigBytes {
				return "", nil, edgewise.Errorf("repository.Config", edgewise.TooLarge, "%s: a configuration has at most %d bytes",
					f.Source, MaxConfigBytes)
			}
		}
		return f.Path, data, nil
	}
	return "", nil, nil
}

// Numbers returns the versions' numbers, ascending.
func (c *Contents) Numbers() []int64 {
	numbers := make([]int64, 0, len(c.Versions))
	for n := range c.Versions {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers
}

// Version returns the files of one version, the shared ones among them. Errors: Invalid.
func (c *Contents) Version(number int64) (Version, error) {
	return merged(edgewise.ModelID{Name: c.Name, Version: number}, c.Name, c.Shared, c.Versions[number])
}

// Stamp tells two states of a version apart without reading its files: it is over their paths, sizes and times.
func (v Version) Stamp() string { return stampOf(v.Files) }

// Stamp tells two states of a model apart as that of a Version does.
func (c *Contents) Stamp() string {
	stamps := stampOf(c.Shared)
	for _, number := range c.Numbers() {
		stamps += fmt.Sprintf(" %d %s", number, stampOf(c.Versions[number]))
	}
	return stamps
}

func stampOf(files []File) string {
	h := sha256.New()
	for _, f := range files {
		_, _ = fmt.Fprintf(h, "%s\x00%d\x00%d\x00%x\n", f.Path, f.Size, f.Changed, sha256.Sum256(f.Data))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func byPath(a, b File) int { return strings.Compare(a.Path, b.Path) }

// maxLinks bounds how many links to folders are followed inside one another, so that a circle of them ends.
const maxLinks = 8

// walk collects files. It refuses links unless it follows them.
type walk struct {
	follow bool
	files  []File
	links  int // to folders, followed inside one another
}

func (w *walk) stat(source string) (os.FileInfo, error) {
	if w.follow {
		return os.Stat(source)
	}
	return os.Lstat(source)
}

// below adds what stands in a folder, under the path prefix.
func (w *walk) below(dir, prefix string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return invalid(dir, "%w", err)
	}
	for _, e := range entries {
		if err := w.add(filepath.Join(dir, e.Name()), path.Join(prefix, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// add adds one entry, with all below it.
func (w *walk) add(source, name string) error {
	if strings.HasPrefix(path.Base(name), ".") {
		return nil
	}
	info, err := w.stat(source)
	if err != nil {
		return invalid(source, "%w", err)
	}
	if link, err := os.Lstat(source); err == nil && link.Mode()&os.ModeSymlink != 0 && info.IsDir() {
		if w.links == maxLinks {
			return invalid(source, "links to folders lead through more than %d of them", maxLinks)
		}
		w.links++
		defer func() { w.links-- }()
	}
	switch {
	case info.IsDir():
		return w.below(source, name)
	case !info.Mode().IsRegular() && !w.follow:
		return invalid(source, "not a regular file: links and devices are not imported")
	case !info.Mode().IsRegular():
		return invalid(source, "not a regular file")
	case len(w.files) >= MaxFiles:
		return invalid(source, "more than %d files", MaxFiles)
	}
	if err := edgewise.CheckPath(name); err != nil {
		return invalid(source, "%w", err)
	}
	w.files = append(w.files, File{Path: name, Source: source, Size: info.Size(), Changed: info.ModTime().UnixNano()})
	return nil
}
