package document

import (
	"fmt"
	"strings"
)

// Suggest returns ` (did you mean "x"?)` with the known name closest to name, or "" when none is close. Names that
// differ only in case or underscores are always close.
func Suggest(name string, known []string) string {
	best, least := "", max(1, min(3, len(name)/3))+1
	if len(name) > maxShown {
		return ""
	}
	for _, k := range known {
		d := distance(fold(name), fold(k))
		if d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

func fold(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
