package oci

import (
	"maps"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

func TestADocumentOfAFleetTravelsAsAnArtifactOfItsOwn(t *testing.T) {
	s := newServer(t, registry.WithReferrersSupport(true))
	want := map[string]string{"fleet.json": `{"serial": 1}`, "fleet.json.minisig": "signature"}
	url := "oci://" + s.host + "/box/cat:current"
	r := putOf(t, url, want)
	r.Form = fetch.FormFleet
	if _, err := do(t, &r, waits); err != nil {
		t.Fatal(err)
	}
	artifacts, _, err := list(t, fetch.Request{URL: url})
	if err != nil || len(artifacts) != 1 || artifacts[0].Form != fetch.FormFleet {
		t.Errorf("%v: %+v", err, artifacts)
	}
	got, err := pull(t, fetch.Request{URL: url}, t.TempDir())
	if err != nil || !maps.Equal(got, map[string]string{"cat/1/fleet.json": want["fleet.json"], "cat/1/fleet.json.minisig": "signature"}) {
		t.Errorf("%v: %v", err, got)
	}
	r = putOf(t, url, want)
	r.Form = "song"
	_, err = do(t, &r, waits)
	wantFailure(t, err, fetch.Unsupported, "song")
}
