package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
)

// debris is what stands in the data folder without being named by the catalog.
type debris struct {
	garbage []string           // ours and unfinished: to be removed
	marked  []edgewise.ModelID // versions in the catalog whose folder still has its mark
	unknown []edgewise.ModelID // complete version folders that the catalog does not name: never removed
	foreign []string           // not made by a store: never touched
}

// scan looks into the known places for things that v does not name.
func (l layout) scan(v *view) (*debris, error) {
	d := new(debris)
	if _, err := os.Lstat(l.catalog() + newSuffix); err == nil {
		d.garbage = append(d.garbage, l.catalog()+newSuffix)
	}
	return d, errors.Join(d.scanStaging(l), d.scanSnapshots(l), d.scanBlobs(l, v), d.scanModels(l, v))
}

func (d *debris) scanStaging(l layout) error {
	return eachEntry(l.staging(), func(path string, e os.DirEntry) error {
		if e.IsDir() && isStaging(e.Name()) {
			d.garbage = append(d.garbage, path)
		} else {
			d.foreign = append(d.foreign, path)
		}
		return nil
	})
}

func (d *debris) scanSnapshots(l layout) error {
	return eachEntry(l.snapshots(), func(path string, e os.DirEntry) error {
		name, partial := strings.CutSuffix(e.Name(), database.PartialSuffix)
		_, ours := database.ParseSnapshot(catalogPrefix, name)
		switch {
		case !ours || !e.Type().IsRegular():
			d.foreign = append(d.foreign, path)
		case partial:
			d.garbage = append(d.garbage, path)
		}
		return nil
	})
}

func (d *debris) scanBlobs(l layout, v *view) error {
	named := make(map[edgewise.Digest]bool)
	for _, r := range v.records {
		for _, version := range r.Versions {
			for _, f := range version.Files {
				named[f.Digest] = true
			}
		}
	}
	return eachEntry(l.blobs(), func(folder string, e os.DirEntry) error {
		prefix := e.Name()
		if !e.IsDir() || !isHex(prefix, 2) {
			d.foreign = append(d.foreign, folder)
			return nil
		}
		return eachEntry(folder, func(path string, e os.DirEntry) error {
			digest, partial, ours := isBlob(prefix, e.Name())
			switch {
			case !ours || !e.Type().IsRegular():
				d.foreign = append(d.foreign, path)
			case partial || !named[digest]:
				d.garbage = append(d.garbage, path)
			}
			return nil
		})
	})
}

func (d *debris) scanModels(l layout, v *view) error {
	return eachEntry(l.models(), func(folder string, e os.DirEntry) error {
		name := e.Name()
		if !e.IsDir() || edgewise.CheckName(name) != nil {
			d.foreign = append(d.foreign, folder)
			return nil
		}
		entries := 0
		err := eachEntry(folder, func(path string, e os.DirEntry) error {
			entries++
			n, ok := parseVersion(e.Name())
			if !ok || !e.IsDir() {
				d.foreign = append(d.foreign, path)
				return nil
			}
			d.judge(path, edgewise.ModelID{Name: name, Version: n}, v)
			return nil
		})
		if entries == 0 {
			d.garbage = append(d.garbage, folder)
		}
		return err
	})
}

// judge sorts one version folder.
func (d *debris) judge(folder string, id edgewise.ModelID, v *view) {
	_, err := os.Lstat(filepath.Join(folder, pendingFile))
	marked, named := err == nil, v.version(id) != nil
	switch {
	case marked && named:
		d.marked = append(d.marked, id)
	case marked:
		d.garbage = append(d.garbage, folder)
	case !named:
		d.unknown = append(d.unknown, id)
	}
}

func eachEntry(folder string, fn func(path string, e os.DirEntry) error) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := fn(filepath.Join(folder, e.Name()), e); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes what crashes and failures left, and logs what it does not own. What it cannot remove is left for the
// next time: garbage does no harm.
func (s *Store) sweep() {
	d, err := s.root.scan(s.view.Load())
	if err != nil {
		s.log.Error("cannot look for garbage in the data folder", "error", err)
	}
	for _, path := range d.garbage {
		if err := s.discardTree(path); err != nil {
			s.log.Error("cannot remove garbage", "path", s.root.relative(path), "error", err)
			continue
		}
		s.log.Info("removed what an interrupted change had left", "path", s.root.relative(path))
	}
	for _, id := range d.marked {
		s.settled(id)
	}
	for _, id := range d.unknown {
		s.log.Warn("a version folder is not in the catalog: edgewise doctor --repair takes it in", "model", id.Name, "version", id.Version)
	}
	for _, path := range d.foreign {
		s.log.Warn("a foreign file is in the data folder", "path", s.root.relative(path))
	}
}

// discardTree removes garbage. A version folder first leaves its place in one step, because half of it, without its
// mark, would be taken for a version.
func (s *Store) discardTree(path string) error {
	if filepath.Dir(filepath.Dir(path)) == s.root.models() {
		trash := s.root.newStaging()
		if err := s.disk.Rename(path, trash); err != nil {
			return err
		}
		s.removeEmpty(filepath.Dir(path))
		path = trash
	}
	return s.disk.RemoveAll(path)
}
