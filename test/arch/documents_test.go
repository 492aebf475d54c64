package arch

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const architecture = "docs/architecture.md"

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// section returns what stands below a heading of a document, up to the next one.
func section(t *testing.T, path, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(read(t, path), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", path, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

func exists(name string) bool {
	_, err := os.Stat(filepath.Join("../..", name))
	return err == nil
}

// TestTheTreeIsThatOfTheRepository compares the tree in docs/architecture.md with the folders that hold Go code.
// Folders below test, configs and sdk may be left out.
func TestTheTreeIsThatOfTheRepository(t *testing.T) {
	_, tree, _ := strings.Cut(section(t, architecture, "The tree"), "```\n")
	tree, _, _ = strings.Cut(tree, "```")
	listed := map[string]bool{}
	var parents []string
	for line := range strings.Lines(tree) {
		name := strings.TrimLeft(line, " ")
		depth := (len(line) - len(name)) / 2
		name, _, _ = strings.Cut(name, " ")
		folder, isFolder := strings.CutSuffix(strings.TrimSpace(name), "/")
		if !isFolder || depth > len(parents) {
			continue // *.go, or the second line of a description
		}
		folder = path.Join(append(parents[:depth:depth], folder)...)
		parents = append(parents[:depth:depth], path.Base(folder))
		if depth == 0 {
			parents = []string{folder}
		}
		listed[folder] = true
		if !exists(folder) {
			t.Errorf("%s lists %s, which is not there", architecture, folder)
		}
	}
	_, all := files(t)
	folders := map[string]bool{}
	for _, f := range all {
		folders[f.folder] = true
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if folder != "." && !listed[folder] && !matchesAny([]string{"test/...", "configs/...", "sdk/..."}, folder) {
			t.Errorf("%s does not list %s", architecture, folder)
		}
	}
}

// TestTheImportTableIsDocumented compares the table in docs/architecture.md with the layers that TestImportsPointOneWay
// enforces.
func TestTheImportTableIsDocumented(t *testing.T) {
	code := func(names []string) string {
		switch {
		case len(names) == 0:
			return "nothing"
		case names[0] == "...":
			return "all"
		}
		return "`" + strings.ReplaceAll(strings.Join(names, "` `"), "/...", "") + "`"
	}
	var want strings.Builder
	for _, l := range layers {
		fmt.Fprintf(&want, "| %s | %s | %s |\n", l.name, strings.Replace(code(l.folders), "`.`", "the root", 1), code(l.may))
	}
	if !strings.Contains(section(t, architecture, "Imports"), want.String()) {
		t.Errorf("the table in %s differs from the layers of test/arch; it should be\n%s", architecture, want.String())
	}
}

// namedFile is a file in backquotes, by its path from the root.
var namedFile = regexp.MustCompile("`([\\w.*-]+(?:/[\\w.*-]+)*\\.(?:go|md|yaml|mjs|svelte|ts|sh|proto|c|h))`")

// link is a relative link of a document.
var link = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)

// inTree tells whether a document means a file of the repository by a name. docs/architecture.md and CONTRIBUTING.md
// name no others; other documents name files of users, too, such as step.ts.
func inTree(document, name string) bool {
	if document == architecture || document == "CONTRIBUTING.md" {
		return true
	}
	top, _, below := strings.Cut(name, "/")
	return below && (strings.HasSuffix(name, ".go") || exists(top))
}

// TestDocumentsNameFilesThatExist follows the relative links of every document, and the files that it names. Decisions
// that are not in force may name files that are deleted.
func TestDocumentsNameFilesThatExist(t *testing.T) {
	documents, links := markdown(t), 0
	for _, document := range documents {
		text := read(t, document)
		if status := decisionStatus.FindStringSubmatch(text); status == nil || status[1] == "In" {
			for _, name := range namedFile.FindAllStringSubmatch(text, -1) {
				matches, _ := filepath.Glob(filepath.Join("../..", name[1]))
				if len(matches) == 0 && inTree(document, name[1]) {
					t.Errorf("%s names %s, which is not there", document, name[1])
				}
			}
		}
		for _, to := range link.FindAllStringSubmatch(text, -1) {
			links++
			if !exists(path.Join(path.Dir(document), to[1])) {
				t.Errorf("%s links to %s, which is not there", document, to[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links were found in %d documents", links, len(documents))
	}
}

// markdown lists the documents of the repository.
func markdown(t *testing.T) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"node_modules", "bin", "dist", "data"}, d.Name()) ||
			strings.HasPrefix(d.Name(), ".") && file != "../.."):
			return fs.SkipDir
		case strings.HasSuffix(file, ".md"):
			relative, err := filepath.Rel("../..", file)
			list = append(list, relative)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var (
	decisionTitle  = regexp.MustCompile(`^# (\d{4}):? (.+)`)
	unusedNumbers  = regexp.MustCompile(`unused: [0-9, and]+`)
	decisionStatus = regexp.MustCompile(`\*\*Status\.\*\* ([A-Z]\w+)`)
)

// TestTheIndexOfDecisionsIsComplete compares docs/decisions/README.md with the decisions: number, title and status of
// each, and a reason for each number that was never used. No two of them have one number.
func TestTheIndexOfDecisionsIsComplete(t *testing.T) {
	const folder = "docs/decisions"
	index := read(t, folder+"/README.md")
	paths, err := filepath.Glob(filepath.Join("../..", folder, "[0-9]*.md"))
	if err != nil || len(paths) < 40 {
		t.Fatalf("%d decisions, %v", len(paths), err)
	}
	rows := 0
	for i, file := range paths {
		name := filepath.Base(file)
		if i > 0 && strings.HasPrefix(filepath.Base(paths[i-1]), name[:4]) {
			t.Errorf("%s/%s has the number of %s", folder, name, filepath.Base(paths[i-1]))
		}
		text := read(t, folder+"/"+name)
		title, status := decisionTitle.FindStringSubmatch(text), decisionStatus.FindStringSubmatch(text)
		if title == nil || title[1] != name[:4] {
			t.Errorf("%s does not begin with a title of the form \"# %s: ...\"", name, name[:4])
			continue
		}
		if status == nil {
			t.Errorf("%s has no line \"**Status.** ...\"", name)
			continue
		}
		row := fmt.Sprintf("| %s | [%s](%s) | %s", title[1], title[2], name, status[1])
		if !strings.Contains(index, row) {
			t.Errorf("%s/README.md lacks the row %s ... |", folder, row)
		}
		rows++
	}
	last := filepath.Base(paths[len(paths)-1])[:4]
	for n := 1; fmt.Sprintf("%04d", n) < last; n++ {
		number := fmt.Sprintf("%04d", n)
		written := slices.ContainsFunc(paths, func(path string) bool {
			return strings.HasPrefix(filepath.Base(path), number)
		})
		if unused := strings.Contains(unusedNumbers.FindString(index), number); unused == written {
			t.Errorf("%s/README.md says that %s is unused: %v, and there is such a decision: %v", folder, number,
				unused, written)
		}
	}
	if got := strings.Count(index, "\n| 0"); got != rows {
		t.Errorf("%s/README.md has %d rows, and there are %d decisions", folder, got, rows)
	}
}
