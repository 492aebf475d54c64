package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named is a test as docs/guides/limits.md names it: `folder TestName` or `folder TestName/name of a case`.
var named = regexp.MustCompile("`([a-z0-9/]+) (Test\\w+)(?:/([^`]+))?`")

// TestEveryLimitNamesTheTestsThatCrossIt reads the table of limits: each row names a test, and each test and case is there.
func TestEveryLimitNamesTheTestsThatCrossIt(t *testing.T) {
	page, err := os.ReadFile("../../docs/guides/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| limit ") {
			continue
		}
		rows++
		tests := named.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("no test crosses it: %s", line)
		}
		for _, test := range tests {
			folder, name, part := test[1], test[2], test[3]
			if _, read := sources[folder]; !read {
				sources[folder] = testsIn(t, folder)
			}
			if !strings.Contains(sources[folder], "func "+name+"(") {
				t.Errorf("%s has no test %s", folder, name)
			}
			if part != "" && !strings.Contains(sources[folder], `"`+part+`"`) {
				t.Errorf("%s has no case %q", folder, part)
			}
		}
	}
	if rows < 20 {
		t.Errorf("%d limits were found", rows)
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
