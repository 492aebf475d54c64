package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/edgewise-ai/edgewise"
	bolterrors "go.etcd.io/bbolt/errors"
)

// fail wraps an error of the disk or the catalog once, where it enters the project's code. doing says what was going on and to
// which thing, such as `writing file "a.bin"`. Paths of this machine stay out of the message. An error that is one of
// ours already passes through.
func fail(op string, id edgewise.ModelID, doing string, err error) *edgewise.Error {
	if own, ok := errors.AsType[*edgewise.Error](err); ok {
		return own
	}
	kind := kindOf(err)
	e := edgewise.Errorf(op, kind, "%s: %w", doing, bare(err))
	e.Model = id
	return e
}

// failFolder is fail for what the operator does with a whole data folder: the paths stay in the message.
func failFolder(op, doing, dir string, err error) *edgewise.Error {
	if own, ok := errors.AsType[*edgewise.Error](err); ok {
		return own
	}
	return edgewise.Errorf(op, kindOf(err), "%s %s: %w", doing, dir, err)
}

func kindOf(err error) edgewise.Kind {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return edgewise.Exhausted // EFBIG: a limit of the file system or the process, not one of ours
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return edgewise.Unavailable
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return edgewise.KindOf(err)
	}
	return edgewise.Internal
}

// bare strips the path that the os package puts around an error of the system.
func bare(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return l.Err
	}
	return err
}

func invalid(op string, id edgewise.ModelID, format string, args ...any) *edgewise.Error {
	return refuse(op, edgewise.Invalid, id, format, args...)
}

func refuse(op string, kind edgewise.Kind, id edgewise.ModelID, format string, args ...any) *edgewise.Error {
	e := edgewise.Errorf(op, kind, format, args...)
	e.Model = id
	return e
}

func noModel(op, name string) *edgewise.Error {
	return refuse(op, edgewise.NotFound, edgewise.ModelID{Name: name}, "model %q does not exist", name)
}

func noVersion(op string, id edgewise.ModelID) *edgewise.Error {
	return refuse(op, edgewise.NotFound, id, "model %q has no version %d", id.Name, id.Version)
}
