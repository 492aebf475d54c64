package tensorflow

import (
	"fmt"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

func invalid(format string, args ...any) error {
	return edgewise.Errorf(opDecode, edgewise.Invalid, format, args...)
}

// place names a value in a list of rows.
func place(member string, row int, name string) string {
	return fmt.Sprintf("%s[%d].%s", member, row, name)
}

// names lists the names of tensors, for messages.
func names(specs []edgewise.Spec) string {
	list := make([]string, len(specs))
	for i, s := range specs {
		list[i] = s.Name
	}
	return strings.Join(list, ", ")
}
