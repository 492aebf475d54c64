package model

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

func TestAPushPrintsWhatChangedInTheSignature(t *testing.T) {
	var out strings.Builder
	describePush(&out, &admin.Version{
		Name: "cat", Version: 2, Size: 1024, Digest: "0123456789abcdef", Health: &edgewise.Health{Unverified: "input \"x\" takes text"},
		SignatureChanges: []admin.Difference{
			{What: "input x", Change: "changed", From: "FP32 [4]", To: "FP32 [8]", Breaking: true},
			{What: "output y", Change: "added", To: "FP32 [1]"},
		},
	}, true)
	want := `model "cat" version 2 is live (1.0 KiB, sha256 0123456789ab)
  not verified: input "x" takes text
  signature: input x was changed from FP32 [4] to FP32 [8]: clients may fail
  signature: output y was added (FP32 [1])
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
