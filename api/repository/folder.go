package repository

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/pattern"
)

// Repository is a tree of files that holds models.
type Repository struct {
	FS fs.FS // has the models' folders in its root
	// Place is where the tree is, such as the absolute path of a folder. Messages begin with it.
	Place string
	// Model names the model where the folder of one was given instead of a repository and its configuration has no name.
	// Empty: the last part of Place does.
	Model string
	// ModelFiles are names of model files. A folder that has one of them holds the files of one version.
	ModelFiles []string
}

// Dir returns the repository in a folder of this machine.
func Dir(dir string, modelFiles ...string) Repository {
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute
	}
	return Repository{FS: os.DirFS(dir), Place: dir, ModelFiles: modelFiles}
}

// at returns where a file of the tree is.
func (r Repository) at(name string) string {
	if name == "." {
		return r.Place
	}
	return strings.TrimSuffix(r.Place, "/") + "/" + name
}

func (r Repository) entries() ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(r.FS, ".")
	if err != nil {
		return nil, edgewise.Errorf("repository.Read", edgewise.NotFound, "model repository: %s: %w", r.Place, reason(err))
	}
	if len(entries) > MaxModels {
		return nil, invalid(r.Place, "more than %d entries", MaxModels)
	}
	return entries, nil
}

// Folder is the folder of one model in a repository.
type Folder struct {
	Name string // of the model

	repository Repository
	dir        string // in the repository
	bare       bool   // it has no folders of versions: the files in it are version 1
	follow     bool   // links are followed, otherwise refused
}

// Place returns where the folder is.
func (f Folder) Place() string { return f.repository.at(f.dir) }

// Versions lists the versions in a repository, by model and number; a model whose configuration names others, as an
// ensemble does, comes behind those. A model's folder may also be given instead of a repository: one with a config file
// or a numbered folder. Folders whose names are not numbers above 0, or have leading zeros, are not versions, as in
// Triton. Links are refused, since what they lead to may change. Errors: NotFound, Invalid with the path.
func (r Repository) Versions() ([]Version, error) {
	entries, err := r.entries()
	if err != nil {
		return nil, err
	}
	if isModel(entries) {
		return Folder{Name: path.Base(r.Place), repository: r, dir: "."}.versions()
	}
	var all []Version
	for _, entry := range entries {
		if !entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		versions, err := Folder{Name: entry.Name(), repository: r, dir: entry.Name()}.versions()
		if err != nil {
			return nil, err
		}
		all = append(all, versions...)
	}
	if len(all) == 0 {
		return nil, invalid(r.Place, "no model in it: want <model>/<version>/model.onnx")
	}
	return inOrder(all), nil
}

func (f Folder) versions() ([]Version, error) {
	if err := edgewise.CheckName(f.Name); err != nil {
		return nil, invalid(f.Place(), "%w", err)
	}
	c, err := f.read()
	if err != nil {
		return nil, err
	}
	if n := len(c.Versions); n == 0 {
		return nil, invalid(f.Place(), "%d version folders: want 1 to %d, named by a number", n, MaxVersions)
	}
	var versions []Version
	for _, number := range c.Numbers() {
		v, err := c.Version(number)
		if err != nil {
			return nil, err
		}
		versions = append(versions, v)
	}
	return versions, nil
}

// ReadFolder returns the files in one folder of this machine as a version. Of a model's folder, which has folders of
// versions, it is the highest one, with the files beside them. Errors: Invalid with the path.
func ReadFolder(id edgewise.ModelID, dir string) (Version, error) {
	r := Dir(dir)
	entries, err := r.entries()
	if err != nil {
		return Version{}, err
	}
	if slices.ContainsFunc(entries, isVersion) {
		versions, err := Folder{Name: id.Name, repository: r, dir: "."}.versions()
		if err != nil {
			return Version{}, err
		}
		last := versions[len(versions)-1]
		last.ID = id
		return last, nil
	}
	w := &walk{repository: r}
	if err := w.below(".", ""); err != nil {
		return Version{}, err
	}
	return merged(id, w.repository.Place, nil, w.files)
}

