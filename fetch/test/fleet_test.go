//go:build cloud

package test

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"aead.dev/minisign"
	"github.com/google/go-containerregistry/pkg/registry"
)

// run runs a command of the program, which has to succeed, and returns what it prints.
func run(t *testing.T, env []string, arguments ...string) string {
	t.Helper()
	c := exec.Command(path(t, "bin/edgewise"), arguments...)
	c.Env = append([]string{"HOME=/nonexistent", "AWS_EC2_METADATA_DISABLED=true"}, env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("edgewise %s: %v: %s", strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

// signer makes a pair of keys: a folder with the public one, and a file with the private one.
func signer(t *testing.T) (folder, secret string) {
	t.Helper()
	public, private, err := minisign.GenerateKey(nil)
	must(t, err)
	folder, secret = t.TempDir(), filepath.Join(t.TempDir(), "fleet.key")
	text, err := public.MarshalText()
	must(t, err)
	must(t, os.WriteFile(filepath.Join(folder, "fleet.pub"), text, 0o600))
	text, err = private.MarshalText()
	must(t, err)
	must(t, os.WriteFile(secret, text, 0o600))
	return folder, secret
}

// posted are the reports that a webhook gets.
type posted struct {
	mu      sync.Mutex
	reports []report
}

// report is what a test looks at of one.
type report struct {
	Box    string `json:"box"`
	State  string `json:"state"`
	Serial int64  `json:"serial"`
}

func (p *posted) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var got report
	_ = json.NewDecoder(r.Body).Decode(&got)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports = append(p.reports, got)
}

// has tells whether a box has reported a state.
func (p *posted) has(want report) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, got := range p.reports {
		if got == want {
			return true
		}
	}
	return false
}

// TestAFleetFollowsABucket has two boxes read their document in each kind of store, and report to it and to a webhook. The second one
// waits for the report of the first.
func TestAFleetFollowsABucket(t *testing.T) {
	artifacts := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(artifacts.Close)
	host := strings.TrimPrefix(artifacts.URL, "http://")
	builder := startBox(t, t.TempDir(), nil, "--set", "auth=open")
	said := run(t, nil, "--server", builder.address, "model", "push", "vad", path(t, "dist/demo/models/vad/1/model.onnx"))
	said = run(t, nil, "--server", builder.address, "model", "push", "vad", "oci://"+host+"/models/vad:1") + said
	_, after, _ := strings.Cut(said, "@sha256:")
	reference := "oci://" + host + "/models/vad@sha256:" + after[:64]
	keys, secret := signer(t)
	eachStore(t, func(t *testing.T, s *store) {
		var hook posted
		receiver := httptest.NewServer(&hook)
		defer receiver.Close()
		s.put("models/vad/1/model.onnx", []byte("something else is in this bucket"))
		source := strings.TrimSuffix(s.urls[0], "/models") + "/fleet"
		document := filepath.Join(t.TempDir(), "shops.json")
		must(t, os.WriteFile(document, fmt.Appendf(nil, `{"format": 1, "fleet": "shops", "serial": 1,
			"groups": {"canary": {"boxes": ["a"]}, "all": {"percent": 100}},
			"models": [{"model": "vad", "reference": %q, "stages": [{"group": "canary"}, {"group": "all"}]}],
			"report": {"url": %q, "webhook": %q}}`, reference, source+"/reports", receiver.URL), 0o600))
		run(t, s.env, "fleet", "sign", document, "--key", secret, "--to", source)
		boxes := map[string]*edgewise{}
		for _, name := range []string{"b", "a"} {
			boxes[name] = startBox(t, t.TempDir(), s.env, "--set", "auth=open", "--set", "fleet.source="+source, "--set", "fleet.trusted_keys="+keys,
				"--set", "fleet.interval=1s", "--set", "fleet.box="+name)
		}
		for name, b := range boxes {
			b.wantModel("vad", 200)
			eventually(t, "a report of box "+name, func() bool { return hook.has(report{name, "converged", 1}) })
			group := map[string]string{"a": "canary", "b": "boxes"}[name]
			var stored report
			eventually(t, "a report in the bucket", func() bool {
				text, err := s.bucket.ReadAll(t.Context(), "fleet/reports/"+group+"/box-"+name+".json")
				return err == nil && json.Unmarshal(text, &stored) == nil && stored == report{name, "converged", 1}
			})
			b.stop()
		}
	})
}
