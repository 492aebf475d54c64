// Package pattern is regular expressions that are compiled when they are first used. A variable of package regexp is compiled
// at the start of every process that links its package, which each process of a model is.
package pattern

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression. It is safe for concurrent use.
type Pattern struct {
	compiled func() *regexp.Regexp
}

// New returns the pattern of an expression, which is a constant: its first use panics where that is wrong. test/arch compiles
// all of them.
func New(expression string) Pattern {
	return Pattern{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })}
}

// MatchString is that of the regular expression, as all that follow.
func (p Pattern) MatchString(s string) bool { return p.compiled().MatchString(s) }

// FindString returns the first match.
func (p Pattern) FindString(s string) string { return p.compiled().FindString(s) }

// FindStringSubmatch returns the first match and its groups, nil when there is none.
func (p Pattern) FindStringSubmatch(s string) []string { return p.compiled().FindStringSubmatch(s) }

// FindSubmatch is FindStringSubmatch of bytes.
func (p Pattern) FindSubmatch(s []byte) [][]byte { return p.compiled().FindSubmatch(s) }

// FindAllStringSubmatch returns at most n matches with their groups, all of them when n is below 0.
func (p Pattern) FindAllStringSubmatch(s string, n int) [][]string {
	return p.compiled().FindAllStringSubmatch(s, n)
}

// FindAllSubmatch is FindAllStringSubmatch of bytes.
func (p Pattern) FindAllSubmatch(s []byte, n int) [][][]byte { return p.compiled().FindAllSubmatch(s, n) }

// ReplaceAllString replaces all matches.
func (p Pattern) ReplaceAllString(s, by string) string { return p.compiled().ReplaceAllString(s, by) }