// Folders lists the models of a repository, by name. refused has, for each folder that cannot hold a model, the reason.
// A model's own folder may be given instead of a repository, and so may one that holds nothing but the files of one
// version, as KServe mounts them at /mnt/models: the model's name is that in its configuration, else r.Model or the folder's.
// Unlike Versions it follows links, since the files are copied into the store before they are served. Errors: NotFound,
// Invalid.
func (r Repository) Folders() (folders []Folder, refused []error, err error) {
	entries, err := r.entries()
	if err != nil {
		return nil, nil, err
	}
	if bare := r.isBare(entries); bare || isModel(entries) {
		f := Folder{Name: r.rootName(entries), repository: r, dir: ".", bare: bare, follow: true}
		if err := edgewise.CheckName(f.Name); err != nil {
			return nil, nil, invalid(r.Place, "%w", err)
		}
		return []Folder{f}, nil, nil
	}
	for _, entry := range entries {
		f := Folder{Name: entry.Name(), repository: r, dir: entry.Name(), follow: true}
		info, err := fs.Stat(r.FS, f.dir)
		switch {
		case strings.HasPrefix(f.Name, "."):
		case err != nil:
			refused = append(refused, invalid(f.Place(), "%w", reason(err)))
		case !info.IsDir():
		case edgewise.CheckName(f.Name) != nil:
			refused = append(refused, invalid(f.Place(), "%w", edgewise.CheckName(f.Name)))
		default:
			folders = append(folders, f)
		}
	}
	return folders, refused, nil
}

func isModel(entries []fs.DirEntry) bool {
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return isVersion(e) || !e.IsDir() && strings.HasPrefix(e.Name(), "config.")
	})
}

// isVersion tells whether an entry of a model's folder is the folder of a version.
func isVersion(e fs.DirEntry) bool {
	_, numbered := versionNumber(e.Name())
	return numbered && e.IsDir()
}

// versionNumber reads a version folder's name: a number above 0 without leading zeros.
func versionNumber(name string) (int64, bool) {
	n, err := strconv.ParseInt(name, 10, 64)
	return n, err == nil && n > 0 && strconv.FormatInt(n, 10) == name
}

// isBare tells whether a folder holds the files of a version, and no folders of versions.
func (r Repository) isBare(entries []fs.DirEntry) bool {
	numbered := slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		_, ok := versionNumber(e.Name())
		return ok
	})
	return !numbered && slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return slices.Contains(r.ModelFiles, e.Name())
	})
}

var ownName = pattern.New(`(?m)^[ \t{]*"?name"?[ \t]*:[ \t]*(?:["']([A-Za-z0-9_.,-]+)|([A-Za-z0-9_.-]+))`)

// rootName is the name of a model whose folder was given in place of a repository.
func (r Repository) rootName(entries []fs.DirEntry) string {
	for _, e := range entries {
		config := File{Path: e.Name(), Source: r.at(e.Name()), fsys: r.FS, name: e.Name()}
		if !config.isConfig() {
			continue
		}
		if match := ownName.FindSubmatch(config.searched()); match != nil {
			return string(match[1]) + string(match[2])
		}
	}
	return cmp.Or(r.Model, path.Base(r.Place))
}

// Contents are the files of a model, as they were found at one moment or as a client gave them.
type Contents struct {
	Name     string
	Shared   []File           // that belong to every version, sorted by Path
	Versions map[int64][]File // of one version alone; also versions without such files

	place string // of the model's folder, for messages
}

// Contents reads the folder. configName chooses the configuration configs/<configName>.pbtxt where there
// is one; "" chooses none. Errors: NotFound when the folder has gone, Invalid with the path.
func (f Folder) Contents(configName string) (*Contents, error) {
	c, err := f.read()
	if err != nil {
		return nil, err
	}
	if f.bare {
		c.Versions[1] = slices.DeleteFunc(slices.Clone(c.Shared), File.isConfig)
		c.Shared = slices.DeleteFunc(c.Shared, func(f File) bool { return !f.isConfig() })
	}
	c.chooseConfig(configName)
	return c, nil
}

// read reads the files of all versions, and those that they share.
func (f Folder) read() (*Contents, error) {
	entries, err := fs.ReadDir(f.repository.FS, f.dir)
	if err != nil {
		return nil, edgewise.Errorf("repository.Contents", edgewise.NotFound, "model '%s': %s: %w",
			f.Name, f.Place(), reason(err))
	}
	c := &Contents{Name: f.Name, Versions: map[int64][]File{}, place: f.Place()}
	shared := f.walk()
	for _, entry := range entries {
		source := path.Join(f.dir, entry.Name())
		number, isVersion := versionNumber(entry.Name())
		info, err := shared.info(source, entry)
		switch {
		case !isVersion || f.bare:
			err = shared.add(source, entry, entry.Name())
		case err != nil:
			err = invalid(f.repository.at(source), "%w", reason(err))
		case info.IsDir():
			own := f.walk()
			err = own.below(source, "")
			c.Versions[number] = own.files
		}
		if err != nil {
			return nil, err
		}
	}
	if len(c.Versions) > MaxVersions {
		return nil, invalid(f.Place(), "%d version folders: want 1 to %d, named by a number", len(c.Versions), MaxVersions)
	}
	c.Shared = shared.files
	return c, nil
}

