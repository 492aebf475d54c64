package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/edgewise-ai/edgewise/appliance/config"
)

// Temporary makes the data folder of preset, when the configuration has that one; remove deletes it. In a container every
// box has the same process ID, so the folder of a box that was killed may exist: it is emptied, unless a box has locked it.
func (t *Triton) Temporary(c config.Config) (remove func(), err error) {
	if p := t.preset(); p == nil || c.DataDir != p["data_dir"] {
		return func() {}, nil
	}
	held, err := hold(c.DataDir)
	if err != nil {
		return nil, fmt.Errorf("a folder for the store: %w; name one with --set data_dir=FOLDER", err)
	}
	return func() {
		_ = os.RemoveAll(c.DataDir)
		_ = held.Close()
	}, nil
}

// hold makes a folder, or empties one of this user's, and keeps others of this program from taking it until it is
// closed.
func hold(path string) (held *os.File, err error) {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := own(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// own locks a folder and empties it.
func own(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is there, and is not this user's alone", f.Name())
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("%s is another box's, which runs: %w", f.Name(), err)
	}
	names, err := f.Readdirnames(-1)
	for _, name := range names {
		err = errors.Join(err, os.RemoveAll(filepath.Join(f.Name(), name)))
	}
	return err
}
