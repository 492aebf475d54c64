package store

import (
	"errors"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
)

// fail wraps an error of the disk or the catalog once, where it enters the project's code. doing says what was going on and to
// which thing, such as `writing file "a.bin"`. Paths of this machine stay out of the message. An error that is one of
// ours already passes through.
func fail(op string, id edgewise.ModelID, doing string, err error) *edgewise.Error {
	if own, ok := errors.AsType[*edgewise.Error](err); ok {
		return own
	}
	kind := database.KindOf(err)
	e := edgewise.Errorf(op, kind, "%s: %w", doing, database.Bare(err))
	e.Model = id
	return e
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
