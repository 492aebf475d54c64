package document

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Problem is one thing that is wrong with a document.
type Problem struct {
	File string
	Line int    // from 1; 0 when it is about the document as a whole
	Text string // complete by itself: it names the field and what was wanted
}

// String returns "file:line: text".
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// Error is everything that is wrong with a document.
type Error struct {
	Problems []Problem // in the order of the document, at least one, at most MaxProblems
	More     int       // further problems that were only counted
	TooLarge bool      // a bound of this package is crossed
}

// Error returns the problems, one a line.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\n... and %d more", e.More)
	}
	return b.String()
}

func (b *builder) errorf(line int, format string, args ...any) *Error {
	return &Error{Problems: []Problem{{File: b.file, Line: line, Text: fmt.Sprintf(format, args...)}}}
}

func (b *builder) tooLarge(line int, format string, args ...any) *Error {
	err := b.errorf(line, format, args...)
	err.TooLarge = true
	return err
}

// maxShown bounds how many bytes of a user's text a message repeats.
const maxShown = 64

func quote(text string) string { return fmt.Sprintf("%q", clip(text)) }

func clip(text string) string {
	if len(text) <= maxShown {
		return text
	}
	end := maxShown
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

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
