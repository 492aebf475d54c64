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
