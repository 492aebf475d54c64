package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
)

// findDamage looks for the files of every version, without reading them.
func (s *Store) findDamage() map[edgewise.ModelID]string {
	found := make(map[edgewise.ModelID]string)
	for _, r := range s.view.Load().records {
		for _, v := range r.Versions {
			if err := s.root.checkFiles(v); err != nil {
				found[v.ID] = err.Error()
				s.log.Error("a stored version is damaged", "model", v.ID.Name, "version", v.ID.Version, "reason", err)
			}
		}
	}
	return found
}

// checkFiles returns the first file of v that is missing or has the wrong size.
func (l layout) checkFiles(v *edgewise.Version) error {
	folder := l.files(v.ID)
	for _, f := range v.Files {
		if err := checkSize(filepath.Join(folder, filepath.FromSlash(f.Path)), f); err != nil {
			return err
		}
	}
	return nil
}

func checkSize(path string, f edgewise.File) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("file %q is missing", f.Path)
	case err != nil:
		return fmt.Errorf("file %q: %w", f.Path, bare(err))
	case !info.Mode().IsRegular():
		return fmt.Errorf("file %q is not a regular file", f.Path)
	case info.Size() != f.Size:
		return fmt.Errorf("file %q has %d bytes instead of %d", f.Path, info.Size(), f.Size)
	}
	return nil
}
