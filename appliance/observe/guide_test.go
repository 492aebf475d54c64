package observe

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
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
	sent := sentNames(t)
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

// sentNames are the names that this package sends.
func sentNames(t *testing.T) (sent []string) {
	t.Helper()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
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
	return sent
}

// TestTheFilesForGrafanaAndPrometheusNameMetricsThatExist reads each expression of configs/grafana.
func TestTheFilesForGrafanaAndPrometheusNameMetricsThatExist(t *testing.T) {
	var expressions []string
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Query any }
		}
	}
	decodeFile(t, "../../configs/grafana/edgewise.json", &dashboard)
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			expressions = append(expressions, target.Expr)
		}
	}
	for _, v := range dashboard.Templating.List {
		expressions = append(expressions, fmt.Sprint(v.Query))
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	decodeFile(t, "../../configs/grafana/alerts.yml", &rules)
	for _, r := range rules.Groups[0].Rules {
		expressions = append(expressions, r.Expr)
	}
	sent, labels := sentNames(t), allLabels(t)
	found := 0
	for _, expression := range expressions {
		for _, name := range namesIn(regexp.MustCompile(`\b((?:edgewise|nv)_[a-z0-9_]+)`), expression) {
			found++
			if base := strings.TrimSuffix(name, "_bucket"); !slices.Contains(sent, name) && !slices.Contains(sent, base) {
				t.Errorf("%s is in %q, and nobody sends it", name, expression)
			}
		}
		for _, list := range namesIn(regexp.MustCompile(`by \(([^)]*)\)`), expression) {
			for label := range strings.SplitSeq(list, ", ") {
				if !slices.Contains(labels, label) {
					t.Errorf("label %s is in %q, and nobody sends it", label, expression)
				}
			}
		}
	}
	if found < 25 {
		t.Errorf("only %d names were found in %d expressions", found, len(expressions))
	}
}

// allLabels are the labels in the sources, and those that Prometheus adds.
func allLabels(t *testing.T) []string {
	t.Helper()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	labels := []string{"instance", "le"}
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		labels = append(labels, namesIn(regexp.MustCompile(`"([a-z_]+)"`), string(text))...)
	}
	return labels
}

func decodeFile(t *testing.T, path string, value any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, value); err != nil {
		t.Fatal(err)
	}
}

func namesIn(pattern *regexp.Regexp, text string) []string {
	var names []string
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}
