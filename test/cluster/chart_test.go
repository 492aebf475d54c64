//go:build cluster

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// variants are values with which the chart has to be right, each as helm's --set takes them.
var variants = map[string]string{
	"as it is": "",
	"kept":     "persistence.enabled=true,persistence.storageClass=fast,replicas=2",
	"three":    "replicas=3,disruption.minAvailable=50%",
	"gpu":      "gpu.count=1,models.persistentVolumeClaim.claimName=models",
	"scaled":   "autoscaling.enabled=true,autoscaling.minReplicas=2,autoscaling.queued=5",
	"secured": "config.auth=accounts,networkPolicy.from[0].podSelector.matchLabels.app=camera," +
		"env[0].name=EDGEWISE_LOG_LEVEL,env[0].value=debug",
	"by digest":   "image.digest=sha256:" + strings.Repeat("a1", 32),
	"from a node": "service.type=NodePort,service.headless=false,networkPolicy.enabled=false,scrape=false",
}

// TestTheChartIsInstalled installs, changes and removes the chart on a real API server.
func TestTheChartIsInstalled(t *testing.T) {
	s := startServer(t)
	number := 0
	for name, values := range variants {
		number++
		release := fmt.Sprint("box", number)
		for _, step := range [][]string{
			{"install", release, chart, "--set", values},
			{"upgrade", release, chart, "--set", values, "--set", "drainSeconds=5"},
			{"uninstall", release},
		} {
			if said, err := s.helm(t, step...); err != nil {
				t.Errorf("%s: helm %s: %v\n%s", name, step[0], err, said)
			}
		}
	}
}

// TestWrongValuesAreRefused gives the chart values that it or the API server must refuse, and looks for the reason.
func TestWrongValuesAreRefused(t *testing.T) {
	s, number := startServer(t), 0
	for values, reason := range map[string]string{
		"replica=3":                     "additional properties 'replica' not allowed",
		"replicas=many":                 "at '/replicas'",
		"image.digest=sha256:12":        "at '/image/digest'",
		"persistence.ephemeralSize=big": "at '/persistence/ephemeralSize'",
		"models.hostPath.path=/a,models.emptyDir.medium=Memory":          "at '/models'",
		"autoscaling.enabled=true,autoscaling.cpu=0":                     "autoscaling.cpu or autoscaling.queued",
		"resources.limits.memory=lots":                                   "quantities must match",
		"config.http.address=:80,models.floppyDisk.size=1440":            "floppyDisk",
		"networkPolicy.from[0].podSelector.matchLabels.app=two words":    "matchLabels",
		"autoscaling.enabled=true,autoscaling.minReplicas=5":             "maxReplicas",
		"topologySpreadConstraints[0].maxSkew=1":                         "topologyKey",
		"tolerations[0].effect=Sometimes,tolerations[0].operator=Exists": "effect",
	} {
		number++
		said, err := s.helm(t, "install", fmt.Sprint("wrong", number), chart, "--set", values)
		if err == nil {
			t.Errorf("%s: installed", values)
		} else if !strings.Contains(said, reason) {
			t.Errorf("%s: no %q in\n%s", values, reason, said)
		}
	}
}

// TestTheChartFitsFiveVersions holds what the chart makes to the API of the five newest versions, strictly.
func TestTheChartFitsFiveVersions(t *testing.T) {
	releases, err := filepath.Glob(tool("v1.*.json"))
	if err != nil || len(releases) != 5 {
		t.Fatalf("%d descriptions of the API in -cluster.tools, want 5", len(releases))
	}
	for _, file := range releases {
		release := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "v"), ".json")
		schemas := t.TempDir()
		writeSchemas(t, file, schemas)
		for name, values := range variants {
			made := render(t, values)
			if said, err := conform(t, schemas, release, made); err != nil {
				t.Errorf("%s, %s: %v\n%s", release, name, err, said)
			}
		}
		wrong := strings.Replace(render(t, ""), "readOnlyRootFilesystem", "readOnlyRoot", 1)
		if said, err := conform(t, schemas, release, wrong); err == nil || !strings.Contains(said, "readOnlyRoot") {
			t.Errorf("%s: a key that does not exist: %v\n%s", release, err, said)
		}
	}
}

func render(t *testing.T, values string) string {
	t.Helper()
	made, err := exec.CommandContext(t.Context(), tool("helm"), "template", "box", chart, "--set", values).Output()
	if err != nil {
		t.Fatalf("%s: %v", values, err)
	}
	return string(made)
}

// conform runs kubeconform on documents.
func conform(t *testing.T, schemas, release, documents string) (said string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "made.yaml")
	if err := os.WriteFile(file, []byte(documents), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), tool("kubeconform"), "-strict", "-kubernetes-version", release,
		"-schema-location", schemas+"/{{.ResourceKind}}{{.KindSuffix}}.json", file).CombinedOutput()
	return string(output), err
}
