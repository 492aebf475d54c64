package onnxfile

import (
	"fmt"

	"github.com/edgewise-ai/edgewise"
)

const operation = "onnxfile.Read"

func invalid(format string, args ...any) error {
	return edgewise.Errorf(operation, edgewise.Invalid, format, args...)
}

func tooLarge(format string, args ...any) error {
	return edgewise.Errorf(operation, edgewise.TooLarge, format, args...)
}

func unsupported(format string, args ...any) error {
	return edgewise.Errorf(operation, edgewise.Unsupported, format, args...)
}

// within says in which thing an error lies. The kind stays; nil stays nil.
func within(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return edgewise.Errorf(operation, edgewise.KindOf(err), "%s: %w", fmt.Sprintf(format, args...), err)
}
