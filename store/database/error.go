package database

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/edgewise-ai/edgewise"
)

// Fail wraps an error of what is done with a whole data folder or a file in it: the path stays in the message. An error
// that is one of ours already passes through.
func Fail(op, doing, dir string, err error) *edgewise.Error {
	if own, ok := errors.AsType[*edgewise.Error](err); ok {
		return own
	}
	return edgewise.Errorf(op, KindOf(err), "%s %s: %w", doing, dir, err)
}

// KindOf returns the kind of an error of the system or of bbolt.
func KindOf(err error) edgewise.Kind {
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

// Bare strips the path that the os package puts around an error of the system.
func Bare(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return l.Err
	}
	return err
}
