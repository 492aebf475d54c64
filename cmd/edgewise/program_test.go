package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

func TestABoxWithACertificateOfItsOwnLeadsToTheFlagForIt(t *testing.T) {
	box := httptest.NewTLSServer(nil)
	defer box.Close()
	var out, stderr strings.Builder
	p := &program{cli.Program{Out: &out, Err: &stderr}}
	if code := p.run(t.Context(), []string{"--server", box.URL, "model", "list"}); code != exitUnavailable ||
		!strings.Contains(stderr.String(), "--ca takes") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}
