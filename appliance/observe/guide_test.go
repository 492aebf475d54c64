package observe

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheGuideNamesEveryMetric compares the names that this package sends with those in docs/guides/metrics.md, both
// ways.
func TestTheGuideNamesEveryMetric(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guides/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(guide), "## For each version")
	documented := namesIn(regexp.MustCompile("`((?:edgewise|nv)_[a-z0-9_]+)`"), tables)
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var sent []string
	for _, path := range sources {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sent = append(sent, namesIn(regexp.MustCompile(`"((?:edgewise|nv)_[a-z0-9_]+)"`), string(text))...)
	}
	if len(sent) < 70 {
		t.Fatalf("only %d names were found", len(sent))
	}
	for _, name := range sent {
		if !slices.Contains(documented, name) {
			t.Errorf("%s is not in the guide", name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(sent, name) {
			t.Errorf("the guide has %s, which nobody sends", name)
		}
	}
}

func namesIn(pattern *regexp.Regexp, text string) []string {
	var names []string
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}
