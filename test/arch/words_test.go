package arch

import (
	"go/ast"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// retired are words that this project used in senses of its own, each in its forms, with the field's word for them.
// They are looked for as whole words in code, comments, the page and the documents.
var retired = []struct{ forms, instead string }{
	{"house", "appliance"},
	{"door|doors", "frontend or listener"},
	{"familiar", "nothing: it is deleted"},
	{"vouch", "checkCSRF"},
	{"workshop", "editor"},
	{"lend|lends|lent", "borrowed buffer or lease"},
	{"loan|loans|lender", "borrowed buffer or lease"},
	{"berth|berths", "wait plan"},
	{"tempo", "run profile"},
	{"anew", "again"},
	{"who asks", "caller"},
	{"what is none", "invalid"},
	{"there and back", "round trip"},
	{"time to answer", "latency"},
	{"slowest 5 %", "p95 latency"},
	{"throw away|throws away|thrown away", "discard"},
	{"switch off|switches off|switched off", "disable"},
	{"ready when you are", "ready to activate"},
}

// excepted are files in which a retired word has its ordinary meaning or is quoted.
var excepted = []string{
	"test/arch/words_test.go",
	"docs/decisions/0037-reuse-a-parsed-request-head.md", // describes code that is deleted
	"webui/src/Shell.svelte",                             // an icon of that name
}

// texts lists the files that people write: code, documents, the page and configuration.
func texts(t *testing.T) []string {
	t.Helper()
	var list []string
	_, all := files(t)
	for _, f := range all {
		if !f.made {
			list = append(list, f.path)
		}
	}
	list = append(list, markdown(t)...)
	for _, pattern := range []string{
		"webui/src/*", "webui/src/*/*", "webui/src/*/*/*", "webui/test/*.mjs", "configs/*.yaml", "api/*.yaml",
	} {
		paths, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && !info.IsDir() && !strings.HasSuffix(path, "schema.d.ts") {
				list = append(list, strings.TrimPrefix(path, "../../"))
			}
		}
	}
	return list
}

func TestRetiredWordsAreGone(t *testing.T) {
	for _, path := range texts(t) {
		if slices.Contains(excepted, path) {
			continue
		}
		text := strings.ToLower(read(t, path))
		for _, word := range retired {
			for form := range strings.SplitSeq(word.forms, "|") {
				for at := range wholeWords(text, form) {
					t.Errorf("%s:%d: %q: write %s", path, strings.Count(text[:at], "\n")+1, form, word.instead)
				}
			}
		}
	}
}

// wholeWords yields where a word, or several, stand in a text with no letter, digit or underscore beside them. It is
// much faster than a regular expression, most of all with the race detector.
func wholeWords(text, word string) iter.Seq[int] {
	inWord := func(at int) bool {
		if at < 0 || at >= len(text) {
			return false
		}
		c := text[at]
		return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z'
	}
	return func(yield func(int) bool) {
		for from := 0; ; {
			i := strings.Index(text[from:], word)
			if i < 0 {
				return
			}
			at := from + i
			from = at + len(word)
			if inWord(at-1) || inWord(from) {
				continue
			}
			if !yield(at) {
				return
			}
		}
	}
}

func TestWholeWords(t *testing.T) {
	for text, want := range map[string]int{
		"a loan": 1, "loan, loan": 2, "loans": 0, "a_loan": 0, "loan2": 0, "loanloan loan": 1, "(loan)": 1, "\u00e9loan": 1,
	} {
		if got := len(slices.Collect(wholeWords(text, "loan"))); got != want {
			t.Errorf("%q has the word %d times, want %d", text, got, want)
		}
	}
}

// Bounds of lines in Go files, in characters.
const (
	longLine    = 120
	longestLine = 140
)

// TestLinesAreShort allows 2 % of the lines of Go files above 120 characters, and none above 140.
func TestLinesAreShort(t *testing.T) {
	lines, long := 0, 0
	for _, path := range texts(t) {
		if !strings.HasSuffix(path, ".go") {
			continue
		}
		number := 0
		for line := range strings.Lines(read(t, path)) {
			number++
			lines++
			switch n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); {
			case n > longestLine:
				t.Errorf("%s:%d: %d characters, at most %d are allowed", path, number, n, longestLine)
			case n > longLine:
				long++
			}
		}
	}
	if long*50 > lines {
		t.Errorf("%d of %d lines have more than %d characters, at most 2 %% are allowed", long, lines, longLine)
	}
}

// TestFunctionsAreShort holds that nine of ten functions outside of tests have at most 30 lines, and none above 80.
func TestFunctionsAreShort(t *testing.T) {
	set, all := files(t)
	var lengths []int
	for _, f := range all {
		if f.test || f.made || matches("test/...", f.folder) {
			continue
		}
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				n := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1
				if n > 80 {
					t.Errorf("%v: %s has %d lines, at most 80 are allowed", set.Position(fn.Pos()), fn.Name.Name, n)
				}
				lengths = append(lengths, n)
			}
		}
	}
	slices.Sort(lengths)
	if p90 := lengths[len(lengths)*9/10]; p90 > 30 {
		t.Errorf("the 90th percentile of function lengths is %d, at most 30 is allowed", p90)
	}
}