// configsFolder holds configurations to choose from; it is no part of a version.
const configsFolder = "configs/"

func (c *Contents) chooseConfig(name string) {
	chosen := slices.IndexFunc(c.Shared, func(f File) bool { return name != "" && f.Path == configsFolder+name+".pbtxt" })
	if chosen >= 0 {
		f := c.Shared[chosen]
		f.Path = "config.pbtxt"
		c.Shared = append(slices.DeleteFunc(slices.Clone(c.Shared), File.isConfig), f)
	}
	c.Shared = slices.DeleteFunc(c.Shared, func(f File) bool {
		return strings.HasPrefix(f.Path, configsFolder) && strings.HasSuffix(f.Path, ".pbtxt")
	})
	slices.SortFunc(c.Shared, byPath)
}

// maxFileName is how long the name of a file or a folder can be on Linux.
const maxFileName = 255

func longestName(p string) int {
	longest := 0
	for name := range strings.SplitSeq(p, "/") {
		longest = max(longest, len(name))
	}
	return longest
}

// FilesOf makes the contents of a model of files by path, such as "1/model.onnx". Errors: Invalid for a path that
// leaves the model's folder; Internal, as from Triton, for a name that no file can have.
func FilesOf(name string, files map[string][]byte) (*Contents, error) {
	c := &Contents{Name: name, Versions: map[int64][]File{}, place: name}
	for p, data := range files {
		clean := path.Clean(p)
		if n := longestName(clean); n > maxFileName {
			return nil, edgewise.Errorf("repository.FilesOf", edgewise.Internal,
				"file parameter 'file:%.200s': a name of %d bytes cannot be written: at most %d are possible", p, n, maxFileName)
		}
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

// SetConfig replaces the configuration; file is the name of the new one, such as "config.json".
func (c *Contents) SetConfig(file string, data []byte) {
	c.Shared = slices.DeleteFunc(slices.Clone(c.Shared), File.isConfig)
	c.Shared = append(c.Shared, File{Path: file, Data: data, Size: int64(len(data))})
	slices.SortFunc(c.Shared, byPath)
}

// Config returns the configuration file; "" when there is none. Errors: Invalid, TooLarge over MaxConfigBytes.
func (c *Contents) Config() (file string, data []byte, err error) {
	for _, f := range c.Shared {
		if !f.isConfig() {
			continue
		}
		if data = f.Data; data == nil {
			if data, err = f.start(MaxConfigBytes + 1); err != nil {
				return "", nil, invalid(f.Source, "%w", reason(err))
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
func (c *Contents) Numbers() []int64 { return slices.Sorted(maps.Keys(c.Versions)) }

// otherFolders are folders with a purpose of their own beside those of versions.
var otherFolders = []string{"configs", "initial_state", "warmup"}

// Ignored says of each folder that stands where versions do why it is not one, in Triton's words.
func (c *Contents) Ignored() (said []string) {
	for _, f := range c.Shared {
		name, _, below := strings.Cut(f.Path, "/")
		if !below || slices.Contains(otherFolders, name) {
			continue
		}
		why := "fails to convert to integral number"
		if len(name) > 1 && name[0] == '0' {
			why = "contains leading zeros in its directory name"
		}
		said = append(said, fmt.Sprintf("ignore version directory '%s' which %s", name, why))
	}
	return slices.Compact(said)
}

// Version returns the files of one version, the shared ones among them. Errors: Invalid.
func (c *Contents) Version(number int64) (Version, error) {
	return merged(edgewise.ModelID{Name: c.Name, Version: number}, c.place+"/"+strconv.FormatInt(number, 10), c.Shared,
		c.Versions[number])
}

// Stamp returns a text that changes when the version does. It is made of the paths, sizes and times of its files, which
// are not read.
func (v Version) Stamp() string { return stampOf(v.Files) }

// Stamp returns a text that changes when the model does, as that of a Version.
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
		_, _ = fmt.Fprintf(h, "%s\x00%d\x00%d\x00%s\x00%x\n", f.Path, f.Size, f.Changed, f.Tag, sha256.Sum256(f.Data))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func byPath(a, b File) int { return strings.Compare(a.Path, b.Path) }

// maxLinks bounds how many links to folders are followed inside one another, so that a circle of them ends.
const maxLinks = 8
