//go:build !linux

package disk

import (
	"errors"
	"io"
	"os"
)

// Clone cannot share blocks here.
func (f *osFile) Clone(*os.File) io.ReadCloser { return nil }

// startWriteback does nothing where the system has no such hint.
func startWriteback(*os.File, int64, int64) {}

// setDirect fails: writes go through the page cache here.
func setDirect(*os.File, bool) error { return errors.ErrUnsupported }
