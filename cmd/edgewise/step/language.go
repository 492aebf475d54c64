package step

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// Language is what a step is written in.
type Language uint8

// The languages.
const (
	C Language = iota
	Rust
	Go
	AssemblyScript
	languages
)

var languageNames = [languages]string{"c", "rust", "go", "assemblyscript"}

// sources are the files that tell a step's language.
var sources = [languages]string{"step.c", "step.rs", "main.go", "step.ts"}

// String returns "c", "rust", "go" or "assemblyscript".
func (l Language) String() string { return languageNames[l] }

// Source is the name of the file in the step's folder that holds the step.
func (l Language) Source() string { return sources[l] }

// Languages returns all of them.
func Languages() []Language { return []Language{C, Rust, Go, AssemblyScript} }

// ParseLanguage reads the name of a language. Errors: Invalid.
func ParseLanguage(name string) (Language, error) {
	for _, l := range Languages() {
		if l.String() == name {
			return l, nil
		}
	}
	return 0, edgewise.Errorf("step.ParseLanguage", edgewise.Invalid, "language %q: want one of %s", name,
		strings.Join(languageNames[:], ", "))
}

// LanguageOf tells the language of the step in dir by its source file. Errors: NotFound (no such folder), Invalid (none
// of the source files is there, or several are).
func LanguageOf(dir string) (Language, error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return 0, edgewise.Errorf("step.LanguageOf", edgewise.NotFound, "%s is not a folder", dir)
	}
	var found []Language
	for _, l := range Languages() {
		if _, err := os.Stat(filepath.Join(dir, l.Source())); err == nil {
			found = append(found, l)
		}
	}
	if len(found) != 1 {
		return 0, edgewise.Errorf("step.LanguageOf", edgewise.Invalid, "%s holds %d of the files %s: want one, which tells the step's language",
			dir, len(found), strings.Join(sources[:], ", "))
	}
	return found[0], nil
}
