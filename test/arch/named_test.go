package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named is a test as documents name it: `folder TestName` or `folder TestName/name of a case`.
var named = regexp.MustCompile("`([a-z0-9/]+) (Test\\w+)(?:/([^`]+))?`")

// TestTheTestsThatDocumentsNameAreThere reads tables whose rows each name a test: of the limits, which one crosses it;
// of the protocol, where it is tested. A row that names none, or one that is not there, is an error.
func TestTheTestsThatDocumentsNameAreThere(t *testing.T) {
	sources := map[string]string{}
	for _, page := range []struct {
		path, from string // the heading after which the tables stand; empty: all
		rows       int    // at least
	}{{"docs/guides/limits.md", "", 25}, {"docs/compatibility.md", "## Tests of each row", 25}} {
		text, err := os.ReadFile(filepath.Join("../..", page.path))
		if err != nil {
			t.Fatal(err)
		}
		_, tables, _ := strings.Cut(string(text), page.from)
		rows := 0
		for line := range strings.Lines(tables) {
			if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| limit ") || strings.HasPrefix(line, "| row ") {
				continue
			}
			rows++
			tests := named.FindAllStringSubmatch(line, -1)
			if len(tests) == 0 {
				t.Errorf("%s: no test is named: %s", page.path, line)
			}
			for _, test := range tests {
				folder, name, part := test[1], test[2], test[3]
				if _, read := sources[folder]; !read {
					sources[folder] = testsIn(t, folder)
				}
				if !strings.Contains(sources[folder], "func "+name+"(") {
					t.Errorf("%s: %s has no test %s", page.path, folder, name)
				}
				if part != "" && !strings.Contains(sources[folder], `"`+part+`"`) {
					t.Errorf("%s: %s has no case %q", page.path, folder, part)
				}
			}
		}
		if rows < page.rows {
			t.Errorf("%s: %d rows were found", page.path, rows)
		}
	}
}

func testsIn(t *testing.T, folder string) string {
	paths, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
