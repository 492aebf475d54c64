package perf

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// ParseShape reads NAME:1,3,224,224; the name may contain colons itself, and NAME: stands for a scalar. Errors say what
// is wanted.
func ParseShape(text string) (name string, shape edgewise.Shape, err error) {
	wrong := fmt.Errorf("%q: want NAME:1,3,224,224, at most %d dimensions of 0 or more", text, edgewise.MaxRank)
	i := strings.LastIndexByte(text, ':')
	if i < 1 {
		return "", nil, wrong
	}
	if text[i+1:] == "" {
		return text[:i], edgewise.Shape{}, nil
	}
	for dimension := range strings.SplitSeq(text[i+1:], ",") {
		d, err := strconv.ParseInt(strings.TrimSpace(dimension), 10, 64)
		if err != nil || d < 0 || len(shape) == edgewise.MaxRank {
			return "", nil, wrong
		}
		shape = append(shape, d)
	}
	return text[:i], shape, nil
}
